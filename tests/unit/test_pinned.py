"""Granted folders that are not what they were: replaced, moved, another's, swapped for links while one looks."""

import os
import threading
from dataclasses import replace

import pytest

from lspipe import pinned
from lspipe.narrow import Grant, Refusal, Scope

ROOT = os.geteuid() == 0


@pytest.fixture
def granted(tmp_path):
    """(folder, its grant): /…/granted with one folder, one file and one FIFO in it."""
    place = tmp_path / "granted"
    (place / "inner").mkdir(parents=True)
    (place / "file").write_text("x")
    os.mkfifo(place / "fifo")
    return place, pinned.pin(Grant("files", path=os.path.realpath(place)))


def reasons(grant: Grant, *paths: str) -> tuple[str, str] | None:
    before = len(os.listdir("/dev/fd"))
    refusal = pinned.verify(Scope(grant, paths or (grant.path,)))
    assert len(os.listdir("/dev/fd")) == before
    return (refusal.reason, refusal.detail) if refusal else None


def test_a_pinned_folder_is_ok(granted):
    place, grant = granted
    assert grant.ino == os.stat(place).st_ino
    assert reasons(grant) is None
    assert reasons(grant, grant.path, *(f"{grant.path}/{name}" for name in ("inner", "file", "fifo"))) is None
    assert pinned.state(grant, 0) == ("ok", None)


def test_held_descriptors_are_the_things_themselves(granted):
    place, grant = granted
    held = pinned.hold(Scope(grant, (grant.path, grant.path + "/inner")))
    inner = os.stat(place / "inner").st_ino
    place.rename(place.with_name("moved"))
    assert [os.fstat(fd).st_ino for fd in held] == [grant.ino, inner]
    for fd in held:
        assert not os.get_inheritable(fd)
        os.close(fd)


def test_a_replaced_folder_asks_again(granted):
    place, grant = granted
    place.rename(place.with_name("old"))
    place.mkdir()
    reason, detail = reasons(grant)
    assert (reason, detail.split(":")[0]) == ("no-consent", "changed since the grant")
    assert pinned.state(grant, 0)[0] == "changed"
    refusal = pinned.verify(Scope(grant, (grant.path,)))
    assert refusal.command == f"ls-consent grant files {grant.path}"
    assert pinned.state(pinned.pin(grant), 0)[0] == "ok"


def test_a_folder_moved_away_is_missing_and_comes_back(granted):
    place, grant = granted
    place.rename(place.with_name("away"))
    assert reasons(grant)[0] == "not-found"
    assert pinned.state(grant, 0)[0] == "missing"
    place.with_name("away").rename(place)
    assert reasons(grant) is None


@pytest.mark.parametrize("what", ["file", "link to the folder", "link elsewhere", "dangling link", "fifo"])
def test_another_kind_of_thing_in_its_place(what, granted, tmp_path):
    place, grant = granted
    old = place.with_name("old")
    place.rename(old)
    make = {
        "file": lambda: place.write_text(""), "fifo": lambda: os.mkfifo(place),
        "link to the folder": lambda: place.symlink_to(old),
        "link elsewhere": lambda: place.symlink_to(tmp_path),
        "dangling link": lambda: place.symlink_to("/nowhere"),
    }
    make[what]()
    assert reasons(grant)[0] == "no-consent"
    assert pinned.state(grant, 0)[0] == "changed"


def test_no_symbolic_link_on_the_way(granted, tmp_path):
    place, grant = granted
    (tmp_path / "way").symlink_to(tmp_path)
    by_hand = Grant("files", path=str(tmp_path / "way" / "granted"))
    reason, detail = reasons(by_hand)
    assert reason == "no-consent"
    assert f"'{os.path.realpath(place)}'" in detail
    (place / "link").symlink_to(place / "inner")
    assert reasons(grant, grant.path + "/link")[0] == "no-consent"
    assert reasons(grant, grant.path + "/link/x")[0] == "no-consent"


def test_a_folder_that_is_not_pinned_says_so(granted):
    _, grant = granted
    loose = Grant("files", path=grant.path)
    assert reasons(loose) is None
    assert pinned.state(loose, 0)[0] == "not pinned"


def test_the_device_counts_only_within_the_boot_of_the_grant(granted):
    _, grant = granted
    if grant.boot_id is None:
        pytest.skip("this system does not name its boots")
    assert reasons(replace(grant, dev=grant.dev + 1))[0] == "no-consent"
    assert reasons(replace(grant, dev=grant.dev + 1, boot_id="an earlier boot")) is None
    assert reasons(replace(grant, ino=grant.ino + 1, boot_id="an earlier boot"))[0] == "no-consent"
    assert reasons(replace(grant, dev=None)) is None


def test_a_profile_of_another_user_is_refused(granted):
    place, grant = granted
    profile = pinned.pin(Grant("browser", "chromium", "Default", data=("history",), path=grant.path))
    assert reasons(profile) is None
    if ROOT:
        os.chown(place, 65534, 65534)
    else:
        profile, grant = pinned.pin(replace(profile, path="/usr")), pinned.pin(replace(grant, path="/usr"))
    assert reasons(profile) == ("no-consent", "changed since the grant: the profile belongs to another user")
    assert reasons(grant) is None


@pytest.mark.skipif(ROOT, reason="root goes everywhere")
def test_a_folder_out_of_reach(granted):
    place, grant = granted
    os.chmod(place.parent, 0o000)
    try:
        assert reasons(grant)[0] == "not-readable"
        assert pinned.state(grant, 0)[0] == "missing"
    finally:
        os.chmod(place.parent, 0o700)


def test_expiry_comes_first_and_a_wiki_is_always_there(granted):
    _, grant = granted
    assert pinned.state(replace(grant, expires_at=5, path="/nowhere"), 5)[0] == "expired"
    assert pinned.state(Grant("wiki", index="/nowhere"), 5) == ("ok", None)
    assert pinned.state(Grant("wiki"), 5) == ("not pinned", "whatever index qmd has is read")
    assert pinned.verify(Scope(Grant("wiki"))) is None
    assert reasons(Grant("files", path="/")) is None


def test_a_swap_by_a_symbolic_link_is_never_held(granted, tmp_path):
    """A folder inside the grant is swapped, again and again, for a link to a folder outside."""
    place, grant = granted
    secret = tmp_path / "secret"
    (secret / "deep").mkdir(parents=True)
    (place / "inner" / "deep").mkdir()
    forbidden = {os.stat(secret).st_ino, os.stat(secret / "deep").st_ino}
    inner, aside, link = place / "inner", place / "aside", place / "link"
    link.symlink_to(secret)
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            inner.rename(aside)
            link.rename(inner)
            inner.rename(link)
            aside.rename(inner)

    swapping = threading.Thread(target=swap)
    swapping.start()
    held = refused = 0
    try:
        while (held < 200 or refused < 200) and held + refused < 20_000:
            found = pinned.hold(Scope(grant, (grant.path + "/inner", grant.path + "/inner/deep")))
            if isinstance(found, Refusal):
                refused += 1
                continue
            held += 1
            assert not forbidden & {os.fstat(fd).st_ino for fd in found}
            for fd in found:
                os.close(fd)
    finally:
        stop.set()
        swapping.join()
    assert held and refused
