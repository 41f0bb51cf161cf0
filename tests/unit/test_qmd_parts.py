"""What qmd is asked, and what its answers and its ends mean; the index as it tells of collections and words."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lspipe import qmd, qmdindex, qmdprogram, urls, words
from lspipe.exits import Exit, LspipeError, Precondition, Upstream

WORDS = st.text(alphabet="ab Z\"-'_.:()*@#é日本ß\n\t", max_size=30)


# What it is asked


@pytest.mark.parametrize(("text", "asked"), [
    ("rust async", "rust async"), ("how do I cancel a task?", "cancel task"), ("the who", "the who"), ("how", "how"),
    ('"async runtime" rust', '"async runtime" rust'), ('the "the"', '"the"'), ("rust -async", "rust -async"),
    ('rust -"async drop"', 'rust -"async drop"'), ("node.js", '"node js"'), ("foo_bar", '"foo bar"'),
    ("Straße CAFÉ", "Straße CAFÉ"), ("title:rust async", "rust async"), ("日本語", "日本語"), ("a:b", '"a b"'),
    ("(x OR", "x"), ('"unbalanced quote', '"unbalanced quote"'), ("--socket", "socket"), ("don't", '"don t"'),
    ("rust rust", "rust"), ("x\ny", "x y"),
])
def test_the_words_of_a_question(text: str, asked: str) -> None:
    found = qmd.question(text)
    assert found.text(found.terms) == asked


def test_all_words_are_kept_where_all_are_wanted() -> None:
    found = qmd.question("how to cancel", all_terms=True)
    assert found.text(found.terms) == "how to cancel"


@pytest.mark.parametrize(("text", "hopeless", "checked"), [
    ("", True, False), ("   ", True, False), ("*", True, False), ("!?", True, False), ("-socket", True, False),
    ("site:docs.rs rust", True, False), ("rust", False, False), ("title:rust", False, True),
    ("rust -url:draft", False, True), ("rust -draft", False, False),
])
def test_what_cannot_be_found(text: str, hopeless: bool, checked: bool) -> None:
    found = qmd.question(text)
    assert (found.hopeless, found.checked) == (hopeless, checked)


@given(text=WORDS)
def test_nothing_that_is_typed_becomes_an_option_or_syntax(text: str) -> None:
    found = qmd.question(text)
    asked = found.text(found.terms)
    assert asked.count('"') % 2 == 0 and "\n" not in asked
    assert not set("()*:@#") & set(asked)
    argv = qmd.arguments(["/bin/node", "/x/qmd.js"], "search", asked, ["-x"], 5)
    assert argv[-2:] == ["--", asked]
    assert argv[:argv.index("--")] == [
        "/bin/node", "/x/qmd.js", "search", "--format=json", "-n", "5", "--collection=-x"]


def test_options_stand_before_the_words() -> None:
    """Behind `--` qmd takes everything for the query, `--format json` too."""
    assert qmd.arguments(["qmd"], "vsearch", "a b", ["n", "m"], None, full=True) == [
        "qmd", "vsearch", "--format=json", "--all", "--full", "--collection=n", "--collection=m", "--", "a b"]


@given(text=WORDS)
def test_the_expression_is_one_that_fts5_takes(text: str) -> None:
    found = qmd.question(text)
    if found.terms:
        base = sqlite3.connect(":memory:")
        base.execute("CREATE VIRTUAL TABLE f USING fts5(x, tokenize='porter unicode61')")
        base.execute("SELECT * FROM f WHERE f MATCH ?", (qmd.match(found.terms, found.unwanted),)).fetchall()
        base.close()


# What it answers


def item(**changes: Any) -> dict[str, Any]:
    return {"docid": "#2ad850", "score": 0.89, "file": "qmd://notes/d/a b.md", "line": 3, "title": "A",
            "snippet": "@@ -2,3 @@ (1 before, 0 after)\r\none\r\nneedle two\r\n", **changes}


def hit(**changes: Any) -> qmd.Hit:
    (found,) = qmd.answer(orjson.dumps([item(**changes)])).hits
    return found


def test_a_hit() -> None:
    found = hit()
    assert found == qmd.Hit("notes", "d/a b.md", 3, "A", "#2ad850", "one\r\nneedle two\r\n", False)
    assert found.url == "qmd://notes/d/a%20b.md"
    assert hit(body="x\ny").whole and hit(body="x\ny").body == "x\ny"
    assert hit(snippet="no header").body == "no header"
    assert hit(snippet=None, title=7, line="3", docid=None)[2:6] == (None, None, None, "")
    assert hit(line=True).line is None and hit(line=0).line is None


@given(path=st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text and text.isprintable()))
def test_the_url_of_a_page_is_percent_encoded(path: str) -> None:
    url = hit(file="qmd://Notes/" + path).url
    assert url.isascii() and " " not in url and url.startswith("qmd://Notes/")
    assert urls.file_path("file:///" + url.removeprefix("qmd://Notes/")) == b"/" + path.encode()


@pytest.mark.parametrize("bad", [
    {"file": None}, {"file": "/notes/a.md"}, {"file": "qmd://notes"}, {"file": "qmd:///a"}, {"file": "qmd://n/a\0b"}])
def test_an_element_that_is_none_is_counted(bad: dict[str, Any]) -> None:
    found = qmd.answer(orjson.dumps([item(**bad), item(), 7, None]))
    assert (len(found.hits), found.strange) == (1, 3)


def test_the_order_is_that_of_the_answer() -> None:
    """Scores are rounded until they are equal."""
    found = qmd.answer(orjson.dumps([item(file=f"qmd://n/{name}", score=score)
                                     for name, score in (("b", 0.89), ("a", 0.9), ("c", 0.89))]))
    assert [one.path for one in found.hits] == ["b", "a", "c"]
    assert qmd.answer(b"[]\n") == qmd.Answer([], 0)


@pytest.mark.parametrize("data", [
    b"", b"No results found.\n", b"{}", b'[{"file": ', b"\xff\x00", b"<results></results>", b"null", b"\x1b[31mhe\n"])
def test_garbage_is_said(data: bytes) -> None:
    with pytest.raises(Upstream) as caught:
        qmd.answer(data)
    assert caught.value.message.startswith("qmd printed ") and "\n" not in caught.value.message
    assert "2.8" in (caught.value.hint or "")


BODY = "# Rust\n\nno word here\nan async\r\nruntime, and more\nend\n"


@pytest.mark.parametrize(("query", "line", "expected"), [
    ("async", 4, 4), ('"async runtime"', 1, 4), ("zzz", 2, 2), ("rust", 1, 1), ("async", 99, 99),
    ("async", None, None)])
def test_the_line_of_a_match(query: str, line: int | None, expected: int | None) -> None:
    assert qmd.place(hit(body=BODY, line=line), words.parse(query)) == expected


def test_what_is_around_the_match() -> None:
    found = hit(body=BODY, line=4)
    assert qmd.around(found, 4) == "no word here\nan async\r\nruntime, and more\nend\n"
    assert qmd.around(hit(), 4) == "one\r\nneedle two\r\n"
    assert qmd.excerpt(found, 4, 1000) == BODY.replace("\r\n", "\n")
    assert qmd.excerpt(found, 5, 24) == "an async\nruntime, and mo"
    assert qmd.excerpt(found, 6, 24) == "runtime, and more\nend\n"
    assert qmd.excerpt(found, 4, 4) == "an a"
    assert qmd.excerpt(found, None, 4) == "# Ru"


@given(body=st.text(alphabet="ab\n\r日", max_size=60), line=st.integers(1, 70), limit=st.integers(1, 80))
def test_an_excerpt_is_a_part_of_the_page_and_keeps_its_limit(body: str, line: int, limit: int) -> None:
    found = qmd.excerpt(hit(body=body), line, limit)
    assert len(found) <= limit and found in body.replace("\r\n", "\n")


def test_what_lies_below_a_folder() -> None:
    assert hit().within("") and hit().within("d") and hit().within("d/a b.md")
    assert not hit().within("d/a") and not hit().within("D")


# How it ends


STACK = """file:///x/node_modules/better-sqlite3/lib/methods/wrappers.js:9
\treturn this[cppdb].exec(sql);
\t                  ^

