"""chromium: which pages a History of any schema shows, when they were seen, what matches; bookmark files."""

import contextlib
import os
import random
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import profiles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import DAY, HOUR, NOON, Page, Visit

from lspipe import folding, matching, snapshot, words
from lspipe.browsers import bookmarks_json, chromium, matches, ranking
from lspipe.browsers import pages as reading
from lspipe.browsers.bookmark import Bookmark, added_within, has_tag, in_folder, joined, merged
from lspipe.browsers.layout import Wanted
from lspipe.live import Late, Unusable


@contextlib.contextmanager
def history(path: Path, wanted: Wanted | None = None) -> Iterator[reading.History]:
    with contextlib.closing(snapshot.open_all(str(path))) as source:
        conn = snapshot.connect(source, tables=chromium.TABLES)
    try:
        yield reading.History(conn, chromium.layout(conn), wanted or Wanted(NOON + HOUR))
    finally:
        conn.close()


def recent(path: Path, **wanted: object) -> list[reading.Page]:
    with history(path, Wanted(NOON + HOUR, **wanted)) as found:  # type: ignore[arg-type]
        return list(found.recent())


def shown(path: Path, **wanted: object) -> list[str]:
    """The urls in scope, the newest first; and the count of them agrees, whichever way it is counted."""
    found = [page.url for page in recent(path, **wanted)]
    with history(path, Wanted(NOON + HOUR, **wanted)) as one:  # type: ignore[arg-type]
        assert one.count() == len(found)
        assert sorted(url for _, url, _, _ in one.candidates(None)) == sorted(found)
    return found


def hits(path: Path, text: str, all_terms: bool = False, **wanted: object) -> tuple[list[str], int, dict[str, int]]:
    """(urls by rank, n, df) of a query."""
    query = words.parse(text)
    judge = ranking.Judge(query, all_terms)
    with history(path, Wanted(NOON + HOUR, **wanted)) as one:  # type: ignore[arg-type]
        found = matches.Matches(lambda _number, url: f"res_{hash(url) & 0xffff:016x}")
        found.search(one, judge)
        return [hit.page.url for hit in found.ranked(judge)], found.n[0], found.df[0]


# ---- what counts as a page


@pytest.mark.parametrize("version", profiles.VERSIONS)
def test_every_schema_version(tmp_path: Path, version: int) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page("http://old.test/", "Old", (Visit(NOON - DAY),)),
        Page("http://new.test/", "New", (Visit(NOON - 2 * DAY), Visit(NOON))),
        *profiles.redirect_chain(["http://a.test/", "http://b.test/", "http://c.test/"], "Target", NOON - HOUR),
        Page("http://synced.test/", "Synced", (Visit(NOON - 3 * DAY, device="other"),)),
    ], version=version)
    assert shown(path) == ["http://new.test/", "http://c.test/", "http://old.test/", "http://synced.test/"]
    newest = recent(path)[0]
    assert (newest.seen, newest.visits, newest.title, newest.quality) == (NOON, 2, "New", None)
    assert newest.origin == "local" and recent(path)[-1].origin == "synced"
    assert shown(path, origin="synced") == ["http://synced.test/"]
    assert shown(path, origin="local") == ["http://new.test/", "http://c.test/", "http://old.test/"]


