"""ls-qmd with the real qmd and Node: what it finds, what it leaves alone, and every way in which either can fail."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest
import support
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lspipe import row, schema

SCHEMA = schema.load("row")
PAGES = 1000
FEW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose qmd has indexed a thousand notes in `notes` and two pages in `other`."""
    support.need_qmd()
    home = tmp_path_factory.mktemp("wiki")
    notes = home / "notes"
    for number in range(PAGES):
        folder = notes / f"d{number // 50:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"n{number}.md").write_text(
            f"# Note {number}\n\nOf group{number % 10} things.\n\nA needle{number} lies in the hay.\n")
    (notes / "a b&ü%20.md").write_text("# Odd\r\n\r\nAn async\r\nruntime with an oddword.\r\n")
    (notes / "long.md").write_text("# Long\n\n" + "filling words\n" * 500 + "a faraway match\n" + "more of it\n" * 500)
    os.utime(notes / "long.md", (1_784_000_000, 1_784_000_000))
    (notes / "d00/sub").mkdir()
    (notes / "d00/sub/deep.md").write_text("# Deep\n\nrust async cancellation in depth\n")
    (home / "other").mkdir()
    (home / "other/x.md").write_text("# Other\n\nrust async in another place\n")
    (home / "other/y.md").write_text("# Bread\n\nrye bread\n")
    support.make_wiki(home, notes)
    support.make_wiki(home, home / "other", "other")
    return home


@pytest.fixture
def place(tmp_path: Path, built: Path) -> support.Home:
    """A home with a copy of that index, all of it granted."""
    home = support.Home(tmp_path, elsewhere=built)
    home.consent({"family": "wiki"})
    return home


def found(home: support.Home, *args: str, code: int = 0, **how: Any) -> list[dict[str, Any]]:
    done = home.run("ls-qmd", *args, **how)
    assert done.code == code, done.err
    if code == 0:
        assert done.err == b""
    assert home.runs == []
    for number, one in enumerate(done.rows, 1):
        assert list(support.strangers(SCHEMA, one)) == [] and one["rank"] == number and "score" not in one
    return done.rows


def failed(home: support.Home, code: int, message: str, *args: str, **how: Any) -> str:
    """It ends with `code` and says `message`; the line that says what to do."""
    done = home.run("ls-qmd", *(args or ("async",)), **how)
    assert done.code == code and done.out == b"", (done.code, done.err)
    support.assert_one_line(done.err, "ls-qmd")
    assert message in done.err.decode(), done.err
    assert home.runs == []
    return done.err.decode().splitlines()[-1]


def urls_of(rows: list[dict[str, Any]]) -> list[str]:
    return [one["url"].removeprefix("qmd://") for one in rows]


def index_of(home: support.Home) -> Path:
    return home.home / ".cache/qmd/index.sqlite"


def look(home: support.Home) -> dict[str, tuple[int, int, bytes]]:
    """Everything that qmd has in the home: its time, its inode, its bytes."""
    paths = [path for folder in (".cache", ".config") for path in (home.home / folder).rglob("*")]
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino, path.read_bytes() if path.is_file() else b"")
            for path in paths}


# What it finds


def test_each_of_a_thousand_notes(place: support.Home) -> None:
    before = look(place)
    report = place.root / "report"
    rows = found(place, "hay", "--max-chars", "0", "--report", str(report))
    assert len(rows) == PAGES and len({one["id"] for one in rows}) == PAGES
    assert {one["title"] for one in rows} == {f"Note {number}" for number in range(PAGES)}
    facts = orjson.loads(report.read_bytes())
    assert facts["rows_out"] == PAGES and facts["notes"] == [] and facts["truncated"] is False
    assert look(place) == before