SqliteError: file is not a database
    at Database.exec (file:///x/wrappers.js:9:20) {
  code: 'SQLITE_NOTADB'
}

Node.js v22.23.3
"""


@pytest.mark.parametrize(("code", "errors", "node", "exit", "message"), [
    (1, "Collection not found: nope\n", None, Exit.NOT_FOUND, "there is no collection 'nope'"),
    (1, "Usage: qmd search [options] <query>\n", None, Exit.UPSTREAM, "qmd ended with 1: Usage: qmd search"),
    (1, "Unknown --format value: json\nValid: cli\n", None, Exit.UPSTREAM, "Unknown --format value"),
    (1, STACK, None, Exit.UPSTREAM, "the index of qmd is damaged: file is not a database"),
    (1, "SqliteError: database disk image is malformed", None, Exit.UPSTREAM, "is damaged"),
    (1, "SqliteError: attempt to write a readonly database\n code: 'SQLITE_READONLY_DIRECTORY'", None, Exit.UPSTREAM,
     "attempt to write a readonly database"),
    (1, "SqliteError: database is locked", None, Exit.UPSTREAM, "database is locked"),
    (1, "", None, Exit.UPSTREAM, "qmd ended with 1"),
    (1, "Error: Failed to parse /tmp/x/index.yml: YAMLParseError: Flow at line 2", None, Exit.UPSTREAM,
     "qmd cannot read its settings"),
    (-11, "", "v20.20.2", Exit.PRECONDITION, "qmd needs Node 22 or newer; this one is v20.20.2"),
    (139, "", "v20.20.2", Exit.PRECONDITION, "qmd needs Node 22 or newer"),
    (1, "Error: ERR_DLOPEN_FAILED", "v18.0.0", Exit.PRECONDITION, "qmd needs Node 22 or newer"),
    (-11, "", "v22.23.3", Exit.UPSTREAM, "qmd was killed by signal 11"),
    (-9, "", None, Exit.UPSTREAM, "qmd was killed by signal 9"),
    (143, "\x1b[?25h", None, Exit.UPSTREAM, "qmd was killed by signal 15"),
    (3, "\x1b[33mnope\x1b[0m\n", None, Exit.UPSTREAM, "qmd ended with 3: nope"),
])
def test_what_an_end_means(code: int, errors: str, node: str | None, exit: Exit, message: str) -> None:
    found = qmd.trouble(code, errors, node)
    assert found is not None and found.code == exit
    assert message in found.message and "\x1b" not in found.message and found.hint


def test_a_good_end_is_no_trouble_whatever_it_warns_of() -> None:
    assert qmd.trouble(0, "Warning: 3 documents (100%) need embeddings.", None) is None


@pytest.mark.parametrize(("code", "errors", "asked"), [
    (-11, "", True), (139, "", True), (-6, "", True), (-9, "", False), (-15, "", False), (1, "Usage", False),
    (0, "", False),
    (1, "Error [ERR_DLOPEN_FAILED]: NODE_MODULE_VERSION 115", True)])
def test_node_is_asked_for_its_version_only_where_it_may_be_the_reason(code: int, errors: str, asked: bool) -> None:
    assert qmd.ask_version(code, errors) is asked


@pytest.mark.parametrize(("version", "old"), [
    ("2.8.3", False), ("2.7.9", True), ("0.9.0", True), ("3", False), ("10.0.0", False), ("", False), ("x", False)])
def test_versions(version: str, old: bool) -> None:
    assert qmd.too_old(version, qmd.OLDEST) is old


# What is installed


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as npm makes it, with nothing in the script; and a program `node` on PATH."""
    package = tmp_path / "lib/node_modules/@tobilu/qmd"
    (package / "dist/cli").mkdir(parents=True)
    (package / "bin").mkdir()
    (package / "package.json").write_text('{"version": "2.8.3"}')
    (package / "dist/cli/qmd.js").write_text("")
    (tmp_path / "bin").mkdir()
    for program in (package / "bin/qmd", tmp_path / "bin/node"):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (tmp_path / "bin/qmd").symlink_to(package / "bin/qmd")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_the_script_is_started_and_not_its_launcher(installed: Path) -> None:
    found = qmdprogram.find()
    assert found.command == [str(installed / "bin/node"),
                             str(installed / "lib/node_modules/@tobilu/qmd/dist/cli/qmd.js")]
    assert found.read[0] == str(installed / "lib/node_modules")