@pytest.mark.parametrize("indexed", [True, False])
def test_redirects_frames_and_hidden_pages(tmp_path: Path, indexed: bool) -> None:
    path = profiles.chromium_history(tmp_path, [
        *profiles.redirect_chain([f"http://hop.test/{number}" for number in range(4)], "Same title"),
        Page("http://frame.test/", "Frame", (Visit(NOON, profiles.AUTO_SUBFRAME | profiles.WHOLE_CHAIN),)),
        Page("http://frame.test/manual", "", (Visit(NOON, profiles.MANUAL_SUBFRAME | profiles.WHOLE_CHAIN),)),
        Page("http://key.test/", "", (Visit(NOON, profiles.KEYWORD_GENERATED | profiles.WHOLE_CHAIN),)),
        Page("http://hidden.test/", "", hidden=True),
        Page("http://both.test/", "Hop at one time, place at another", (
            Visit(NOON - HOUR, profiles.TYPED | profiles.CHAIN_START), Visit(NOON - 2 * HOUR))),
    ])
    if not indexed:
        conn = sqlite3.connect(path)
        conn.execute("DROP INDEX visits_url_index")
        conn.execute("DROP INDEX visits_time_index")
        conn.close()
    assert shown(path) == ["http://hop.test/3", "http://both.test/"]
    assert recent(path)[1].seen == NOON - 2 * HOUR, "the time is that of the visit that counts"
    assert len(shown(path, everything=True)) == 9
    assert shown(path, since=NOON - HOUR // 2) == ["http://hop.test/3"]
    assert len(shown(path, since=NOON - HOUR // 2, everything=True)) == 8


def test_error_pages(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page("http://gone.test/", "404", (Visit(NOON, code=404), Visit(NOON - HOUR, code=500))),
        Page("http://marked.test/", "404", (Visit(NOON, code=404),), hidden=True),
        Page("http://was.test/", "once", (Visit(NOON - HOUR, code=404), Visit(NOON - DAY, code=200))),
        Page("http://fine.test/", "200", (Visit(NOON - 2 * HOUR, code=200),)),
        Page("http://unknown.test/", "no code", (Visit(NOON - 3 * HOUR),)),
    ])
    assert shown(path) == ["http://was.test/", "http://fine.test/", "http://unknown.test/"]
    assert "http://gone.test/" in shown(path, everything=True)


def test_one_visit_that_came_from_two_devices_is_one_page(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page("http://a.test/", "Twice", (Visit(NOON, device="one"), Visit(NOON, device="two")))])
    (page,) = recent(path)
    assert (page.url, page.seen, page.origin) == ("http://a.test/", NOON, "synced")
    assert hits(path, "twice")[0] == ["http://a.test/"]


def test_page_whose_visits_have_expired(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page("http://old.test/", "Old", (), last=NOON - 100 * DAY + profiles.WEBKIT, count=3),
        Page("http://new.test/", "New")])
    assert shown(path) == ["http://new.test/", "http://old.test/"]
    old = recent(path)[1]
    assert (old.seen, old.visits, old.origin) == (NOON - 100 * DAY, 3, None)
    assert shown(path, since=NOON - 101 * DAY, until=NOON - 99 * DAY) == ["http://old.test/"]
    assert shown(path, origin="local") == ["http://new.test/", "http://old.test/"]
    assert shown(path, origin="synced") == []


def test_window_chooses_by_visits(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page("http://a.test/", "A", tuple(Visit(NOON - number * DAY) for number in range(5))),
        Page("http://b.test/", "B", (Visit(NOON - 2 * DAY - 1), Visit(NOON - 9 * DAY)))])
    found = recent(path, since=NOON - 3 * DAY, until=NOON - 2 * DAY + 1)
    assert [(page.url, page.seen, page.visits) for page in found] == [
        ("http://a.test/", NOON - 2 * DAY, 5), ("http://b.test/", NOON - 2 * DAY - 1, 2)]
    assert shown(path, since=NOON - 2 * DAY, until=NOON - 2 * DAY) == []
    assert shown(path, until=NOON - 4 * DAY) == ["http://b.test/"]
    assert shown(path, since=NOON) == ["http://a.test/"]


@pytest.mark.parametrize(("raw", "quality"), [
    (0, "zero"), (-1, "negative"), (1 << 62, "impossible"), ((1 << 63) - 1, "impossible"), (1, "impossible"),
    (NOON + 3 * DAY + profiles.WEBKIT, "future")])
def test_times_that_cannot_be(tmp_path: Path, raw: int, quality: str) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page("http://odd.test/", "Odd", (Visit(raw=raw),)), Page("http://fine.test/", "Fine"),
        Page("http://mixed.test/", "Mixed", (Visit(raw=raw), Visit(NOON - HOUR))),
        Page("http://gone.test/", "Gone", (), last=raw)])
    assert [(page.url, page.seen, page.quality) for page in recent(path)] == [
        ("http://fine.test/", NOON, None), ("http://mixed.test/", NOON - HOUR, None),
        ("http://odd.test/", None, quality), ("http://gone.test/", None, quality)]
    assert shown(path, since=NOON - DAY) == ["http://fine.test/", "http://mixed.test/"]