def test_what_a_row_says(place: support.Home, built: Path) -> None:
    (one,) = found(place, "how is the needle777 in the hay")
    path = built / "notes/d15/n777.md"
    with contextlib.closing(sqlite3.connect(index_of(place))) as base:
        changed = base.execute("SELECT modified_at FROM documents WHERE path = 'd15/n777.md'").fetchone()[0]
    docid = one["meta"].pop("docid")
    assert docid.startswith("#") and len(docid) == 7
    assert one == {
        "id": row.identify("wiki", None, None, "qmd://notes/d15/n777.md"),
        "query_id": row.query_id("how is the needle777 in the hay"), "query": "how is the needle777 in the hay",
        "source": "wiki", "rank": 1, "title": "Note 777", "url": "qmd://notes/d15/n777.md",
        "snippet": "A needle777 lies in the hay.", "text": path.read_text(),
        "matched_terms": ["needle777", "hay"], "accessed_at": changed.replace("Z", "000Z"),
        "location": {"path": str(path), "line": 5},
        "provenance": {"retriever": "wiki", "method": "qmd", "acl": "authorized", "private": True},
        "meta": {"collection": "notes"},
    }


def test_a_page_with_an_odd_name(place: support.Home, built: Path) -> None:
    for query in ("oddword", '"async runtime"'):
        (one,) = found(place, query)
        assert one["url"] == "qmd://notes/a%20b%26%C3%BC%2520.md"
        assert one["location"] == {"path": str(built / "notes/a b&ü%20.md"), "line": 4 if query == "oddword" else 3}
        assert one["snippet"].endswith("An async runtime with an oddword.") and "@@" not in one["snippet"]


def test_text_is_around_the_match(place: support.Home) -> None:
    (one,) = found(place, "faraway", "--max-chars", "100")
    assert len(one["text"]) == 100 and "a faraway match" in one["text"]
    assert one["location"]["line"] == 503 and len(one["snippet"]) <= 300 and "faraway" in one["snippet"]
    (one,) = found(place, "faraway", "--max-chars", "0")
    assert "text" not in one and "faraway" in one["snippet"] and "@@" not in one["snippet"]
    assert one["location"]["line"] == 503


def test_time_is_that_of_the_file(place: support.Home) -> None:
    (one,) = found(place, "faraway")
    assert one["accessed_at"] == "2026-07-14T03:33:20.000000Z"
    now = ["--now", support.NOW]
    assert urls_of(found(place, "faraway", *now, "--since", "9d")) == ["notes/long.md"]
    assert found(place, "faraway", *now, "--until", "2026-07-01") == []
    assert len(found(place, "hay", *now, "--since", "2026-07-15", "-n", "5")) == 5


def test_a_page_that_is_gone_is_still_found_and_has_no_file(place: support.Home) -> None:
    base = sqlite3.connect(index_of(place))
    base.execute("UPDATE documents SET path = 'gone.md' WHERE path = 'long.md'")
    base.commit()
    base.close()
    (one,) = found(place, "faraway")
    assert one["url"] == "qmd://notes/gone.md" and one["location"] == {"line": 503}


@pytest.mark.parametrize(("query", "expected"), [
    ("rust async", ["notes/d00/sub/deep.md", "other/x.md"]), ("rust async cancellation", ["notes/d00/sub/deep.md"]),
    ("rust -cancellation", ["other/x.md"]), ('"async cancellation"', ["notes/d00/sub/deep.md"]),
    ('"cancellation async"', []), ("title:deep rust", ["notes/d00/sub/deep.md"]), ("url:other rust", ["other/x.md"]),
    ("rust -title:deep", ["other/x.md"]), ("site:docs.rs rust", []), ("-rust", []), ("*", []), ("!?", []),
    ("zzz", []), ("canc", ["notes/d00/sub/deep.md"]), ("CANCELLED", ["notes/d00/sub/deep.md"]),
    ("-n", []), ("--format", []), ("what is rust async?", ["notes/d00/sub/deep.md", "other/x.md"]),
])
def test_the_query_language(place: support.Home, query: str, expected: list[str]) -> None:
    assert sorted(urls_of(found(place, "--", query))) == expected