def test_the_node_beside_qmd_comes_first(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = installed / "other"
    other.mkdir()
    (other / "node").write_text("#!/bin/sh\n")
    (other / "node").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}:{installed / 'bin'}")
    assert qmdprogram.find().node == str(installed / "bin/node")
    (installed / "bin/node").unlink()
    assert qmdprogram.find().node == str(other / "node")


@pytest.mark.parametrize(("spoil", "message"), [
    ("bin/qmd", "cannot find the program 'qmd'"), ("bin/node", "cannot find the program 'node', which runs qmd"),
    ("lib/node_modules/@tobilu/qmd/dist/cli/qmd.js", "is not the qmd that npm installs")])
def test_what_is_not_installed(installed: Path, spoil: str, message: str) -> None:
    (installed / spoil).unlink()
    with pytest.raises(Precondition) as caught:
        qmdprogram.find()
    assert message in caught.value.message and "npm install" in (caught.value.hint or "")


def test_a_qmd_that_is_too_old(installed: Path) -> None:
    (installed / "lib/node_modules/@tobilu/qmd/package.json").write_text('{"version": "0.9.0"}')
    with pytest.raises(Precondition, match="is qmd 0.9.0: too old"):
        qmdprogram.find()


def test_a_program_that_anybody_can_change_is_not_run(installed: Path) -> None:
    (installed / "bin").chmod(0o777)
    with pytest.raises(Precondition) as caught:
        qmdprogram.find()
    assert "anybody can change it" in (caught.value.hint or "")


