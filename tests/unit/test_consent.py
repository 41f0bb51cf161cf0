"""The grants file under bad hands, two writers and sudden death."""

import os
import shutil
import signal
import subprocess
import sys

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lspipe import consent, schema
from lspipe.consent import Consent
from lspipe.exits import Deadline, LspipeError, Precondition, WriteFailed
from lspipe.narrow import AUDIENCES, DATA, Grant, plain_path

ROOT = os.geteuid() == 0
YEAR_9999 = 253_402_300_799_999_999
NOTES = Grant("files", path="/home/ada/notes")


def write(folder, text: bytes | str, mode: int = 0o600) -> str:
    file = consent.file_of(str(folder))
    with open(file, "wb") as stream:
        stream.write(text.encode() if isinstance(text, str) else text)
    os.chmod(file, mode)
    return file


def grants_text(*rows: dict, v: object = 1) -> str:
    return orjson.dumps({"v": v, "grants": rows}).decode()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "config"
    made.mkdir(mode=0o700)
    return made


# Loading


def test_no_file_and_no_folder_are_no_grants(tmp_path, folder):
    for place in (folder, tmp_path / "nowhere"):
        found = consent.load(str(place))
        assert found.grants == ()
        assert found.file == str(place / "consent.json")
        assert "no consent file" in str(found.note)


def test_a_file_written_by_hand(folder):
    write(folder, """
    {"v": 1, "grants": [
      {"family": "files", "path": "/home/ada/notes/"},
      {"family": "browser", "browser": "chromium", "profile": "Default", "data": ["history"],
       "path": "/home/ada/.config/chromium/Default", "expires_at": "2027-01-31T00:00:00+01:00"},
      {"family": "wiki"}
    ]}""")
    files, browser, wiki = consent.load(str(folder)).grants
    assert files == NOTES
    assert files.audience == ("shell",)
    assert (files.public, files.ino, files.expires_at) == (False, None, None)
    assert browser.data == ("history",)
    assert browser.expires_at == 1_801_350_000_000_000
    assert wiki == Grant("wiki")


FILES = {"family": "files", "path": "/p"}
BROWSER = {"family": "browser", "browser": "chromium", "profile": "Default", "data": ["tabs"], "path": "/p"}
WIKI = {"family": "wiki"}


def test_every_example_of_the_format_loads(folder):
    for example in schema.load("consent")["properties"]["grants"]["examples"]:
        write(folder, grants_text(*example))
        assert len(consent.load(str(folder)).grants) == len(example)
    for key, value in schema.load("consent")["$defs"]["grant"]["properties"].items():
        assert value["description"]
        for example in value["examples"]:
            rows = [{**row, key: example} for row in (FILES, BROWSER, WIKI, {"family": "files"})]
            if key == "family":
                rows = [row for row in (FILES, BROWSER, WIKI) if row["family"] == example]
            fitting = [row for row in rows if schema.checker("consent")({"v": 1, "grants": [row]})]
            assert fitting, (key, example)
            write(folder, grants_text(*fitting))
            consent.load(str(folder))