@pytest.mark.parametrize(("query", "asked", "expected"), [
    ("how do I do rust bread", "rust", ["notes/d00/sub/deep.md", "other/x.md"]),
    ("cancellation zzz yyy rust", "cancellation, rust", ["notes/d00/sub/deep.md"]),
])
def test_fewer_words_where_no_page_holds_all(place: support.Home, query: str, asked: str, expected: list[str]) -> None:
    report = place.root / "report"
    rows = found(place, query, "--report", str(report), *(["--collection", "notes"] if "zzz" in query else []))
    note = "no page holds every word; asked for: "
    chosen = orjson.loads(report.read_bytes())["notes"][0].removeprefix(note)
    if "bread" in query:  # Equally rare or not, one of the two is asked for.
        assert chosen in ("rust", "bread") and rows
        assert rows[0]["matched_terms"] == [chosen]
    else:
        assert chosen == asked and sorted(urls_of(rows)) == expected
        assert rows[0]["matched_terms"] == asked.split(", ")
    assert found(place, query, "--all-terms") == []


def test_a_path_that_leads_out_of_its_collection_is_no_file_of_it(place: support.Home) -> None:
    base = sqlite3.connect(place.home / ".cache/qmd/index.sqlite")
    base.execute("UPDATE documents SET path = ? WHERE path = 'long.md'", ("../" * 30 + "etc/passwd",))
    base.commit()
    base.close()
    one, = found(place, "faraway")
    assert one["location"] == {"line": 503}


def test_a_limit_and_what_it_held_back(place: support.Home) -> None:
    report = place.root / "report"
    whole = found(place, "group3", "--max-chars", "0")
    assert len(whole) == 100
    for limit, truncated in (("3", True), ("100", False), ("1000", False)):
        rows = found(place, "group3", "-n", limit, "--max-chars", "0", "--report", str(report))
        assert len(rows) == min(int(limit), 100)
        assert orjson.loads(report.read_bytes())["truncated"] is truncated
    assert found(place, "group3", "-n", "0") == []
    assert place.run("ls-qmd", "zzz", "--exit-status").code == 1


@FEW
@given(query=st.text(alphabet="ab Z\"-'_.:()*@#é日\n\t\r$`\\", min_size=1, max_size=20).filter(str.strip))
@example(query="-foo").via("qmd swallows it as an option")
@example(query="--socket")
@example(query="-- -socket --format json")
@example(query="*")
@example(query='"unbalanced').via("FTS5 would refuse it")
@example(query="(x OR")
@example(query="a:b")
@example(query="x" * 20_000)
def test_no_query_is_an_option_or_breaks_anything(place: support.Home, query: str) -> None:
    before = look(place)
    done = place.run("ls-qmd", "--", query)
    assert (done.code, done.err) == (0, b"")
    assert look(place) == before


# What is searched


def test_a_grant_is_for_one_index_wherever_the_environment_leads(place: support.Home) -> None:
    """The other index has collections of the same names: it could hold anything."""
    moved = place.home / "moved"
    shutil.copytree(place.home / ".cache", moved)
    index = place.home / ".cache/qmd/index.sqlite"
    place.consent({"family": "wiki", "collection": "other", "index": str(index)})
    assert len(found(place, "bread")) == 1
    env = place.env(XDG_CACHE_HOME=str(moved))
    done = place.run("ls-qmd", "bread", env=env)
    assert (done.code, done.out) == (5, b"")
    assert f"granted for another index of qmd, '{index}'".encode() in done.err
    done = place.run("ls-query", "--source", "wiki", "--jsonl", "bread", env=env)
    assert (done.code, done.out) == (5, b"")
    place.consent({"family": "wiki", "collection": "other"})  # Written by hand, for any index.
    assert len(found(place, "bread", env=env)) == 1