def test_models_that_are_missing(tmp_path: Path) -> None:
    folder = str(tmp_path / "models")
    assert qmdprogram.missing_models("search", folder, "") == []
    assert len(qmdprogram.missing_models("vsearch", folder, "")) == 2
    assert len(qmdprogram.missing_models("query", folder, "")) == 3
    os.mkdir(folder)
    for name in ("hf_ggml-org_embeddinggemma-300M-Q8_0.gguf", "hf_x_qmd-query-expansion-1.7B-q4_k_m.gguf"):
        (tmp_path / "models" / name).write_bytes(b"GGUF")
    assert qmdprogram.missing_models("vsearch", folder, "") == []
    assert qmdprogram.missing_models("query", folder, "") == ["qwen3-reranker-0.6b-q8_0.gguf"]
    config = "models:\n  embed: hf:x/y/Mine-Q8.gguf\n  rerank: \"hf:x/y/hf_x_qmd-query-expansion-1.7B-q4_k_m.gguf\"\n"
    assert qmdprogram.missing_models("query", folder, config) == ["Mine-Q8.gguf"]


# The index


PAGES = {"notes/a.md": "rust async and cancellation", "notes/b.md": "rust async", "notes/c.md": "rust async drop",
         "notes/d.md": "cooking rust", "other/e.md": "async cooking bread"}