UNUSABLE = {
    "empty": ("", "not JSON"),
    "not JSON": ("{v: 1}", "not JSON"),
    "cut off": ('{"v": 1, "grants": [', "not JSON"),
    "not UTF-8": (b'{"v": 1, "grants": [{"family": "files", "path": "/\xff"}]}', "not JSON"),
    "two values": ('{"v": 1, "grants": []} {"v": 1, "grants": []}', "not JSON"),
    "too deep": ('{"v": 1, "grants": ' + "[" * 100_000 + "]" * 100_000 + "}", "not JSON"),
    "a list": ("[]", "object"),
    "null": ("null", "object"),
    "no version": ('{"grants": []}', "v"),
    "no grants": ('{"v": 1}', "grants"),
    "a newer version": (grants_text(v=2), "format version 2, this lspipe reads 1"),
    "a fractional version": (grants_text(v=1.5), "format version 1.5"),
    "an older version": (grants_text(v=0), "format version 0"),
    "a version in words": (grants_text(v="1"), "v:"),
    "a version of another type": (grants_text(v=True), "v:"),
    "a misspelt limit": (grants_text({**FILES, "expire_at": None}), "expire_at"),
    "a key beside grants": ('{"v": 1, "grants": [], "note": 1}', "note"),
    "another family": (grants_text({"family": "mail", "path": "/p"}), "family"),
    "no path": (grants_text({"family": "files"}), "path"),
    "a profile without path": (grants_text({k: v for k, v in BROWSER.items() if k != "path"}), "path"),
    "a profile without data": (grants_text({k: v for k, v in BROWSER.items() if k != "data"}), "data"),
    "no data at all": (grants_text({**BROWSER, "data": []}), "data"),
    "unknown data": (grants_text({**BROWSER, "data": ["cookies"]}), "data"),
    "data of files": (grants_text({**FILES, "data": ["history"]}), "data"),
    "a public profile": (grants_text({**BROWSER, "public": True}), "public"),
    "a relative path": (grants_text({**FILES, "path": "notes"}), "path"),
    "a home of the shell": (grants_text({**FILES, "path": "~/notes"}), "path"),
    "a path that climbs": (grants_text({**FILES, "path": "/p/../etc"}), "grants.0.path"),
    "a NUL in a path": (grants_text({**FILES, "path": "/p\0"}), "grants.0.path"),
    "two paths": (grants_text({**FILES, "path_b64": "L3A="}), "path"),
    "a path that is no base64": (grants_text({"family": "files", "path_b64": "L3A"}), "grants.0.path_b64"),
    "a relative path in base64": (grants_text({"family": "files", "path_b64": "cA=="}), "grants.0.path"),
    "a wiki with a path": (grants_text({"family": "wiki", "path": "/p"}), "path"),
    "an audience that is a word": (grants_text({**FILES, "audience": "shell"}), "audience"),
    "no audience": (grants_text({**FILES, "audience": []}), "audience"),
    "an unknown audience": (grants_text({**FILES, "audience": ["web"]}), "audience"),
    "an end that is a day": (grants_text({**FILES, "expires_at": "2027-01-31"}), "expires_at"),
    "an end that never comes": (grants_text(FILES, {**FILES, "expires_at": "2027-02-30T00:00:00Z"}),
                                "grants.1.expires_at"),
    "an end in numbers": (grants_text({**FILES, "expires_at": 1801350000}), "expires_at"),
    "an inode in numbers": (grants_text({**FILES, "ino": 5}), "ino"),
    "too many": (grants_text(*[FILES] * 5000), "grants"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_file_that_cannot_be_used_grants_nothing(name, folder):
    text, words = UNUSABLE[name]
    file = write(folder, text)
    with pytest.raises(Precondition) as raised:
        consent.load(str(folder))
    error = raised.value
    assert error.message.startswith(f"cannot use '{file}': ")
    assert words in error.message
    assert error.hint
    assert "\n" not in error.message + error.hint
    assert len(error.message) < 400


@pytest.mark.parametrize("name", UNUSABLE)
def test_both_judges_of_the_schema_agree(name):
    try:
        value = orjson.loads(UNUSABLE[name][0])
    except orjson.JSONDecodeError:
        return
    assert schema.checker("consent")(value) is (schema.explain("consent", value) == [])


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666, 0o644])
def test_a_file_that_others_can_read_or_write_is_refused(mode, folder):
    file = write(folder, grants_text(FILES), mode)
    with pytest.raises(Precondition, match="others can (read|write) it") as raised:
        consent.load(str(folder))
    assert "chmod" in str(raised.value.hint)
    os.chmod(file, 0o400)
    assert len(consent.load(str(folder)).grants) == 1


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_refused(mode, folder):
    write(folder, grants_text(FILES))
    os.chmod(folder, mode)
    with pytest.raises(Precondition, match="others can write it"):
        consent.load(str(folder))


def test_what_is_not_a_plain_file_is_refused_and_never_waited_for(folder, tmp_path):
    file = consent.file_of(str(folder))
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(grants_text(FILES))
    elsewhere.chmod(0o600)
    for make in (
        lambda: os.symlink(elsewhere, file), lambda: os.symlink("/nowhere", file),
        lambda: os.mkfifo(file, 0o600), lambda: os.mkdir(file, 0o700),
    ):
        make()
        with pytest.raises(Precondition) as raised:
            consent.load(str(folder))
        assert file in raised.value.message
        (os.rmdir if os.path.isdir(file) and not os.path.islink(file) else os.unlink)(file)


def test_a_file_is_read_up_to_a_limit(folder):
    write(folder, grants_text(FILES) + " " * (1 << 20))
    with pytest.raises(Precondition, match="larger than"):
        consent.load(str(folder))


def test_what_belongs_to_another_user_is_refused(folder):
    if not ROOT:  # Only root can give a file away; but some folders are root's.
        with pytest.raises(Precondition, match="belongs to another user"):
            consent.update("/usr", lambda grants: grants)
        return
    file = write(folder, grants_text(FILES))
    os.chown(file, 65534, 65534)
    with pytest.raises(Precondition, match="belongs to another user"):
        consent.load(str(folder))
    os.chown(file, 0, 0)
    os.chown(folder, 65534, 65534)
    with pytest.raises(Precondition, match="belongs to another user"):
        consent.load(str(folder))