@pytest.mark.parametrize(("args", "expected"), [
    (["--collection", "other"], ["other/x.md"]), (["--collection", "notes"], ["notes/d00/sub/deep.md"]),
    (["--collection", "notes", "--collection", "other"], ["notes/d00/sub/deep.md", "other/x.md"]),
    (["--path", "{}/other"], ["other/x.md"]), (["--path", "{}"], ["notes/d00/sub/deep.md", "other/x.md"]),
    (["--path", "{}/notes/d00"], ["notes/d00/sub/deep.md"]), (["--path", "{}/notes/d01"], []),
    (["--path", "{}/notes/d00/sub/deep.md", "--path", "{}/other"], ["notes/d00/sub/deep.md", "other/x.md"]),
    (["--path", "{}/other", "--collection", "notes"], []), (["--path", "/"], ["notes/d00/sub/deep.md", "other/x.md"]),
    (["--path", "/usr"], []), (["--profile", "Default"], ["notes/d00/sub/deep.md", "other/x.md"]),
])
def test_scope(place: support.Home, built: Path, args: list[str], expected: list[str]) -> None:
    args = [word.replace("{}", str(built)) for word in args]
    assert sorted(urls_of(found(place, "rust", *args))) == expected
    if "--collection" in args:
        return
    assert sorted(urls_of(found(place, "rust", *args, "-n", "9"))) == expected


def test_a_collection_that_is_not_there(place: support.Home) -> None:
    hint = failed(place, 3, "there is no collection 'nope'", "--collection", "nope", "rust")
    assert hint == "there are: notes, other"
    done = place.run("ls-qmd", "--collection", "nope", "--collection", "other", "rust")
    assert done.code == 3 and urls_of(done.rows) == ["other/x.md"]


def test_a_granted_collection_that_is_not_there(place: support.Home) -> None:
    place.consent({"family": "wiki", "collection": "nots"})
    assert failed(place, 3, "there is no collection 'nots'", "rust") == "qmd collection list shows those that there are"
    place.consent({"family": "wiki", "collection": "nots"}, {"family": "wiki", "collection": "other"})
    done = place.run("ls-qmd", "rust")
    assert done.code == 7 and urls_of(done.rows) == ["other/x.md"]
    assert done.err == b"ls-qmd: there is no collection 'nots', which is granted\n"


def test_its_sandbox_is_tried_without_a_query(place: support.Home) -> None:
    done = place.run("ls-qmd", "--sandbox-report")
    assert done.code == 0 and done.rows


def test_a_path_that_is_not_there(place: support.Home) -> None:
    failed(place, 3, "no such file or folder", "--path", "none", "rust")


def test_a_collection_that_qmd_alone_does_not_know(place: support.Home) -> None:
    """Its settings were changed by hand since it last ran."""
    config = place.home / ".config/qmd/index.yml"
    config.write_text(config.read_text().replace("other:", "renamed:"))
    failed(place, 3, "there is no collection 'other'", "--collection", "other", "rust")


def test_a_collection_that_is_searched_only_where_it_is_named(place: support.Home) -> None:
    config = place.home / ".config/qmd/index.yml"
    base = sqlite3.connect(index_of(place))
    base.execute("UPDATE store_collections SET include_by_default = 0 WHERE name = 'other'")
    base.commit()
    base.close()
    config.write_text(config.read_text().replace("  other:", "  other:\n    includeByDefault: false"))
    assert urls_of(found(place, "rust")) == ["notes/d00/sub/deep.md"]
    assert urls_of(found(place, "rust", "--collection", "other")) == ["other/x.md"]


def test_without_settings_of_its_own(place: support.Home) -> None:
    shutil.rmtree(place.home / ".config")
    assert len(found(place, "rust")) == 2 and len(found(place, "rust", "--collection", "other")) == 1
    assert not (place.home / ".config").exists()