def test_equal_times_and_many_pages_in_order(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page(f"http://a.test/{number}", "", (Visit(NOON - number // 3),)) for number in range(1200)])
    with history(path) as one:
        found = list(matches.newest([one], lambda _, url: url))
    assert [page.url for _, page in found] == [
        f"http://a.test/{3 * group + place}" for group in range(400)
        for place in sorted(range(3), key=lambda place: str(3 * group + place))]


def test_text_that_is_no_utf8_is_marked(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page("http://a.test/", b"Gr\xfc\xdfe aus K\xf6ln"), Page("http://b.test/", "Gr\ufffd\ufffde"),
        Page("http://c.test/", None)])
    found = {page.url: (page.title, page.lossy) for page in recent(path)}
    assert found == {"http://a.test/": ("Gr\ufffd\ufffde aus K\ufffdln", True),
                     "http://b.test/": ("Gr\ufffd\ufffde", False), "http://c.test/": (None, False)}
    assert hits(path, "aus")[0] == ["http://a.test/"]


def test_long_urls_are_cut(tmp_path: Path) -> None:
    long = "data:text/html," + "x" * 2_000_000 + "needle"
    path = profiles.chromium_history(tmp_path, [Page(long, "Data title"), Page("http://a.test/" + "y" * 9000, "")])
    cut, whole = sorted(recent(path), key=lambda page: -page.length)
    assert (cut.length, len(cut.url), cut.url) == (len(long), reading.URL, long[:reading.URL])
    assert whole.length == len(whole.url)
    assert hits(path, "needle")[0] == [] and hits(path, "data")[0] == [cut.url]


# ---- damage


def test_row_that_is_too_large_does_not_hide_the_others(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page(f"http://a.test/{number}", "T" * (snapshot_limit() + 1) if number == 70 else "title")
        for number in range(200)])
    with history(path) as one:
        found = [url for _, url, _, _ in one.candidates(None)]
        assert len(found) == 199 and "http://a.test/70" not in found
        assert one.cursor.damaged == 1
    assert len(recent(path)) == 199


def snapshot_limit() -> int:
    from lspipe import confine

    return confine.LONGEST


def test_damaged_pages_in_the_middle(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page(f"http://a.test/{number}", f"needle {number} " * 9) for number in range(2000)])
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA journal_mode = DELETE")
    conn.execute("VACUUM")
    conn.close()
    data = bytearray(path.read_bytes())
    at = data.index(b"http://a.test/1000") // 4096 * 4096
    data[at:at + 4096] = bytes(4096)
    path.write_bytes(data)
    found, n, _ = hits(path, "needle")
    assert 1900 < len(found) < 2000 and n > 1900
    with history(path) as one:
        list(one.candidates(None))
        assert one.cursor.damaged


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 30), query=st.sampled_from(["needle", "needle title", "äpfel", "site:a.test"]))
def test_any_damage_ends_in_rows_or_a_reason(tmp_path_factory: pytest.TempPathFactory, seed: int, query: str) -> None:
    rng = random.Random(seed)
    folder = tmp_path_factory.mktemp("torn")
    path = profiles.chromium_history(folder, [
        Page(f"http://a.test/{number}", f"needle title {number}", (Visit(NOON - number),)) for number in range(150)])
    data = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 40)):
        data[rng.randrange(100, len(data))] = rng.randrange(256)
    path.write_bytes(data)
    os.utime(path, ns=(0, 0))
    with contextlib.suppress(Unusable, *snapshot.FAULTS):
        hits(path, query)
        recent(path)


def test_time_that_is_over_when_ranking_begins_shows_what_was_found(tmp_path: Path) -> None:
    """Ids are worked out for the pages that are shown, not for all that have the same score."""
    path = profiles.chromium_history(tmp_path, [Page(f"http://a.test/{number}", "needle") for number in range(3000)])
    over, identified = [False], []

    def identify(_number: int, url: str) -> str:
        identified.append(url)
        return f"res_{len(identified):016x}"

    judge = ranking.Judge(words.parse("needle"))
    with contextlib.closing(snapshot.open_all(str(path))) as source:
        conn = snapshot.connect(source, tables=chromium.TABLES, stop=lambda: over[0])
    with contextlib.closing(conn):
        found = matches.Matches(identify)
        found.search(reading.History(conn, chromium.layout(conn), Wanted(NOON + HOUR)), judge)
        assert len(found) == 3000
        over[0] = True
        assert len(list(found.ranked(judge, 3))) == 3 and len(identified) == 200
        assert len(list(found.ranked(judge))) == 200


