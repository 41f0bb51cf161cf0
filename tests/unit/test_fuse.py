"""Fusion: lists, shares, dedupe, merging, caps; what must hold for any rows."""

import copy
import itertools
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lspipe import merge, urls
from lspipe.exits import Usage
from lspipe.fuse import fuse, numbers, spread
from lspipe.row import Row, is_private

QUERY = {"query": "rust async cancellation", "query_id": "ls_0000000000000001"}


def row(source: str = "history", url: str = "https://example.org/a", rank: int | None = 1, **more: Any) -> Row:
    """A row as a source makes it; `method`, `corpus` (ids) and `private` in short."""
    made: Row = {**QUERY, "id": f"res_{source}_{url}_{rank}", "source": source, "url": url}
    if rank is not None:
        made["rank"] = rank
    made["provenance"] = {"method": more.pop("method", "snapshot"), "private": more.pop("private", True)}
    if "corpus" in more:
        made["corpus"] = [{"id": name, "n": 10, "df": {"rust": 1}} for name in more.pop("corpus")]
    return {**made, **more}


def lines(found: Any) -> list[bytes]:
    return [orjson.dumps(item) for item in found]


def fused(rows: list[Row], **options: Any) -> list[Row]:
    return list(fuse(rows, **options).rows)


def scores(rows: list[Row], **options: Any) -> dict[str, float]:
    return {item["url"]: item["score"] for item in fused(rows, **options)}


# Lists and shares


def test_a_share_is_one_over_sixty_plus_rank_and_the_largest_becomes_one() -> None:
    found = scores([row(url=f"https://a/{rank}", rank=rank) for rank in (1, 2, 5)])
    assert found == {"https://a/1": 1.0, "https://a/2": round(61 / 62, 6), "https://a/5": round(61 / 65, 6)}


def test_k_is_the_sixty() -> None:
    found = scores([row(url=f"https://a/{rank}", rank=rank) for rank in (1, 2)], k=0)
    assert found["https://a/2"] == 0.5


def test_lists_over_one_corpus_are_added() -> None:
    rows = [
        row("files", "file:///a", 2, method="index", corpus=["files:/"]),
        row("files", "file:///b", 1, method="index", corpus=["files:/"]),
        row("files", "file:///a", 2, method="ripgrep", corpus=["files:/"]),
    ]
    assert scores(rows) == {"file:///a": 1.0, "file:///b": round((1 / 61) / (2 / 62), 6)}


def test_over_different_corpora_the_largest_counts() -> None:
    """A page that two sources merely both hold must not beat a better one."""
    rows = [
        row("history", "https://a/", 2, corpus=["history:x"]),
        row("history", "https://b/", 1, corpus=["history:x"]),
        row("bookmarks", "https://a/", 3, corpus=["bookmarks:x"]),
    ]
    assert scores(rows) == {"https://b/": 1.0, "https://a/": round(61 / 62, 6)}


def test_lists_without_figures_are_different_corpora() -> None:
    rows = [row("history", "https://a/", 2), row("wiki", "https://a/", 2), row("history", "https://b/", 1)]
    assert scores(rows)["https://a/"] == round(61 / 62, 6)


def test_one_corpus_reaches_through_a_list_that_has_both() -> None:
    chain = [("a", ["1"]), ("b", ["1", "2"]), ("c", ["2"])]
    rows = [row(source, "https://a/", 1, corpus=names) for source, names in chain]
    rows.append(row("d", "https://b/", 1, corpus=["3"]))
    for order in itertools.permutations(rows):
        assert scores(list(order)) == {"https://a/": 1.0, "https://b/": round(1 / 3, 6)}


def test_a_list_has_the_corpora_of_all_its_rows() -> None:
    rows = [
        row("files", "file:///a", 1, method="index"), row("files", "file:///c", 2, method="index", corpus=["f"]),
        row("files", "file:///a", 1, method="ripgrep", corpus=["f"]),
    ]
    assert scores(rows)["file:///c"] == round((1 / 62) / (2 / 61), 6)