def test_consent(place: support.Home) -> None:
    place.consent()
    assert failed(place, 5, "no consent") == "ls-consent grant wiki"
    place.consent({"family": "wiki", "collection": "other", "public": True}, {"family": "files", "path": "/"})
    (one,) = found(place, "rust")
    assert one["url"] == "qmd://other/x.md" and one["provenance"]["private"] is False
    assert failed(place, 5, "collection 'notes': no consent", "--collection", "notes", "rust") == (
        "ls-consent grant wiki notes")
    done = place.run("ls-qmd", "--collection", "notes", "--collection", "other", "rust")
    assert done.code == 7 and urls_of(done.rows) == ["other/x.md"]
    assert found(place, "hay") == []
    place.consent({"family": "wiki", "collection": "other", "public": True}, {"family": "wiki", "collection": "notes"})
    assert {one["url"]: one["provenance"]["private"] for one in found(place, "rust")} == {
        "qmd://other/x.md": False, "qmd://notes/d00/sub/deep.md": True}


# No side effects


def test_without_an_index_none_is_made(place: support.Home) -> None:
    index_of(place).unlink()
    before = look(place)
    assert failed(place, 5, "no index") == "qmd collection add FOLDER --name NAME, then qmd update"
    shutil.rmtree(place.home / ".cache")
    failed(place, 5, "no index")
    assert not (place.home / ".cache").exists()
    index_of(place).parent.mkdir(parents=True)
    index_of(place).write_bytes(b"")
    failed(place, 5, "no index")
    assert len(before) == len(look(place)) - 1 or index_of(place).read_bytes() == b""


def test_an_index_that_qmd_left_behind_without_a_page(place: support.Home) -> None:
    index_of(place).unlink()
    env = {**place.env(), "HOME": str(place.home)}
    subprocess.run(["qmd", "search", "x"], env=env, cwd=place.home, capture_output=True, timeout=support.PATIENCE)
    assert index_of(place).stat().st_size > 0
    failed(place, 5, "no index: there is no page in the one of qmd")


def test_what_is_only_in_the_log_is_found_and_nothing_is_checkpointed(place: support.Home) -> None:
    base = sqlite3.connect(index_of(place))
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("PRAGMA wal_autocheckpoint = 0")
    base.execute("UPDATE documents SET path = 'moved.md' WHERE path = 'long.md'")
    base.commit()
    before = look(place)
    assert urls_of(found(place, "faraway")) == ["notes/moved.md"]
    assert look(place) == before
    base.close()


def test_a_locked_index_does_not_matter(place: support.Home) -> None:
    base = sqlite3.connect(index_of(place), isolation_level=None)
    base.execute("BEGIN IMMEDIATE")
    assert len(found(place, "rust")) == 2
    base.close()


def test_a_read_only_folder_does_not_matter(place: support.Home) -> None:
    index_of(place).chmod(0o400)
    index_of(place).parent.chmod(0o500)
    try:
        assert len(found(place, "rust")) == 2
    finally:
        index_of(place).parent.chmod(0o700)


def test_a_link_to_an_index(place: support.Home) -> None:
    real = place.home / "elsewhere.sqlite"
    index_of(place).rename(real)
    index_of(place).symlink_to(real)
    assert len(found(place, "rust")) == 2


def test_a_large_index_is_searched_where_it_is_and_the_report_says_so(place: support.Home) -> None:
    with open(index_of(place), "ab") as file:
        file.truncate((256 << 20) + 4096)  # Pages that belong to no table.
    report = place.root / "report"
    assert len(found(place, "rust", "--report", str(report))) == 2
    (note,) = orjson.loads(report.read_bytes())["notes"]
    assert note.startswith("the index of qmd has 256 MiB") and "could write in its folder" in note
    base = sqlite3.connect(index_of(place))
    assert base.execute("SELECT count(*) FROM store_collections").fetchone() == (2,)
    base.close()