@pytest.mark.parametrize("made", [
    ["CREATE TABLE urls (id INTEGER PRIMARY KEY, url TEXT)"], ["CREATE TABLE visits (url, visit_time)"],
    ["CREATE TABLE urls (id TEXT PRIMARY KEY, url TEXT)", "CREATE TABLE visits (url, visit_time)"],
    ["CREATE TABLE urls (id INTEGER PRIMARY KEY, name)", "CREATE TABLE visits (url, visit_time)"],
    ["CREATE TABLE urls (id INTEGER PRIMARY KEY, url TEXT GENERATED ALWAYS AS (hex(zeroblob(50000000))))",
     "CREATE TABLE visits (url, visit_time)"]])
def test_another_schema(tmp_path: Path, made: Sequence[str]) -> None:
    path = tmp_path / "History"
    conn = sqlite3.connect(path)
    for statement in made:
        conn.execute(statement)
    conn.commit()
    conn.close()
    with pytest.raises(Unusable, match="another schema"), history(path):
        pass


def test_smallest_schema_and_values_of_wrong_kinds(tmp_path: Path) -> None:
    path = tmp_path / "History"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE urls (id INTEGER PRIMARY KEY, url)")
    conn.execute("CREATE TABLE visits (url, visit_time)")
    conn.executemany("INSERT INTO urls (id, url) VALUES (?, ?)", [
        (1, "http://a.test/"), (2, None), (3, b"http://b.test/"), (4, 17), (5, ""), (-6, "http://c.test/"),
        ((1 << 63) - 1, "http://d.test/"), (-(1 << 63), "http://e.test/")])
    at = NOON + profiles.WEBKIT
    conn.executemany("INSERT INTO visits VALUES (?, ?)", [
        (1, at), (1, "text"), (1, None), (None, at), ("text", at), (3, float(at - 7)), (99, at), (b"x", b"y"), (4, "x"),
        (-6, at - 1)])
    conn.commit()
    conn.close()
    assert [page.url for page in recent(path)] == ["http://a.test/", "http://c.test/", "http://b.test/", "17"]
    with history(path) as one:
        assert {url for _, url, _, _ in one.candidates(None)} >= {"http://d.test/", "http://e.test/", "17"}
    assert hits(path, "test")[0]


# ---- words


TITLES = st.text(st.sampled_from("abAB012 _-.é ßİıſKＡﬁ日本̈\xad\x00%"), max_size=12)
URLS = st.builds(
    "http://{}/{}".format, st.sampled_from(["a.test", "xn--mnchen-3ya.test", "ab.test", "b.AB.test"]),
    st.text(st.sampled_from("abAB01/?&=#_-%é"), max_size=12)
    | st.sampled_from(["%61b", "%41%42", "a%20b", "%C3%A9", "?q=%31", "%e4%b8%ad", "%", "%4", "ab%zz", "a%2Fb"]))
