"""firefox: which places are pages, the visit that is only in the log, bookmarks with folders and tags."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import profiles
import pytest
from profiles import DAY, HOUR, NOON, Mark, Page, Visit

from lspipe import snapshot, words
from lspipe.browsers import firefox, matches, ranking
from lspipe.browsers import pages as reading
from lspipe.browsers.bookmark import Bookmark
from lspipe.browsers.layout import Wanted
from lspipe.live import Unusable


@contextlib.contextmanager
def places(path: Path, tables: tuple[str, ...] = firefox.TABLES) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(snapshot.open_all(str(path))) as source:
        conn = snapshot.connect(source, tables=tables)
    try:
        yield conn
    finally:
        conn.close()


def recent(path: Path, **wanted: object) -> list[reading.Page]:
    with places(path) as conn:
        found = reading.History(conn, firefox.layout(conn), Wanted(NOON + HOUR, **wanted))  # type: ignore[arg-type]
        pages = list(found.recent())
        assert found.count() == len(pages)
        return pages


def hits(path: Path, text: str) -> list[reading.Page]:
    judge = ranking.Judge(words.parse(text))
    with places(path) as conn:
        found = matches.Matches(lambda _number, url: f"res_{len(url):016x}")
        found.search(reading.History(conn, firefox.layout(conn), Wanted(NOON + HOUR)), judge)
        return [hit.page for hit in found.ranked(judge)]


def marks(path: Path) -> list[Bookmark]:
    with places(path, firefox.BOOKMARK_TABLES) as conn:
        return list(firefox.bookmarks(conn, NOON))


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("wal", [False, True])
def test_pages_of_old_and_new_schemas(tmp_path: Path, old: bool, wal: bool) -> None:
    path = profiles.firefox_places(tmp_path, [
        Page("http://a.test/", "A", (Visit(NOON - DAY), Visit(NOON - HOUR))),
        Page("http://hop.test/", None, (Visit(NOON),), hidden=True),
        Page("http://target.test/", "T", (Visit(NOON, kind=6),)),
        Page("http://file.test/x.zip", "x.zip", (Visit(NOON, kind=7),)),
        Page("http://embed.test/", None, (Visit(NOON, kind=4),)),
        Page("http://marked.test/", None, (), count=0),
        Page("http://gone.test/", "404", (Visit(NOON),), frecency=0),
        Page("http://redirected.test/", "reached by a redirect alone", (Visit(NOON - 2 * HOUR, kind=5),), frecency=0),
        Page("http://notitle.test/", None, (Visit(NOON - 3 * HOUR),)),
    ], old=old, wal=wal)
    found = recent(path)
    assert [page.url for page in found] == [
        "http://target.test/", "http://a.test/", "http://redirected.test/", "http://notitle.test/"]
    assert (found[1].seen, found[1].visits, found[1].origin) == (NOON - HOUR, 2, None)
    assert found[3].title is None
    assert [page.url for page in recent(path, since=NOON - 30 * 3_600_000_000, until=NOON - 20 * HOUR)] == [
        "http://a.test/"]
    assert recent(path, until=NOON - 20 * HOUR)[0].seen == NOON - DAY
    assert recent(path, origin="synced") == [] and len(recent(path, origin="local")) == 4
    everything = {page.url for page in recent(path, everything=True)}
    assert {"http://hop.test/", "http://gone.test/", "http://file.test/x.zip"} <= everything
    assert "http://marked.test/" not in everything, "it was never visited"


@pytest.mark.parametrize(("raw", "quality"), [(0, "zero"), (-5, "negative"), (1 << 62, "impossible"),
                                              (NOON + 3 * DAY, "future")])
def test_times_that_cannot_be(tmp_path: Path, raw: int, quality: str) -> None:
    path = profiles.firefox_places(tmp_path, [
        Page("http://odd.test/", "", (Visit(raw=raw),)), Page("http://fine.test/", "")])
    assert [(page.url, page.seen, page.quality) for page in recent(path)] == [
        ("http://fine.test/", NOON, None), ("http://odd.test/", None, quality)]


def test_descriptions_are_searched(tmp_path: Path) -> None:
    path = profiles.firefox_places(tmp_path, [
        Page("http://a.test/", "Nothing", description="All about cancellation of futures"),
        Page("http://b.test/", "Cancellation"), Page("http://c.test/", b"Caf\xe9", description="Crème brûlée")])
    assert [page.url for page in hits(path, "cancellation")] == ["http://b.test/", "http://a.test/"]
    assert hits(path, "creme")[0].url == "http://c.test/"
    page, = hits(path, "brulee")
    assert (page.text, page.title, page.lossy) == ("Crème brûlée", "Caf\ufffd", True)


def test_another_schema(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url)")
    conn.commit()
    conn.close()
    with places(path) as found, pytest.raises(Unusable, match="another schema"):
        firefox.layout(found)
    with pytest.raises(Unusable, match="another schema"):
        marks(path)


# ---- bookmarks


def test_bookmarks_with_folders_and_tags(tmp_path: Path) -> None:
    path = profiles.firefox_places(tmp_path, [Page("http://a.test/", "Title of the page")], {
        "toolbar": [Mark("Dev", inside=[
            Mark("Async", "http://b.test/", tags=("rust", "étiquette"), added=NOON - DAY), Mark(None, separator=True),
            Mark("Recent", "place:sort=8&maxResults=10")])],
        "menu": [Mark(None, "http://a.test/", tags=("rust",))], "mobile": [Mark("Phone", "http://m.test/")],
        "unfiled": [Mark("Async again", "http://b.test/"), Mark("Empty")]})
    found = {(mark.url, "/".join(mark.folder)): mark for mark in marks(path)}
    assert set(found) == {
        ("http://b.test/", "Bookmarks Toolbar/Dev"), ("http://a.test/", "Bookmarks Menu"),
        ("http://m.test/", "Mobile Bookmarks"), ("http://b.test/", "Other Bookmarks")}
    tagged = found["http://b.test/", "Bookmarks Toolbar/Dev"]
    assert (tagged.title, tagged.tags) == ("Async", ("rust", "étiquette"))
    assert (tagged.added, tagged.quality) == (NOON - DAY, None)
    assert found["http://a.test/", "Bookmarks Menu"].title == "Title of the page"
    assert found["http://b.test/", "Other Bookmarks"].tags == ("rust", "étiquette"), "a tag is of the address"
    assert found["http://m.test/", "Mobile Bookmarks"].tags == ()
    assert len({mark.guid for mark in found.values()}) == 4


def test_folders_in_a_circle_and_without_a_parent(tmp_path: Path) -> None:
    path = profiles.firefox_places(tmp_path, (), {"menu": [Mark("A", "http://a.test/")]})
    conn = sqlite3.connect(path)
    place, = conn.execute("SELECT id FROM moz_places").fetchone()
    conn.executemany("INSERT INTO moz_bookmarks (id, type, parent, fk, title, guid) VALUES (?, ?, ?, ?, ?, ?)", [
        (101, 2, 102, None, "one", "c1"), (102, 2, 101, None, "two", "c2"), (103, 1, 101, place, "In a circle", "c3"),
        (104, 2, 999, None, "Lost", "c4"), (105, 1, 104, place, "In a lost folder", "c5"),
        (106, 1, 888, place, "Nowhere", "c6"), (107, 1, 104, 777, "No place", "c7"), (108, 2, 108, None, "Self", "c8"),
        (109, 1, 108, place, "In itself", "c9")])
    conn.commit()
    conn.close()
    found = {mark.title: "/".join(mark.folder) for mark in marks(path)}
    assert found == {"A": "Bookmarks Menu", "In a circle": "two/one", "In a lost folder": "Lost", "In itself": "Self"}


def test_bookmarks_of_a_schema_without_guids_and_dates(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url)")
    conn.execute("CREATE TABLE moz_bookmarks (id INTEGER PRIMARY KEY, type, fk, parent, title)")
    conn.execute("INSERT INTO moz_places VALUES (1, 'http://a.test/')")
    conn.execute("INSERT INTO moz_bookmarks VALUES (1, 2, NULL, 0, 'Folder'), (2, 1, 1, 1, CAST(x'4be4' AS TEXT))")
    conn.commit()
    conn.close()
    mark, = marks(path)
    assert mark == Bookmark("http://a.test/", "K\ufffd", None, ("Folder",), (), None, "missing")


def test_one_kind_of_data_is_not_the_other(tmp_path: Path) -> None:
    """One file holds both: who may read bookmarks gets no visits, and the other way round."""
    path = profiles.firefox_places(tmp_path, [Page("http://a.test/")], {"menu": [Mark("A", "http://a.test/")]})
    with places(path) as conn, pytest.raises(sqlite3.DatabaseError, match="prohibited|authorized"):
        conn.execute("SELECT * FROM moz_bookmarks")
    with places(path, firefox.BOOKMARK_TABLES) as conn:
        for table in ("moz_historyvisits", "moz_inputhistory"):
            with pytest.raises(sqlite3.DatabaseError, match="prohibited|authorized"):
                conn.execute(f"SELECT * FROM {table}")


# ---- the real one


@pytest.fixture
def real(tmp_path: Path) -> Path:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    return profiles.copied(profiles.FIXTURES / "firefox/running", tmp_path / "profile") / "places.sqlite"


def test_real_history(real: Path) -> None:
    now = 1_796_100_000_000_000
    before = profiles.look(real.parent)
    with places(real) as conn:
        found = reading.History(conn, firefox.layout(conn), Wanted(now))
        urls = [page.url for page in found.recent()]
        assert found.count() == len(urls) == 32
    assert urls[0] == "http://127.0.0.1:8765/n/just-now", "it is only in the log"
    assert "http://127.0.0.1:8765/redir/0" in urls and "http://127.0.0.1:8765/redir/1" not in urls
    assert not any(word in url for url in urls for word in ("missing-page", "dl.bin", "incognito-secret", "place:"))
    assert profiles.look(real.parent) == before


def test_real_bookmarks(real: Path) -> None:
    before = profiles.look(real.parent)
    found = {mark.title: mark for mark in marks(real)}
    assert len(found) == len(marks(real)) == 7, "each once, whatever its tags"
    assert found["日本語 🚀 bm"].tags == ("tag one", "étiquette")
    assert found["日本語 🚀 bm"].folder == ("Bookmarks Toolbar", "Ordner ü")
    assert found["Plain ASCII page"].folder == ("Other Bookmarks",), "no title of its own"
    assert not any(mark.url.startswith("place:") for mark in found.values())
    assert profiles.look(real.parent) == before
    assert os.listdir(real.parent).count("places.sqlite-shm") == 0