def test_a_document_counts_once_a_list_at_its_best_rank() -> None:
    rows = [row(url="https://a/", rank=rank, corpus=["x"]) for rank in (5, 2, 9)] + [row(url="https://b/", rank=1)]
    assert scores(rows) == {"https://b/": 1.0, "https://a/": round(61 / 62, 6)}


def test_queries_and_methods_make_lists() -> None:
    rows = [row(rank=None, url="https://a/"), row(rank=None, url="https://b/", query_id="ls_2"),
            row(rank=None, url="https://c/", method="session"), row("tabs", "https://d/", None)]
    found = fuse(rows)
    assert found.counts["lists"] == 4
    assert {item["score"] for item in found.rows} == {1.0}


def test_rows_without_rank_are_numbered_by_arrival() -> None:
    rows = [row(url=f"https://a/{number}", rank=None) for number in (3, 1, 2)]
    rows.insert(1, row("wiki", "https://w/", None))
    found = fused(rows)
    assert [item["url"] for item in found if item["source"] == "history"] == [r["url"] for r in rows if r != rows[1]]
    assert scores(rows)["https://a/1"] == round(61 / 62, 6)


def test_equal_scores_are_in_the_order_of_ids() -> None:
    rows = [row(source, f"https://{source}/", 1, id=name) for source, name in (("a", "z"), ("b", "m"), ("c", "b"))]
    assert [item["id"] for item in fused(rows)] == ["b", "m", "z"]


def test_handmade_ids_may_repeat() -> None:
    rows = [row(source, f"https://{source}/", 1, id="same") for source in "cab"]
    assert lines(fused(rows)) == lines(fused(rows[::-1]))
    assert len(fused(rows)) == 3


def test_weights_by_source_or_family_and_the_source_wins() -> None:
    rows = [row("history", "https://h/"), row("bookmarks", "https://b/"), row("files", "https://f/"),
            row("mine", "https://m/")]
    found = scores(rows, weights={"browser": 0.5, "history": 0.25})
    assert found == {"https://f/": 1.0, "https://m/": 1.0, "https://b/": 0.5, "https://h/": 0.25}


def test_weights_of_nothing() -> None:
    found = fused([row("history", "https://h/"), row("files", "https://f/", 2)], weights={"history": 0, "files": 0})
    assert [item["score"] for item in found] == [0.0, 0.0]


def test_one_ranked_list_keeps_its_scores_and_anything_else_is_fused() -> None:
    done = [row("history", "https://h/", 1, score=1.0), row("files", "file:///f", 2, score=0.25)]
    found = fuse(done, weights={"files": 9}, k=7)
    assert found.again
    assert [(item["url"], item["score"]) for item in found.rows] == [("https://h/", 1.0), ("file:///f", 0.25)]
    for change in ({"rank": 3}, {"rank": 1}, {"score": 1.5}, {"score": -0.1}, {"score": 0.1234567},
                   {"url": "https://h/#x"}):
        other = fuse([done[0], {**done[1], **change}])
        assert not other.again, change
        assert 0.25 not in [item["score"] for item in other.rows]
    assert not fuse([done[0], row("files", "file:///f", None, score=0.25)]).again
    assert not fuse([done[0], row("files", "file:///f", 2)]).again


# Filling in


def test_what_is_missing_is_filled_in() -> None:
    made, = fused([{"source": "mine", "url": "https://a/", "own": [1]}])
    assert made.pop("id").startswith("res_")
    assert made == {"source": "mine", "url": "https://a/", "own": [1], "rank": 1, "score": 1.0,
                    "provenance": {"private": True}}


def test_an_id_that_is_filled_in_is_of_the_place() -> None:
    def identity(**more: Any) -> str:
        return str(fused([{"source": "mine", "url": "file:///a", **more}])[0]["id"])

    ids = [identity(), identity(location={"line": 3}), identity(location={"line": 4}),
           identity(provenance={"browser": "b"})]
    assert len(set(ids)) == 4
    assert identity() == ids[0]


def test_a_rank_may_be_written_as_a_float() -> None:
    made, = fused([row(rank=1.0)])  # type: ignore[arg-type]
    assert orjson.dumps(made["rank"]) == b"1"


# Dedupe and merging