TERMS = st.lists(st.sampled_from(["a", "ab", "b", "0", "a0", "é", "e", "ss", "k", "fi", "日", "munchen", "AB",
                                  "title:ab", "url:ab", "-b", "site:a.test", '"a b"', "a-b"]), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(pages=st.lists(st.tuples(URLS, TITLES), min_size=1, max_size=12), terms=TERMS, all_terms=st.booleans())
def test_sql_and_shortcuts_find_what_a_matcher_finds(
        tmp_path_factory: pytest.TempPathFactory, pages: list[tuple[str, str]], terms: list[str],
        all_terms: bool) -> None:
    """The prefilter in SQL, the one in Python and the way round the Matcher change nothing: neither hits nor counts."""
    path = profiles.chromium_history(tmp_path_factory.mktemp("history"), [Page(url, title) for url, title in pages])
    text = " ".join(terms)
    query = words.parse(text)
    if not query.wanted:
        return
    matcher = matching.Matcher(query, all_terms)
    alone = {term: matching.Matcher(words.Query(term.text, (term,))) for term in query.wanted}
    documents = [ranking.fields(url, title) for url, title in pages]
    found, n, df = hits(path, text, all_terms)
    assert sorted(found) == sorted(url for (url, _), document in zip(pages, documents, strict=True)
                                   if matcher.match(document))
    assert n == len(pages)
    assert df == {term.key: sum(any(alone[other].match(document) for other in query.wanted if other.key == term.key)
                                for document in documents) for term in query.wanted}


@given(title=TITLES, url=URLS, terms=TERMS)
def test_strengths_of_the_shortcut_are_those_of_a_matcher(title: str, url: str, terms: list[str]) -> None:
    query = words.parse(" ".join(terms))
    if query.wanted:
        found = matching.Matcher(query).match(ranking.fields(url, title))
        expected = None if found is None else found.strengths
        assert ranking.Judge(query).page(url, title, "") == expected
        assert list(ranking.Judge(query).pages([(1, url, title, "")])) == ([] if expected is None else [(1, expected)])


def test_words_of_every_script(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page("http://de.test/", "Grüße aus MÜNCHEN"), Page("http://jp.test/", "日本語のページ"),
        Page("http://ru.test/", "Привет, мир"), Page("http://xn--mnchen-3ya.test/", "idn"),
        Page("https://wiki.test/M%C3%BCnchen", "encoded"), Page("http://wide.test/", "ＦＵＬＬ width"),
        Page("http://camel.test/", "fooBar baz_qux")])
    for text, expected in {
        "munchen": {"http://de.test/", "http://xn--mnchen-3ya.test/", "https://wiki.test/M%C3%BCnchen"},
        "münchen": {"http://de.test/", "http://xn--mnchen-3ya.test/", "https://wiki.test/M%C3%BCnchen"},
        "grusse": {"http://de.test/"}, "本語": {"http://jp.test/"}, "МИР": {"http://ru.test/"},
        "full": {"http://wide.test/"}, "bar": {"http://camel.test/"}, "qux": {"http://camel.test/"}, "oobar": set(),
    }.items():
        assert set(hits(path, text)[0]) == expected, text


def test_rank_prefers_rare_words_and_titles(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [
        Page("http://a.test/common", "common"), Page("http://b.test/", "rare"), Page("http://c.test/", "rare common"),
        *(Page(f"http://other.test/{number}", "common thing") for number in range(5)),
        Page("http://rare.test/", "nothing")])
    found, n, df = hits(path, "rare common")
    assert found[:3] == ["http://c.test/", "http://b.test/", "http://rare.test/"]
    assert n == 9 and df == {"rare": 3, "common": 7}
    assert hits(path, "rare common", all_terms=True)[0] == ["http://c.test/"]
    assert hits(path, "rare -common") == (["http://b.test/", "http://rare.test/"], 9, {"rare": 3})
    assert hits(path, "common", since=NOON + 1) == ([], 0, {"common": 0})


def test_the_first_of_many_equals(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [Page(f"http://a.test/{number}", "needle") for number in range(900)])
    judge = ranking.Judge(words.parse("needle"))
    with history(path) as one:
        found = matches.Matches(lambda _, url: f"res_{int(url.rpartition('/')[2]) * 7919 % 1009:016x}")
        found.search(one, judge)
        everything = [hit.page.url for hit in found.ranked(judge)]
        assert [hit.page.url for hit in found.ranked(judge, 7)] == everything[:7]
    assert everything == sorted(everything, key=lambda url: int(url.rpartition("/")[2]) * 7919 % 1009)
    assert len(everything) == 900


def test_real_history() -> None:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    path = profiles.FIXTURES / "chromium/running/Default/History"
    if path.stat().st_uid != os.geteuid():
        pytest.skip("the real profiles belong to another user")
    urls = shown(path)
    assert "http://127.0.0.1:8765/redir/0" in urls and not any("/redir/3" in url for url in urls)
    assert not any("missing-page" in url for url in urls)
    assert any("missing-page" in url for url in shown(path, everything=True))
    assert len(urls) == 35 and len(set(urls)) == 35
    assert {page.origin for page in recent(path)} == {"local"}
    assert "http://xn--mnchen-3ya.test:8765/t/3" in hits(path, "münchen")[0]