def test_settings_of_a_project_above_the_run_are_not_its_settings(place: support.Home) -> None:
    for folder in (place.home, place.root, place.state):
        (folder / ".qmd").mkdir(parents=True, mode=0o700)
        (folder / ".qmd/index.yml").write_text("collections: {}\n")
    place.state.chmod(0o700)
    assert len(found(place, "rust")) == 2


def test_no_socket_and_one_program(place: support.Home) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log = place.root / "log"
    done = subprocess.run(
        [strace, "-f", "-qq", "-e", "trace=socket,connect,bind,execve", "-o", str(log),
         *support.command("ls-qmd", "rust")],
        env=place.env(), cwd=place.home, stdin=subprocess.DEVNULL, capture_output=True, timeout=support.PATIENCE)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    calls = log.read_text(errors="replace").splitlines()
    assert not [line for line in calls if not ("execve(" in line or "= -1" in line or "--- SIG" in line)], calls
    assert len([line for line in calls if "execve(" in line]) == 2


@pytest.mark.parametrize("mode", ["vsearch", "query"])
def test_without_models_a_search_by_meaning_ends_at_once(place: support.Home, mode: str) -> None:
    hint = failed(place, 5, f"--qmd-mode {mode} needs models", "--qmd-mode", mode, "rust", "--timeout", "0.5")
    assert "qmd pull" in hint


def test_without_vectors_a_search_by_meaning_ends_at_once(place: support.Home) -> None:
    models = place.home / ".cache/qmd/models"
    models.mkdir()
    for name in ("embeddinggemma-300M-Q8_0", "qmd-query-expansion-1.7B-q4_k_m"):
        (models / f"hf_x_{name}.gguf").write_bytes(b"GGUF")
    assert failed(place, 5, "has no vectors", "--qmd-mode", "vsearch", "rust") == "qmd embed"


# How it can fail


@pytest.mark.parametrize("spoil", [
    lambda data: b"this is no database, and long enough to be one\n" * 100, lambda data: data[:5000],
    lambda data: data[:100] + b"\xff" * 40_000 + data[40_100:], lambda data: b"\0" * 4096])
def test_a_damaged_index(place: support.Home, spoil: Any) -> None:
    index_of(place).write_bytes(spoil(index_of(place).read_bytes()))
    before = look(place)
    assert "build it again" in failed(place, 4, "the index of qmd is damaged", "rust")
    assert look(place) == before