def index(path: Path, pages: dict[str, str] = PAGES, store: bool = True) -> None:
    """The tables of qmd 2.8 that are read."""
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE documents (id INTEGER PRIMARY KEY, collection TEXT, path TEXT, title TEXT, hash TEXT,
            created_at TEXT, modified_at TEXT, active INTEGER DEFAULT 1);
        CREATE TABLE content_vectors (hash TEXT, seq INTEGER);
        CREATE VIRTUAL TABLE documents_fts USING fts5(filepath, title, body, tokenize='porter unicode61');
    """)
    if store:
        base.execute("CREATE TABLE store_collections (name TEXT PRIMARY KEY, path TEXT, pattern TEXT,"
                     " include_by_default INTEGER)")
        base.executemany("INSERT INTO store_collections VALUES(?, ?, '**/*.md', ?)",
                         [("notes", "/wiki/notes", 1), ("other", "/wiki/other", 0)])
    for number, (name, text) in enumerate(pages.items(), 1):
        collection, _, page = name.partition("/")
        base.execute("INSERT INTO documents VALUES(?, ?, ?, '', '', '', '2026-07-01T00:00:00.123Z', 1)",
                     (number, collection, page))
        base.execute("INSERT INTO documents_fts(rowid, filepath, title, body) VALUES(?, ?, '', ?)",
                     (number, name, text))
    base.commit()
    base.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[qmdindex.Place]:
    index(tmp_path / "index.sqlite")
    yield qmdindex.Place(str(tmp_path / "index.sqlite"), str(tmp_path), private=True)


def known(place: qmdindex.Place) -> list[qmdindex.Collection]:
    conn = qmdindex.connect(place)
    try:
        return qmdindex.collections(conn)
    finally:
        conn.close()


def test_the_collections_of_an_index(place: qmdindex.Place) -> None:
    assert known(place) == [qmdindex.Collection("notes", "/wiki/notes"),
                            qmdindex.Collection("other", "/wiki/other", default=False)]


def test_an_index_that_knows_no_folders(tmp_path: Path) -> None:
    index(tmp_path / "i", store=False)
    assert known(qmdindex.Place(str(tmp_path / "i"), "", True)) == [
        qmdindex.Collection("notes", None), qmdindex.Collection("other", None)]


def test_an_index_without_a_page_is_none(tmp_path: Path) -> None:
    """As qmd leaves one behind when it searches where there is none."""
    index(tmp_path / "i", pages={})
    with pytest.raises(Precondition, match="no index"):
        known(qmdindex.Place(str(tmp_path / "i"), "", True))


def test_when_a_page_was_changed(place: qmdindex.Place) -> None:
    conn = qmdindex.connect(place)
    assert qmdindex.modified(conn, "notes", "a.md") == 1_782_864_000_123_000
    assert qmdindex.modified(conn, "notes", "none.md") is None
    with pytest.raises(sqlite3.DatabaseError):
        conn.execute("SELECT * FROM content_vectors")
    conn.close()
    assert not qmdindex.has_vectors(place)


@pytest.mark.parametrize(("folders", "parts"), [
    (["/wiki"], [("notes", ""), ("other", "")]), (["/wiki/notes"], [("notes", "")]),
    (["/wiki/notes/x/y"], [("notes", "x/y")]), (["/wiki/not"], []), (["/"], [("notes", ""), ("other", "")]),
    (["/wiki/other/a.md", "/wiki/other/b"], [("other", "a.md"), ("other", "b")])])
def test_collections_below_a_folder(place: qmdindex.Place, folders: list[str], parts: list[tuple[str, str]]) -> None:
    assert [(part.collection.name, part.below) for part in qmdindex.below(known(place), folders)] == parts


@pytest.mark.parametrize(("query", "among", "chosen"), [
    ("rust async cancellation zzz", ["notes"], "rust async cancellation"), ("rust bread", ["notes"], "rust"),
    ("rust bread", ["other"], "bread"), ("rust cooking cancellation", ["notes"], "rust cooking"),
    ("zzz yyy", ["notes"], ""), ("cancelled rusts zzz", ["notes"], "cancelled rusts"), ("canc bre", [], "canc"),
    ("rust zzz -async", ["notes"], "rust"), ("cancellation zzz -async", ["notes"], ""),
])
def test_fewer_words_from_the_rarest_on(place: qmdindex.Place, query: str, among: list[str], chosen: str) -> None:
    found = qmdindex.fewer(place, qmd.question(query), among, lambda: False)
    assert " ".join(term.text for term in found) == chosen


def test_an_index_that_tells_nothing_of_words(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "i").close()
    place = qmdindex.Place(str(tmp_path / "i"), "", True)
    assert qmdindex.fewer(place, qmd.question("rust async"), [], lambda: False) == []


def test_counting_stops_when_time_is_over(tmp_path: Path) -> None:
    index(tmp_path / "i", {f"n/{number}": "rust async " * 50 for number in range(3000)})
    place = qmdindex.Place(str(tmp_path / "i"), "", True)
    assert qmdindex.fewer(place, qmd.question("rust async zzz"), ["n"], lambda: True) == []


def prepared(source: Path, tmp: Path, config: bytes | None = None) -> qmdindex.Place:
    tmp.mkdir()
    opened = qmdindex.open_index(str(source))
    try:
        return qmdindex.prepare(opened, str(source), config, str(tmp))
    finally:
        opened.close()


def test_a_copy_holds_what_is_only_in_the_log(tmp_path: Path) -> None:
    source = tmp_path / "index.sqlite"
    index(source)
    writer = sqlite3.connect(source)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE store_collections SET path = '/moved' WHERE name = 'notes'")
    writer.commit()
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    place = prepared(source, tmp_path / "run", b"collections:\n")
    assert place.private and known(place)[0].path == "/moved"
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()
            if path.is_file()} == before
    assert Path(place.index).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "run/config/index.yml").read_bytes() == b"collections:\n"
    writer.close()
    place.clear()
    assert os.listdir(tmp_path / "run") == ["config"]


def test_a_large_index_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index(tmp_path / "index.sqlite")
    monkeypatch.setattr(qmdindex, "MOST", 1000)
    place = prepared(tmp_path / "index.sqlite", tmp_path / "run")
    assert (place.index, place.private) == (str(tmp_path / "index.sqlite"), False)
    place.clear()
    assert len(known(place)) == 2


@pytest.mark.parametrize(("data", "exit", "message"), [
    (None, Exit.PRECONDITION, "no index"), (b"", Exit.PRECONDITION, "no index"),
    (b"not a database at all, though long enough to be one" * 100, Exit.UPSTREAM, "damaged"),
])
def test_an_index_that_is_none(tmp_path: Path, data: bytes | None, exit: Exit, message: str) -> None:
    source = tmp_path / "index.sqlite"
    if data is not None:
        source.write_bytes(data)
    with pytest.raises(LspipeError) as caught:
        known(prepared(source, tmp_path / "run"))
    assert caught.value.code == exit and message in caught.value.message
    assert "qmd collection add" in (caught.value.hint or "")
    assert source.exists() is (data is not None)


def test_an_index_with_broken_pages(tmp_path: Path) -> None:
    source = tmp_path / "index.sqlite"
    index(source)
    with open(source, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 20_000)
    with pytest.raises(Upstream, match="damaged"):
        known(prepared(source, tmp_path / "run"))


def test_settings_are_made_where_there_are_none(tmp_path: Path) -> None:
    place = qmdindex.Place("", str(tmp_path), True)
    place.configure([qmdindex.Collection("a b", "/x"), qmdindex.Collection("n", None, "*.md", False)])
    assert orjson.loads((tmp_path / "index.yml").read_bytes()) == {"collections": {
        "a b": {"path": "/x", "pattern": "**/*.md", "includeByDefault": True},
        "n": {"path": "/nowhere", "pattern": "*.md", "includeByDefault": False}}}


def test_settings_are_read_whole_or_not(tmp_path: Path) -> None:
    assert qmdindex.read_config(str(tmp_path)) is None
    (tmp_path / "qmd").mkdir()
    (tmp_path / "qmd/index.yml").write_text("collections: {}\n")
    assert qmdindex.read_config(str(tmp_path)) == b"collections: {}\n"
    (tmp_path / "qmd/index.yml").write_bytes(b"x" * (1 << 20 | 1))
    with pytest.raises(Precondition, match="longer than"):
        qmdindex.read_config(str(tmp_path))