# ---- bookmark files


NODE = profiles.url_node


def parsed(path: Path) -> list[Bookmark]:
    folder = os.open(path.parent, os.O_RDONLY)
    fd, _stale = bookmarks_json.open_file(folder, path.name)
    os.close(folder)
    try:
        return bookmarks_json.read(fd, path.name, NOON)
    finally:
        os.close(fd)


def test_all_roots_and_folders(tmp_path: Path) -> None:
    path = profiles.chromium_bookmarks(
        tmp_path, bookmark_bar=[NODE("A", "http://a.test/"), profiles.folder_node(
            "Dev", profiles.folder_node("Rust", NODE("B", "http://b.test/", added=NOON - DAY)),
            profiles.folder_node("Empty"))],
        other=[NODE("", "javascript:alert(1)", added=0)], synced=[NODE("Phone", "http://m.test/", added=None)],
        trash=[NODE("Gone", "http://gone.test/")], workspace=[NODE("Edge", "http://edge.test/")], version="x",
        odd=[5, None])
    found = {mark.url: mark for mark in parsed(path)}
    assert {url: "/".join(mark.folder) for url, mark in found.items()} == {
        "http://a.test/": "Bookmarks bar", "http://b.test/": "Bookmarks bar/Dev/Rust",
        "javascript:alert(1)": "Other bookmarks", "http://m.test/": "Mobile bookmarks",
        "http://edge.test/": "workspace"}
    assert (found["http://b.test/"].added, found["http://b.test/"].quality) == (NOON - DAY, None)
    assert (found["javascript:alert(1)"].title, found["javascript:alert(1)"].quality) == (None, "zero")
    assert found["http://m.test/"].quality == "missing"


def test_local_and_account_are_one_list() -> None:
    def mark(url: str, guid: str | None, origin: str) -> Bookmark:
        return Bookmark(url, "t", guid, (), (), None, "missing", origin)

    local = [mark("http://a.test/", "1", "local"), mark("http://a.test/", "2", "local"), mark("x:", None, "local")]
    account = [mark("http://other.test/", "1", "account"), mark("http://a.test/", "3", "account"),
               mark("http://new.test/", "4", "account"), mark("http://noguid.test/", None, "account")]
    assert [(one.url, one.origin) for one in merged(local, account)] == [
        ("http://a.test/", "local"), ("http://a.test/", "local"), ("x:", "local"), ("http://new.test/", "account"),
        ("http://noguid.test/", "account")]


@pytest.mark.parametrize(("content", "words_"), [
    (b"", "not JSON"), (b"not json", "not JSON"), (b"[" * 100_000, "not JSON"), (b"[]", "no bookmark roots"),
    (b'{"roots": []}', "no bookmark roots"), (b"{}", "no bookmark roots"), (b'{"roots": {}', "not JSON")])
def test_bookmark_file_that_is_none(tmp_path: Path, content: bytes, words_: str) -> None:
    (tmp_path / "Bookmarks").write_bytes(content)
    with pytest.raises(Unusable, match=f"'Bookmarks'.*{words_}") as caught:
        parsed(tmp_path / "Bookmarks")
    assert caught.value.reason == "failed" and "\n" not in caught.value.message