@pytest.mark.parametrize(("one", "other"), [
    ("https://Example.org:443/", "HTTPS://example.org"),
    ("https://example.org/a#top", "https://example.org/a"),
    ("https://example.org/a?utm_source=x&q=1", "https://example.org/a?q=1"),
    ("file:///home/a%20b", "file://localhost/home/a b"),
    ("file:///home/a%FF.md#L3", "file:///home/a%ff.md"),
])
def test_the_same_page_and_the_same_file_are_one_row(one: str, other: str) -> None:
    assert len(fused([row(url=one), row("bookmarks", other)])) == 1


@pytest.mark.parametrize(("one", "other"), [
    ("https://example.org/", "http://example.org/"),
    ("https://example.org/a", "https://example.org/a/"),
    ("https://example.org/#/route/1", "https://example.org/#/route/2"),
    ("https://example.org/A", "https://example.org/a"),
    ("file:///a", "file:///b"),
])
def test_others_are_not(one: str, other: str) -> None:
    assert len(fused([row(url=one), row("bookmarks", other)])) == 2


def test_a_merged_row_is_the_best_ranked_with_what_the_others_add() -> None:
    first = row("bookmarks", "https://a/#x", 1, id="b", title=None, text="short", matched_terms=["cancellation"],
                accessed_at="2026-01-01T00:00:00.000000Z", meta={"folder": "F", "own": 1}, private=False)
    second = row("history", "https://a/", 2, id="h", title="History", text="the longest text",
                 matched_terms=["async", "rust"], accessed_at="2026-02-01T00:00:00.000000Z", private=False, extra=1)
    third = row("tabs", "https://a/#y", 3, id="t", title="Tab", accessed_at=None, meta={"sources": ["reading"]})
    made, = fused([third, second, first])
    assert made == {
        **first, "text": "the longest text", "matched_terms": ["rust", "async", "cancellation"],
        "accessed_at": "2026-02-01T00:00:00.000000Z", "score": 1.0, "rank": 1,
        "provenance": {"method": "snapshot", "private": True},
        "meta": {"folder": "F", "own": 1, "sources": ["bookmarks", "history", "reading", "tabs"]},
    }


def test_terms_of_no_known_query_keep_the_order_in_which_they_come() -> None:
    rows = [row(rank=1, query="x", matched_terms=["b"]), row("tabs", rank=2, matched_terms=["c", "b", "a"])]
    assert fused(rows)[0]["matched_terms"] == ["b", "c", "a"]


def test_a_time_that_is_found_needs_no_reason_why_it_is_missing() -> None:
    rows = [row(rank=1, accessed_at=None, meta={"time_quality": "zero"}),
            row("tabs", rank=2, accessed_at="2026-02-01T00:00:00.000000Z")]
    assert fused(rows)[0]["meta"] == {"sources": ["history", "tabs"]}
    assert fused(rows[:1])[0]["meta"] == {"time_quality": "zero"}


def test_of_equal_ranks_the_weightier_source_gives_the_fields() -> None:
    rows = [row("bookmarks", id="a", title="B"), row("history", id="b", title="H")]
    assert fused(rows)[0]["title"] == "B"
    assert fused(rows, weights={"history": 2})[0]["title"] == "H"


def test_one_file_is_one_row_with_its_best_line_and_up_to_twenty_others() -> None:
    rows = [row("files", "file:///a", rank, id=f"l{rank}", location={"path": "/a", "line": 100 - rank})
            for rank in range(1, 30)]
    made, = fused(rows)
    assert made["location"]["line"] == 99
    assert made["meta"]["lines"] == list(range(79, 99))


def test_lines_of_an_earlier_merge_stay() -> None:
    rows = [row("files", "file:///a", 1, location={"line": 7}, meta={"lines": [3, 9]}),
            row("files", "file:///a", 2, method="index", location={"line": 9}, meta={"lines": [7, 1, "x", True]})]
    assert fused(rows)[0]["meta"]["lines"] == [1, 3, 9]