@pytest.mark.skipif(ROOT, reason="root reads everything")
def test_a_file_that_cannot_be_opened_is_not_the_same_as_none(folder):
    write(folder, grants_text(FILES), 0o000)
    with pytest.raises(Precondition):
        consent.load(str(folder))


# Writing

PARTS = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=5)
RAW = st.binary(min_size=1, max_size=5).filter(lambda part: not {0, ord("/")} & set(part)).map(os.fsdecode)
PATHS = st.lists(PARTS | RAW, min_size=1, max_size=3).map(lambda parts: plain_path("/" + "/".join(parts)))
TIMES = st.none() | st.integers(0, YEAR_9999)


def grants():
    terms = {
        "audience": st.lists(st.sampled_from(AUDIENCES), min_size=1, unique=True).map(tuple),
        "granted_at": TIMES, "expires_at": TIMES,
    }
    pins = st.just({}) | st.fixed_dictionaries(
        {"ino": st.integers(0, 2**64 - 1), "dev": st.none() | st.integers(0, 2**64 - 1),
         "boot_id": st.none() | st.just("b")})
    paths = PATHS.filter(bool)
    files = st.builds(
        lambda pin, **more: Grant("files", **pin, **more), pins, path=paths, public=st.booleans(), **terms)
    browser = st.builds(
        lambda pin, **more: Grant("browser", **pin, **more), pins, path=paths,
        browser=st.sampled_from(["chromium", "firefox"]), profile=PARTS,
        data=st.lists(st.sampled_from(DATA), min_size=1, unique=True).map(tuple), **terms)
    wiki = st.builds(Grant, st.just("wiki"), collection=st.none() | PARTS, public=st.booleans(),
                     index=st.sampled_from(["", "/a/index.sqlite"]), **terms)
    return files | browser | wiki


@given(st.lists(grants(), max_size=4).map(tuple))
@settings(max_examples=60, deadline=None)
def test_what_is_saved_is_loaded(tmp_path_factory, granted):
    place = tmp_path_factory.mktemp("config", numbered=True)
    os.chmod(place, 0o700)
    consent.save(Consent(consent.file_of(str(place)), granted))
    found = consent.load(str(place))
    assert found.grants == granted
    assert found.note is None
    value = orjson.loads((place / "consent.json").read_bytes())
    assert schema.explain("consent", value) == []
    shutil.rmtree(place)


def test_files_and_folders_are_ours_alone_whatever_the_umask(tmp_path):
    place = tmp_path / "new" / "config"
    old = os.umask(0)
    try:
        consent.update(str(place), lambda grants: (*grants, NOTES))
    finally:
        os.umask(old)
    assert os.stat(place).st_mode & 0o777 == 0o700
    assert {name: os.stat(place / name).st_mode & 0o777 for name in os.listdir(place)} == {
        "consent.json": 0o600, "consent.lock": 0o600}


def test_a_broken_file_is_not_written_over_but_can_be_replaced(folder):
    file = write(folder, "broken")
    with pytest.raises(Precondition):
        consent.update(str(folder), lambda grants: (*grants, NOTES))
    with open(file) as stream:
        assert stream.read() == "broken"
    consent.save(Consent(file))
    assert consent.load(str(folder)).grants == ()