def test_pages_that_only_qmd_reads_are_damaged(place: support.Home) -> None:
    base = sqlite3.connect(index_of(place))
    page, = base.execute("SELECT rootpage FROM sqlite_master WHERE name = 'documents_fts_data'").fetchone()
    size, = base.execute("PRAGMA page_size").fetchone()
    base.close()
    with open(index_of(place), "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    failed(place, 4, "the index of qmd is damaged", "rust")


def test_a_file_that_is_not_ours_or_none(place: support.Home) -> None:
    index_of(place).unlink()
    os.mkfifo(index_of(place))
    failed(place, 4, "not a regular file")
    index_of(place).unlink()
    index_of(place).mkdir()
    failed(place, 4, "not a regular file")


@pytest.mark.parametrize("held", [False, True])
def test_settings_that_are_no_file(place: support.Home, held: bool) -> None:
    """A FIFO, with nobody who writes into it, and with somebody who does not."""
    file = place.home / ".config/qmd/index.yml"
    file.unlink()
    os.mkfifo(file)
    writer = os.open(file, os.O_RDWR) if held else None
    failed(place, 5, f"cannot read '{file}': not a regular file", "rust")
    if writer is not None:
        os.close(writer)


def test_settings_that_are_no_yaml(place: support.Home) -> None:
    (place.home / ".config/qmd/index.yml").write_text("collections: [\n\t{")
    failed(place, 4, "qmd cannot read its settings", "rust")


@pytest.mark.parametrize("name", ["qmd", "node"])
def test_a_program_that_is_missing(place: support.Home, name: str) -> None:
    folder = place.root / "programs"
    folder.mkdir()
    other = {"qmd": "node", "node": "qmd"}[name]
    (folder / other).symlink_to(os.path.realpath(shutil.which(other, path=place.env()["PATH"]) or ""))
    hint = failed(place, 5, f"cannot find the program '{name}'", "rust", env=place.env(PATH=str(folder)))
    assert "npm install -g @tobilu/qmd" in hint


def test_an_old_node(place: support.Home) -> None:
    """It starts, and dies by SIGSEGV when it opens the index."""
    old = next((path for path in ("/usr/bin/node", "/usr/local/bin/node") if os.path.exists(path)), None)
    said = "" if old is None else subprocess.run([old, "--version"], capture_output=True, text=True).stdout.strip()
    if old is None or int(said[1:].partition(".")[0]) >= 22:
        pytest.skip("there is no Node older than 22 here")
    folder = place.root / "programs"
    folder.mkdir()
    (folder / "node").symlink_to(old)
    (folder / "qmd").symlink_to(os.path.realpath(shutil.which("qmd", path=place.env()["PATH"]) or ""))
    hint = failed(place, 5, f"qmd needs Node 22 or newer; this one is {said}", "rust", env=place.env(PATH=str(folder)))
    assert "Node 22" in hint


def other_qmd(home: support.Home, script: str) -> dict[str, str]:
    """The environment in which qmd is this script, run by the real Node: what may stand in the place of qmd."""
    package = home.root / "node_modules/@tobilu/qmd"
    (package / "dist/cli").mkdir(parents=True)
    (package / "bin").mkdir()
    (package / "package.json").write_text('{"version": "2.8.3", "type": "module"}')
    (package / "bin/qmd").write_text("#!/usr/bin/env node\n")
    (package / "bin/qmd").chmod(0o755)
    (package / "dist/cli/qmd.js").write_text(script)
    return home.env(PATH=f"{package / 'bin'}:{home.env()['PATH']}")


@pytest.mark.parametrize(("script", "code", "message"), [
    ("console.log('hello')", 4, "qmd printed 'hello'"), ("", 4, "qmd printed nothing"),
    ("console.log('{\"a\": 1}')", 4, "qmd printed '{"), ("console.log('No results found.')", 4, "No results found."),
    ("process.stdout.write(Buffer.from([255, 0, 27, 91]))", 4, "qmd printed"),
    ("process.stdout.write('[{\"file\": \"qmd://notes/a')", 4, "qmd printed '[{"),
    ("process.kill(process.pid, 'SIGSEGV')", 4, "qmd was killed by signal 11"),
    ("process.kill(process.pid, 'SIGKILL')", 4, "qmd was killed by signal 9"),
    ("process.kill(process.pid, 'SIGTERM'); setInterval(() => {}, 1000)", 4, "qmd was killed by signal 15"),
    ("process.abort()", 4, "qmd was killed by signal 6"),
    ("console.log('[]'); process.exit(3)", 4, "qmd ended with 3"),
    ("console.error('\\x1b[31mUsage: qmd search\\x1b[0m'); process.exit(1)", 4, "qmd ended with 1: Usage: qmd search"),
    ("throw new Error('some\\nlines')", 4, "qmd ended with 1: some"),
    ("nonsense nonsense", 4, "qmd ended with 1: Unexpected identifier"),
])
def test_what_else_it_can_do(place: support.Home, script: str, code: int, message: str) -> None:
    failed(place, code, message, "rust", env=other_qmd(place, script))


def test_an_answer_of_another_shape_is_counted(place: support.Home) -> None:
    answer = [7, {"file": "/etc/passwd"}, {"file": "qmd://notes/a.md", "line": "x", "score": "high", "title": None},
              {"file": "qmd://secret/a.md", "title": "not asked for"}]
    env = other_qmd(place, f"console.log({orjson.dumps(orjson.dumps(answer).decode()).decode()})")
    done = place.run("ls-qmd", "rust", env=env)
    assert done.code == 7 and urls_of(done.rows) == ["notes/a.md"]
    assert b"2 results of qmd are of another shape" in done.err


@pytest.mark.parametrize("script", [
    "setInterval(() => {}, 1000)", "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)",
    "console.log('['); setInterval(() => console.error('x'.repeat(1e5)), 1)", "for (;;) {}",
    "console.log('[]'); setInterval(() => {}, 1000)",
])
def test_one_that_does_not_end_is_ended(place: support.Home, script: str) -> None:
    env = other_qmd(place, script)
    hint = failed(place, 6, "qmd had not answered when time was over", "rust", "--timeout", "1.5s", env=env)
    assert "--timeout" in hint
    assert not processes(place)


def test_one_that_prints_without_end_is_ended(place: support.Home) -> None:
    env = other_qmd(place, "const b = Buffer.alloc(1 << 22, 120); for (;;) { try { require('fs') } catch {} ;"
                           "process.stdout.write(b) ; await new Promise((go) => setImmediate(go)) }")
    failed(place, 4, "qmd printed more than 64 MiB", "rust", "--timeout", "60s", env=env)
    assert not processes(place)


# Killed


def processes(home: support.Home) -> list[int]:
    """Whatever runs with this home's state folder in its environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(home.root).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def child_of(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL],
                         ids=lambda number: number.name)
def test_killed_in_the_middle_it_leaves_nothing(place: support.Home, number: signal.Signals) -> None:
    """The real qmd, stopped in the middle so that it is there for certain; the index is as it was."""
    before = look(place)
    with place.start("ls-qmd", "rust") as process:
        support.until(lambda: any(is_node(pid) for pid in child_of(process.pid)), "qmd runs", process)
        for pid in child_of(process.pid):
            os.kill(pid, signal.SIGSTOP)
        done = support.end_by(process, number, what="ls-qmd")
    assert (done.code, done.err) == (-number, b"")
    support.until(lambda: not processes(place), "every process has ended")
    if number == signal.SIGKILL:
        assert place.runs
        assert place.run("ls-clean", "--apply").code == 0
    assert place.runs == []
    assert look(place) == before


def is_node(pid: int) -> bool:
    try:
        return b"qmd.js" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@linux
def test_qmd_itself_killed_in_the_middle(place: support.Home) -> None:
    before = look(place)
    with place.start("ls-qmd", "rust") as process:
        support.until(lambda: any(is_node(pid) for pid in child_of(process.pid)), "qmd runs", process)
        (pid,) = child_of(process.pid)
        os.kill(pid, signal.SIGKILL)
        assert process.wait(support.PATIENCE) == 4
        assert process.stderr is not None and b"qmd was killed by signal 9" in process.stderr.read()
    assert place.runs == [] and look(place) == before and not processes(place)


@linux
def test_the_words_of_a_query_are_not_in_the_ledger(place: support.Home) -> None:
    with place.start("ls-qmd", "needle77 secretword") as process:
        support.until(lambda: any(is_node(pid) for pid in child_of(process.pid)), "qmd runs", process)
        (run,) = (place.state / "run").iterdir()
        rows = b"".join(path.read_bytes() for path in run.glob("*.json"))
        assert b"secretword" not in rows and b'"purpose":"qmd"' in rows
        assert (run / "tmp/index.sqlite").stat().st_mode & 0o777 == 0o600
        process.send_signal(signal.SIGTERM)
        process.wait(support.PATIENCE)


def test_words_need_no_quotes_and_none_are_wrong(place: support.Home) -> None:
    assert urls_of(found(place, "rust", "async", "cancellation")) == ["notes/d00/sub/deep.md"]
    for args in ([], [""], [" ", ""]):
        done = place.run("ls-qmd", *args)
        assert (done.code, done.out) == (2, b"")
        support.assert_one_line(done.err, "ls-qmd")