def test_by_id_the_lines_of_a_file_stay_apart() -> None:
    rows = [row("files", "file:///a", rank, id=f"l{rank}") for rank in (1, 2)]
    assert len(fused(rows, dedupe="id")) == 2
    assert len(fused([*rows, {**rows[0], "rank": 3}], dedupe="id")) == 2


@given(st.from_regex(r"(?i:https?)://[A-Za-z0-9.:@-]{0,8}/?[a-z?#=&/%._A-Z]{0,12}", fullmatch=True))
def test_the_short_way_to_a_place_is_the_canonical_form(url: str) -> None:
    assert merge.place_of(url) == urls.canonical(url)


def test_a_page_of_a_wiki_and_the_file_that_it_is_are_one_result() -> None:
    place = {"path": "/home/ada/notes/a b.md"}
    rows = [{"source": "wiki", "url": "qmd://notes/a-b.md", "rank": 1, "location": {**place, "line": 3}},
            {"source": "files", "url": "file:///home/ada/notes/a%20b.md", "rank": 1, "location": {**place, "line": 7}},
            {"source": "wiki", "url": "qmd://notes/gone.md", "rank": 2, "location": {}},
            {"source": "own", "url": "https://x.test/", "rank": 2, "location": place}]
    found = fused(rows)
    assert len(found) == 3
    both = next(item for item in found if len(item["meta"].get("sources", ())) == 2)
    assert both["meta"]["sources"] == ["files", "wiki"]


# Corpus figures


def test_the_union_of_the_figures_is_on_every_row() -> None:
    rows = [row("history", "https://h/"), row("files", "file:///f", 1, corpus=["f"]),
            row("bookmarks", "https://b/", 1, corpus=["b", "f"])]
    rows[2]["corpus"][1] = {"id": "f", "n": 20, "df": {"async": 5, "rust": 0}}
    union = [{"id": "b", "n": 10, "df": {"rust": 1}}, {"id": "f", "n": 20, "df": {"async": 5, "rust": 1}}]
    for order in itertools.permutations(rows):
        assert [item["corpus"] for item in fused(list(order))] == [union] * 3


def test_without_figures_there_are_none() -> None:
    assert "corpus" not in fused([row()])[0]


# Caps


LABELS = st.lists(st.sampled_from([("history", "browser"), ("tabs", "browser"), ("files", "files"), ("own", "own")]))
CAPS = st.dictionaries(st.sampled_from(["history", "browser", "files", "own"]), st.integers(0, 4), max_size=3)


@given(LABELS, CAPS, st.none() | st.integers(0, 4))
def test_caps_drop_nothing_and_hold_as_long_as_there_is_something_else(
    labels: list[tuple[str, str]], caps: dict[str, int], every: int | None
) -> None:
    order, waiting = spread(labels, caps, every)
    assert sorted(order) == list(range(len(labels)))
    taken, rest = order[: len(order) - waiting], order[len(order) - waiting :]
    assert taken == sorted(taken) and rest == sorted(rest)
    sources, families = Counter(labels[at][0] for at in taken), Counter(labels[at][1] for at in taken)
    for name in {*sources, *families}:
        assert sources[name] <= caps.get(name, len(labels))
        limit = caps.get(name, len(labels) if every is None else every)
        assert families[name] <= limit
    for at in rest:
        source, kin = labels[at]
        assert (sources[source] >= caps.get(source, len(labels) + 1)
                or families[kin] >= caps.get(kin, len(labels) + 1 if every is None else every))


def test_rows_over_a_cap_wait_and_fill_up() -> None:
    rows = [row("files", f"file:///{rank}", rank) for rank in (1, 2, 3)] + [row("history", "https://h/", 9)]
    found = fuse(rows, caps={"files": 1}, limit=3)
    assert [item["url"] for item in found.rows] == ["file:///1", "https://h/", "file:///2"]
    assert found.truncated
    assert found.counts == {"lists": 2, "documents": 4, "merged": 0, "waiting": 2}
    assert not fuse(rows, caps={"files": 1}).truncated


@pytest.mark.parametrize("value", ["history", "history=", "=1", "History=1", "history=-1", "history=nan", "a b=1",
                                   "history=1e300", "history=x"])