def test_a_link_in_the_way_is_replaced_not_followed(folder, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in ("consent.json", "consent.json.new"):
        os.symlink(precious, folder / name)
    consent.save(Consent(consent.file_of(str(folder)), (NOTES,)))
    assert precious.read_text() == "precious"
    assert consent.load(str(folder)).grants == (NOTES,)
    os.unlink(folder / "consent.lock")
    os.symlink(precious, folder / "consent.lock")
    with pytest.raises(LspipeError):
        consent.save(Consent(consent.file_of(str(folder))))
    assert precious.read_text() == "precious"


def test_what_could_not_be_read_back_is_not_written(folder):
    consent.save(Consent(consent.file_of(str(folder)), (NOTES,)))
    for wrong in (Grant("files", path="/p/../q"), Grant("browser", path="/p"), Grant("wiki", audience=())):
        with pytest.raises(Precondition):
            consent.update(str(folder), lambda grants, wrong=wrong: (*grants, wrong))
    assert consent.load(str(folder)).grants == (NOTES,)
    assert sorted(os.listdir(folder)) == ["consent.json", "consent.lock"]


def test_writers_at_the_same_time_lose_nothing(folder):
    script = (
        "import sys; from lspipe import consent, narrow\n"
        "for n in range(5):\n"
        "    new = narrow.Grant('files', path=f'/{sys.argv[2]}/{n}')\n"
        "    consent.update(sys.argv[1], lambda grants: consent.add(grants, new))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(folder), str(n)]) for n in range(6)]
    assert [process.wait() for process in running] == [0] * 6
    found = {grant.path for grant in consent.load(str(folder)).grants}
    assert found == {f"/{process}/{n}" for process in range(6) for n in range(5)}


def test_a_lock_that_is_held_is_waited_for_and_given_up(folder, monkeypatch):
    monkeypatch.setattr(consent, "_LOCK_SECONDS", 0.1)

    def inner(grants):
        with pytest.raises(Deadline, match=r"consent\.lock"):
            consent.update(str(folder), lambda grants: (NOTES,))
        return grants

    consent.update(str(folder), inner)
    assert consent.load(str(folder)).grants == ()


STRACE = shutil.which("strace")
CALLS = ("openat", "write", "fsync", "rename", "unlink", "flock", "close", "read")
ADD = (
    "import sys; from lspipe import consent, narrow\n"
    "new = narrow.Grant('files', path='/new')\n"
    "consent.update(sys.argv[1], lambda grants: consent.add(grants, new))\n"
)


def interrupted(folder, call: str, fault: str, number: int) -> subprocess.CompletedProcess:
    """A process that adds a grant, with a fault at the `number`-th `call` on the folder or a file in it."""
    places = [folder, *(folder / name for name in ("consent.json", "consent.json.new", "consent.lock"))]
    argv = [STRACE, "-qq", "-o", os.devnull, *(word for place in places for word in ("-P", str(place))),
            "-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={number}",
            sys.executable, "-c", ADD, str(folder)]
    return subprocess.run(argv, capture_output=True, check=False)


@pytest.mark.skipif(STRACE is None, reason="strace is missing")
@pytest.mark.parametrize("call", CALLS)
def test_death_at_any_moment_leaves_the_old_file_or_the_new(call, folder):
    before, after = (NOTES,), (NOTES, Grant("files", path="/new"))
    deaths = 0
    for number in range(1, 20):
        for name in os.listdir(folder):
            os.unlink(folder / name)
        consent.save(Consent(consent.file_of(str(folder)), before))
        done = interrupted(folder, call, "signal=KILL", number)
        if done.returncode == 0:
            break
        assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), done.stderr
        deaths += 1
        assert consent.load(str(folder)).grants in (before, after)
        consent.update(str(folder), lambda grants: consent.add(grants, after[1]))
        assert consent.load(str(folder)).grants == after
        assert sorted(os.listdir(folder)) == ["consent.json", "consent.lock"]
    assert deaths or call == "unlink"


@pytest.mark.skipif(STRACE is None, reason="strace is missing")
@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_full_disk_leaves_the_old_file(call, folder):
    consent.save(Consent(consent.file_of(str(folder)), (NOTES,)))
    done = interrupted(folder, call, "error=ENOSPC", 1)
    assert b"WriteFailed: cannot write" in done.stderr
    assert b"no space left on device" in done.stderr
    assert consent.load(str(folder)).grants == (NOTES,)
    assert sorted(os.listdir(folder)) == ["consent.json", "consent.lock"]


@pytest.mark.skipif(ROOT, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written(folder):
    os.chmod(folder, 0o500)
    with pytest.raises((WriteFailed, Precondition)):
        consent.update(str(folder), lambda grants: (NOTES,))


# Adding and removing


def test_a_new_grant_takes_the_place_of_the_old_one_for_the_same_thing():
    old = Grant("browser", "chromium", "Default", data=("history", "tabs"), path="/p", audience=("mcp",))
    new = Grant("browser", "chromium", "Default", data=("history",), path="/p", expires_at=5)
    other = Grant("browser", "chromium", "Default", data=("history",), path="/q")
    changed = consent.add((old, NOTES, other), new)
    assert [(grant.path, grant.data) for grant in changed] == [
        ("/p", ("tabs",)), (NOTES.path, ()), ("/q", ("history",)), ("/p", ("history",))]
    assert changed[-1] is new
    assert consent.add((NOTES,), Grant("files", path=NOTES.path, public=True)) == (
        Grant("files", path=NOTES.path, public=True),)


@given(st.lists(grants(), max_size=5), grants())
def test_after_adding_each_thing_and_kind_stands_once(granted, new):
    changed = consent.add(granted, new)
    assert changed[-1] == new
    for grant in changed[:-1]:
        if grant.target == new.target:
            assert grant.data and not set(grant.data) & set(new.data)
    for grant in granted:
        if grant.target != new.target:
            assert grant in changed


def test_removing_whole_grants_or_kinds_of_them():
    both = Grant("browser", "chromium", "Default", data=("history", "tabs"), path="/p")
    assert consent.remove((both, NOTES), lambda grant: grant == both) == (NOTES,)
    left = consent.remove((both, NOTES), lambda grant: grant == both, ("tabs", "reading"))
    assert [grant.data for grant in left] == [("history",), ()]
    assert consent.remove((both,), lambda grant: True, ("history", "tabs")) == ()