def test_bookmark_file_of_200_mb(tmp_path: Path) -> None:
    with open(tmp_path / "Bookmarks", "wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(Unusable, match="'Bookmarks' has 190 MiB; at most 64 MiB are read"):
        parsed(tmp_path / "Bookmarks")


def test_encrypted_in_the_place_of_a_plain_one(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(Unusable) as caught:
        bookmarks_json.open_file(folder, "AccountBookmarks")
    assert caught.value.reason == "not-found"
    (tmp_path / "EncryptedAccountBookmarks2").write_bytes(b"v10")
    with pytest.raises(Unusable) as caught:
        bookmarks_json.open_file(folder, "AccountBookmarks")
    assert caught.value.reason == "encrypted"
    path = profiles.chromium_bookmarks(tmp_path, "AccountBookmarks", other=[])
    fd, stale = bookmarks_json.open_file(folder, "AccountBookmarks")
    assert not stale
    os.close(fd)
    os.utime(path, ns=(0, path.stat().st_mtime_ns - 2 * HOUR * 1000))
    fd, stale = bookmarks_json.open_file(folder, "AccountBookmarks")
    assert stale
    os.close(fd)
    os.close(folder)


JSON = st.recursive(st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.text(max_size=5), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["children", "url", "name", "type", "guid", "date_added", "x"]), inner, max_size=4)), max_leaves=12)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_any_tree_is_read(roots: dict[str, object]) -> None:
    for mark in bookmarks_json.bookmarks(roots, "local", NOON):
        assert isinstance(mark.url, str) and mark.url and all(isinstance(name, str) for name in mark.folder)
        assert (mark.added is None) is (mark.quality is not None)


def test_folders_and_tags() -> None:
    mark = Bookmark("x:", "t", None, ("Bookmarks bar", "Dev/Ops", "Été"), ("Rust Async",), NOON, None)
    for name, expected in {"été": True, "ETE": True, "dev/ops": True, "Dev/Ops/Été": False, "Bookmarks bar": True,
                           "bookmarks": False, "Été/Dev": False, "": False, "/": False}.items():
        assert in_folder(mark, name) is expected, name
    other = mark._replace(folder=("Bookmarks bar", "Dev", "Rust"))
    assert in_folder(other, "Dev/Rust") and in_folder(other, "/Dev/Rust/") and not in_folder(other, "Bar/Rust")
    assert has_tag(mark, "rust async", tags=True) and not has_tag(mark, "rust", tags=True)
    assert has_tag(other, "rust", tags=False) and not has_tag(other, "rust", tags=True)
    assert added_within(mark, NOON, NOON + 1) and not added_within(mark, NOON + 1, None)
    assert not added_within(mark, None, NOON) and added_within(mark._replace(added=None), None, None)
    assert not added_within(mark._replace(added=None), NOON, None)


def test_letters_that_need_no_folding() -> None:
    """The characters that are passed over never become, or hide between, ASCII letters."""
    for code in (*range(0x80, 0xD800), *range(0xE000, 0x20000)):
        if not ranking._FOLDS.search(chr(code)):
            folded = folding.fold(chr(code))
            assert folded and not any(char.isascii() and char.isalnum() for char in folded), hex(code)


def test_the_path_of_a_folder_has_an_end() -> None:
    assert joined(("Bar", "", "Rust")) == "Bar//Rust" and joined(()) == ""
    assert joined(("a" * 600, "b" * 600, "c")) == "a" * 600 + "/" + "b" * 423
    assert [joined(("abc", "d"), most=most) for most in (3, 4, 5)] == ["abc", "abc", "abc/d"]


@pytest.mark.parametrize("depth", [1, 199, 201, 400])
def test_a_bookmark_in_many_folders_is_found(depth: int) -> None:
    root: dict[str, object] = {"type": "url", "url": "http://deep.test/"}
    for _ in range(depth):
        root = {"type": "folder", "name": "n", "children": [root]}
    mark, = bookmarks_json.bookmarks({"bar": root}, "local", NOON)
    assert mark.folder == ("n",) * depth


def test_folders_that_are_deeper_than_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """As names on the way to each of many, and in all."""
    leaf: dict[str, object] = {"type": "url", "url": "http://deep.test/"}
    roots = {"bar": {"children": [{"children": [leaf]}]}}
    assert len(list(bookmarks_json.bookmarks(roots, "local", NOON))) == 1
    for name in ("_DEEPEST", "_NAMES"):
        with monkeypatch.context() as patch, pytest.raises(Unusable, match="deeper"):
            patch.setattr(bookmarks_json, name, 1)
            list(bookmarks_json.bookmarks(roots, "local", NOON))
    with pytest.raises(Late):
        list(bookmarks_json.bookmarks({"bar": {"children": [leaf] * 2000}}, "local", NOON, lambda: True))