def test_a_weight_that_is_none(value: str) -> None:
    with pytest.raises(Usage, match="--weight takes NAME=NUMBER"):
        numbers([value], "--weight", float)


def test_weights_and_caps_are_read() -> None:
    assert numbers(["history=2", "own_source=0.5", "history=3"], "--weight", float) == {
        "history": 3.0, "own_source": 0.5}
    assert numbers(["files=4"], "--cap", int) == {"files": 4}
    with pytest.raises(Usage):
        numbers(["files=4.5"], "--cap", int)


# What holds for any rows


URLS = st.sampled_from([
    "https://a.org/", "https://A.org", "https://a.org/?utm_x=1", "https://b.org/x#top", "https://b.org/x",
    "file:///n/a.md", "file:///n/%61.md", "file:///n/b.md", "qmd://w/a.md", "not a url",
])
FIGURES = st.lists(
    st.fixed_dictionaries({
        "id": st.sampled_from("xyz"), "n": st.integers(0, 50),
        "df": st.dictionaries(st.sampled_from(["rust", "async"]), st.integers(0, 9)),
    }), max_size=2)
PROVENANCE = st.fixed_dictionaries({}, optional={
    "method": st.sampled_from(["snapshot", "index"]), "private": st.booleans(),
    "retriever": st.sampled_from(["browser", "files", "other"]),
})
META = st.fixed_dictionaries({}, optional={
    "sources": st.lists(st.sampled_from(["wiki", "tabs"])), "lines": st.lists(st.integers(1, 5)),
    "time_quality": st.just("zero"), "own": st.booleans() | st.integers(0, 1) | st.text(max_size=2),
})


def any_rows(ranked: bool) -> st.SearchStrategy[list[Row]]:
    required = {"source": st.sampled_from(["history", "bookmarks", "files", "mine"]), "url": URLS}
    optional = {
        "id": st.sampled_from("abcdefgh"), "query_id": st.sampled_from(["ls_1", "ls_2"]),
        "query": st.sampled_from(["rust async", "async rust"]), "score": st.floats(-1, 2) | st.integers(0, 1),
        "title": st.none() | st.text(max_size=3), "text": st.none() | st.text(max_size=3),
        "matched_terms": st.lists(st.sampled_from(["rust", "async", "x"]), max_size=3),
        "accessed_at": st.none() | st.sampled_from(["2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z"]),
        "location": st.fixed_dictionaries({}, optional={"line": st.integers(1, 4), "column": st.integers(1, 2)}),
        "provenance": PROVENANCE, "meta": META, "corpus": FIGURES, "own": st.booleans() | st.integers(0, 1),
    }
    rank = {"rank": st.integers(1, 6)}
    return st.lists(st.fixed_dictionaries(required | (rank if ranked else {}), optional=optional if ranked else
                                          optional | rank), max_size=8)


OPTIONS = st.fixed_dictionaries({}, optional={
    "k": st.integers(0, 100), "caps": CAPS, "dedupe": st.sampled_from(["url", "id"]),
    "weights": st.dictionaries(st.sampled_from(["history", "browser", "files"]), st.sampled_from([0, 0.3, 1, 7])),
})


@given(any_rows(ranked=True), OPTIONS, st.randoms(use_true_random=False))
def test_the_order_of_ranked_rows_changes_no_byte(rows: list[Row], options: dict[str, Any], chance: Any) -> None:
    mixed = rows.copy()
    chance.shuffle(mixed)
    assert lines(fused(mixed, **options)) == lines(fused(rows, **options))


@given(any_rows(ranked=False), OPTIONS, st.none() | st.integers(0, 5))
def test_fusing_again_changes_no_byte(rows: list[Row], options: dict[str, Any], limit: int | None) -> None:
    once = fused(rows, **options, limit=limit)
    again = fuse(copy.deepcopy(once), **options, limit=limit)
    assert lines(again.rows) == lines(once)
    assert lines(fused(once[::-1], **options, limit=limit)) == lines(once)


@given(any_rows(ranked=False), OPTIONS)
def test_ranks_and_scores(rows: list[Row], options: dict[str, Any]) -> None:
    found = fused(rows, **options)
    assert [item["rank"] for item in found] == list(range(1, len(found) + 1))
    for item in found:
        assert 0 <= item["score"] <= 1 and item["score"] == round(item["score"], 6)
    if not options.get("caps"):
        assert [item["score"] for item in found] == sorted((item["score"] for item in found), reverse=True)


@given(any_rows(ranked=True))
def test_a_document_has_at_least_its_best_share_and_at_most_the_sum(rows: list[Row]) -> None:
    if fuse(rows).again:
        return
    best: dict[str, float] = {}
    lists: dict[str, dict[tuple[Any, ...], float]] = {}
    for item in rows:
        place = merge.place_of(item["url"])
        kind = (item.get("query_id"), item["source"], item.get("provenance", {}).get("method"))
        share = 1 / (60 + item["rank"])
        best[place] = max(share, best.get(place, 0))
        of = lists.setdefault(place, {})
        of[kind] = max(share, of.get(kind, 0))
    found = {merge.place_of(item["url"]): item["score"] for item in fused(rows)}
    assert found.keys() == best.keys()
    # Scores are shares of the largest share, which is bounded itself.
    least = max(best.values(), default=1)
    most = max((sum(of.values()) for of in lists.values()), default=1)
    for place, score in found.items():
        assert best[place] / most - 1e-6 <= score <= min(1, sum(lists[place].values()) / least) + 1e-6


@given(any_rows(ranked=False), OPTIONS)
def test_a_row_is_public_only_where_all_that_it_is_made_of_are(rows: list[Row], options: dict[str, Any]) -> None:
    by_id = options.get("dedupe") == "id"
    private: dict[str, bool] = {}
    for item in rows:
        place = (item.get("id") or merge.own_id(item)) if by_id else merge.place_of(item["url"])
        private[place] = private.get(place, False) or is_private(item)
    for item in fused(rows, **options):
        place = item["id"] if by_id else merge.place_of(item["url"])
        assert item["provenance"]["private"] is private[place]


@given(st.lists(st.none() | PROVENANCE, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_private_is_sticky(marks: list[dict[str, Any] | None], chance: Any) -> None:
    """Of rows that become one; among rows at random there are too few of these to tell."""
    rows: list[Row] = [{"source": source, "url": "https://a.org/", "rank": chance.randint(1, 3)}
                       | ({} if mark is None else {"provenance": mark})
                       for source, mark in zip(("history", "tabs", "mine", "files"), marks, strict=False)]
    made, = fused(rows)
    assert made["provenance"]["private"] is any(map(is_private, rows))


@given(any_rows(ranked=False), OPTIONS)
def test_what_is_not_known_passes_and_the_input_stays_as_it_was(rows: list[Row], options: dict[str, Any]) -> None:
    before = orjson.dumps(rows)
    found = fused(rows, **options)
    assert orjson.dumps(rows) == before
    made = {"id", "rank", "score", "provenance", "corpus", "matched_terms", "text", "accessed_at", "meta"}
    for item in found:
        kept = [
            one for one in rows if (one.get("id") or merge.own_id(one)) == item["id"]
            and {key: value for key, value in item.items() if key not in made}
            == {key: value for key, value in one.items() if key not in made}
            and item.get("meta", {}).get("own") == one.get("meta", {}).get("own")
        ]
        assert kept


@given(any_rows(ranked=False), OPTIONS, st.integers(0, 5))
def test_a_limit_is_the_beginning(rows: list[Row], options: dict[str, Any], limit: int) -> None:
    everything = fused(rows, **options)
    some = fuse(rows, **options, limit=limit)
    assert some.truncated is (limit < len(everything))
    assert lines(some.rows) == lines(everything[:limit])


def test_rows_do_not_grow_by_the_corpora_of_all_others() -> None:
    """Each row of a corpus of its own: the largest are kept, on every row."""
    corpora = merge.Corpora()
    for number in range(1000):
        corpora.add([{"id": f"c{number:04}", "n": number, "df": {"rust": 1}}])
    found = corpora.union()
    assert [entry["id"] for entry in found] == [f"c{number:04}" for number in range(800, 1000)]
