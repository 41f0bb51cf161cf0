"""Reranking: what each part of the score does, and what must hold for any rows."""

import copy
import itertools
import math
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lspipe import lexical, when
from lspipe.exits import Usage
from lspipe.row import Row
from lspipe.score import RECENCY, rerank, share

NOW = 1_784_635_200_000_000
HOUR = 3_600_000_000
#: Rarity by hand, of the words in CORPUS.
RUST = math.log(1 + 600.5 / 400.5)
ASYNC = math.log(1 + 960.5 / 40.5)
CORPUS = [{"id": "x", "n": 1000, "df": {"rust": 400, "async": 40, "cancellation": 4}}]


def row(title: str = "", **more: Any) -> Row:
    """A row of one query with figures."""
    made = {"query": "rust async cancellation", "source": "history", "url": "https://x.invalid/", "title": title,
            "corpus": CORPUS}
    made.update(more)
    return {key: value for key, value in made.items() if value is not None}


def reranked(rows: list[Row], query: str | None = None, **options: Any) -> list[Row]:
    return list(rerank(copy.deepcopy(rows), query, **options).rows)


def titles(rows: list[Row], query: str | None = None, **options: Any) -> list[str]:
    return [item["title"] for item in reranked(rows, query, **options)]


def marks(query: str, *rows: Row, corpus: list[dict[str, Any]] | None = None) -> list[lexical.Marks]:
    found = lexical.lexical(rows, query, CORPUS if corpus is None else corpus)
    assert found is not None
    return found


def bm25(query: str, *rows: Row, corpus: list[dict[str, Any]] | None = None) -> list[float]:
    return [mark.bm25 for mark in marks(query, *rows, corpus=corpus)]


def lines(rows: Any) -> list[bytes]:
    return [orjson.dumps(item) for item in rows]


# BM25


def test_bm25_of_one_word() -> None:
    """By hand: idf ln(1 + 960.5 / 40.5), frequency 1, norm 1.2 (0.25 + 0.75 * length / 50)."""
    found, = bm25("async", row(text="async await in one line"))
    # The url is two words.
    assert found == pytest.approx(ASYNC * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 7 / 50)))


def test_a_rare_word_weighs_more() -> None:
    assert titles([row("rust"), row("async"), row("cancellation")]) == ["cancellation", "async", "rust"]


def test_figures_of_several_corpora_are_added() -> None:
    rows = [row("rust", corpus=[{"id": "a", "n": 1000, "df": {"rust": 9, "async": 10}}]),
            row("async", corpus=[{"id": "b", "n": 9000, "df": {"rust": 900, "async": 10}}])]
    assert titles(rows) == ["async", "rust"]


def test_figures_of_one_corpus_count_once() -> None:
    once = reranked([row("rust async"), row("async")])
    twice = reranked([row("rust async"), row("async"), row("nothing")])
    assert lines(once) == lines(twice[:2])


def test_without_any_figures_all_words_weigh_the_same_and_it_is_said() -> None:
    rows = [row("rust", corpus=None), row("cancellation", corpus=None)]
    found = rerank(rows)
    assert found.notes == ("no corpus figures: all words weigh the same",)
    assert [item["score"] for item in found.rows] == [1.0, 1.0]
    assert rerank([*rows, row("async")]).notes == ()
    assert rerank([row("rust", corpus=[{"id": "x", "n": 0, "df": {}}])]).notes != ()


def test_rows_without_figures_are_weighed_with_those_of_others() -> None:
    rows = [row("rust", corpus=None), row("cancellation", corpus=None), row("nothing")]
    assert titles(rows) == ["cancellation", "rust", "nothing"]


def test_words_match_by_stem() -> None:
    found = bm25("cancellations", row("cancelled"), row("cancel"), row("canal"))
    assert found[0] == found[1] > 0 == found[2]


@pytest.mark.parametrize(("query", "text"), [
    ("uber", "Über"), ("ÜBER", "uber"), ("strasse", "Straße"), ("ﬁle", "file"), ("café", "CAFE\u0301"),
    ("東京", "東京都庁"), ("京都", "東京都庁"), ("サーバ", "Webサーバー"), ("javascript", "JavaScript"),
    ("JavaScript", "javascript"), ("script", "JavaScript"), ("read_csv", "pandas.read_csv()"), ("csv", "read_csv"),
    ("node.js", "Node.js server"), ("time-sharing", "time sharing systems"), ("Москва", "МОСКВА"),
    ("한국", "한국어"),
])
def test_words_match_over_scripts_and_spellings(query: str, text: str) -> None:
    for field in ("title", "text", "snippet"):
        assert bm25(query, row(**{field: text}))[0] > 0, field


@pytest.mark.parametrize(("query", "text"), [
    ("京東", "東京都庁"), ("trust", "rust"), ("rust", "trust"), ("a-b", "b a"),
])
def test_others_do_not(query: str, text: str) -> None:
    assert bm25(query, row(text)) == [0.0]


def test_all_fields_are_searched() -> None:
    for item in (
        row("rust"), row(text="rust"), row(snippet="rust"), row(url="https://rust.example/"),
        row(url="file:///n/r%75st.md"), row(url="https://x/?q=%72ust"), row(meta={"folder": "a/Rust"}),
        row(meta={"folder": ["a", "Rust"]}), row(meta={"tags": ["x", "rust"]}),
    ):
        assert bm25("rust", item)[0] > 0, item
    assert bm25("rust", row(meta={"own": "rust"}, source="rust", author="rust"))[0] == 0


def test_strange_labels_are_passed_over() -> None:
    assert bm25("rust", row(meta={"folder": 7, "tags": {"rust": 1}}), row(meta={"tags": [None, 3, "rust"]}))[1] > 0


def test_a_word_in_the_title_counts_twice() -> None:
    title, twice, once = bm25("rust", row("rust b"), row(text="rust b rust b"), row(text="rust b"))
    assert title == twice > once


def test_a_snippet_out_of_the_text_does_not_count_twice() -> None:
    text = "one two rust three\n four five six"
    plain, within, beside = bm25(
        "rust", row(text=text), row(text=text, snippet="… two rust three four…"), row(text=text, snippet="a rust b"))
    assert plain == within < beside


def test_shorter_is_better() -> None:
    short, long = bm25("rust", row(text="rust and c"), row(text="rust " + "word " * 200))
    assert short > long


def test_only_the_beginning_of_a_huge_text_is_read() -> None:
    assert bm25("rust", row(text="word " * 20_000 + "rust")) == [0.0]


def test_repeated_words_of_the_query_count_again() -> None:
    once, twice = bm25("rust async", row("rust"))[0], bm25("rust async rust", row("rust"))[0]
    assert twice == pytest.approx(2 * once)


def test_words_of_one_stem_are_one_and_the_commoner_says_how_rare() -> None:
    corpus = [{"id": "x", "n": 1000, "df": {"compute": 2, "computing": 500}}]
    assert bm25("compute computing", row("computed"), corpus=corpus)[0] == pytest.approx(
        2 * bm25("computing", row("computed"), corpus=corpus)[0])


def test_stop_words_count_only_where_nothing_else_is_there() -> None:
    assert bm25("how to rust", row("how to"), row("rust"))[0] == 0
    assert bm25("how to", row("how to"))[0] > 0
    assert bm25('rust "to be"', row("to be"))[0] > 0


def test_a_phrase_is_adjacent_words_in_one_field() -> None:
    found = bm25('"rust async"', row("rust async"), row("rusts async"), row("async rust"), row("rust and async"),
                 row("rust", text="async"))
    assert found[0] == found[1] > 0
    assert found[2:] == [0, 0, 0]


def test_what_is_excluded_and_where_is_not_scored() -> None:
    assert bm25("rust -async site:async.example", row("async"), row("rust"))[0] == 0
    assert bm25("title:rust url:async", row("rust async"))[0] > 0


# Nearness and coverage


def test_nearer_is_better() -> None:
    texts = ["rust " + "b " * between + "async" for between in (0, 1, 2, 5, 15, 16)]
    found = [mark.proximity for mark in marks("rust async", *(row(text=text) for text in texts))]
    assert found == sorted(found, reverse=True) and len(set(found)) == len(texts) and found[-1] == 0
    assert marks("rust async", row("rust", text="async"))[0].proximity == 0


def test_words_that_were_cut_apart_stand_nowhere() -> None:
    """They are found, but beside each other they are not."""
    mark, = marks("javascript typescript", row(text="JavaScript " + "b " * 30 + "TypeScript"))
    assert mark.coverage == 1 and mark.proximity == 0


def test_nearness_by_hand() -> None:
    """The lesser rarity by the square of the distance, as a share of all rarity."""
    assert marks("rust async", row(text="async b rust"))[0].proximity == pytest.approx(RUST / 4 / (RUST + ASYNC))


def test_coverage_is_the_share_of_all_rarity() -> None:
    whole, part, none = (mark.coverage for mark in marks("rust async", row("rust async"), row("async"), row("b")))
    assert (whole, none) == (1.0, 0.0)
    assert part == pytest.approx(ASYNC / (RUST + ASYNC))


# Recency


def aged(hours: float, title: str = "rust", **more: Any) -> Row:
    return row(title, accessed_at=when.rfc3339(NOW - int(hours * HOUR)), **more)


def test_newness_is_off_unless_asked() -> None:
    assert [item["retriever_scores"]["recency"] for item in reranked([aged(1)], now=NOW)] == [None]


def test_newness_halves_with_each_month_and_counts_whole_hours() -> None:
    rows = [aged(0), aged(0.99), aged(1), aged(720), aged(1440), aged(-5), row("rust")]
    found = [item["retriever_scores"]["recency"] for item in reranked(rows, recency=["all"], now=NOW)]
    assert sorted(value for value in found if value is not None) == [0.25, 0.5, 0.999038, 1.0, 1.0, 1.0]
    assert found[-1] is None


def test_newness_decides_between_equals_and_is_worth_a_tenth_of_the_top() -> None:
    new, old = reranked([aged(10**6), aged(0)], recency=["browser"], now=NOW)
    assert new["score"] == 1.0
    assert new["score"] - old["score"] == pytest.approx(RECENCY, abs=2e-6)


def test_newness_does_not_lift_what_does_not_match_over_what_matches_well() -> None:
    assert titles([aged(10**6, "cancellation"), aged(0, "nothing")], recency=["all"], now=NOW) == [
        "cancellation", "nothing"]


def test_newness_counts_for_the_families_that_are_named() -> None:
    rows = [aged(0, source="files"), aged(0, source="history"), aged(0, source="mine")]

    def of(*names: str) -> dict[str, Any]:
        found = reranked(rows, recency=names, now=NOW)
        return {item["source"]: item["retriever_scores"]["recency"] for item in found}

    assert of("browser") == {"files": None, "history": 1.0, "mine": None}
    assert of("history", "mine") == {"files": None, "history": 1.0, "mine": 1.0}
    assert of("all") == {"files": 1.0, "history": 1.0, "mine": 1.0}


# The query


def test_the_query_comes_from_the_rows_or_from_the_caller() -> None:
    rows = [row("rust", query="rust"), row("async", query=None), row("b", query=" rust ")]
    assert titles(rows)[0] == "rust"
    assert rerank(rows).query == "rust"
    assert titles(rows, "async")[0] == "async"


def test_two_queries_need_a_choice() -> None:
    rows = [row("rust", query="rust"), row("async", query="async")]
    with pytest.raises(Usage, match="rows of two queries: 'async' and 'rust'"):
        rerank(rows)
    assert titles(rows, "async")[0] == "async"


def test_no_query_needs_one() -> None:
    with pytest.raises(Usage, match="no query"):
        rerank([row(query=None)])
    assert reranked([]) == []


def test_a_query_without_words_leaves_the_order() -> None:
    rows = [row(str(number), rank=number, score=1 / number) for number in (2, 1, 3)]
    found = rerank(rows, "site:x.invalid -rust")
    assert found.notes == ("no word to score by: the order stays",)
    made = list(found.rows)
    assert [item["title"] for item in made] == ["1", "2", "3"]
    assert [item["score"] for item in made] == [1.0, 0.5, 0.333333]
    assert made[0]["retriever_scores"] == {"lexical": None, "semantic": None, "recency": None}
    assert lines(reranked(made, "site:x.invalid -rust")) == lines(made)


# Depth, caps, order


def test_beyond_the_depth_rows_keep_their_order_behind_the_scored() -> None:
    rows = [row("b", rank=1), row("rust", rank=2), row("cancellation", rank=4), row("async", rank=3)]
    found = reranked(rows, depth=2)
    assert [item["title"] for item in found] == ["rust", "b", "async", "cancellation"]
    assert [item["score"] for item in found[2:]] == [0.0, 0.0]
    assert found[3]["retriever_scores"]["lexical"] is None
    assert rerank(rows, depth=2).counts == {"scored": 2, "unscored": 2, "waiting": 0}


def test_the_first_are_those_that_come_first_where_one_has_no_rank() -> None:
    rows = [row("rust", rank=9), row("b", rank=None), row("cancellation", rank=1)]
    assert titles(rows, depth=2) == ["rust", "b", "cancellation"]


def test_equal_scores_keep_the_order_they_had() -> None:
    rows = [row("rust", rank=rank, id=str(rank)) for rank in (3, 1, 2)]
    assert [item["id"] for item in reranked(rows)] == ["1", "2", "3"]


def test_caps_come_last() -> None:
    rows = [row("cancellation", rank=1), row("async", rank=2), row("rust", rank=3, source="files")]
    assert titles(rows, every_family=1) == ["cancellation", "rust", "async"]
    assert titles(rows, caps={"browser": 2}, every_family=1) == ["cancellation", "async", "rust"]
    assert titles(rows, caps={"history": 0}, limit=2) == ["rust", "cancellation"]
    assert titles(rows, every_family=1, depth=2) == ["cancellation", "async", "rust"]
    assert titles(rows, every_family=1, depth=0) == ["cancellation", "rust", "async"]


@pytest.mark.parametrize(("limit", "most"), [(0, 1), (1, 1), (2, 2), (3, 2), (5, 3), (10, 6), (11, 7), (100, 60)])
def test_a_family_may_have_sixty_percent(limit: int, most: int) -> None:
    assert share(limit) == most


def test_other_parts_of_the_score_pass() -> None:
    made, = reranked([row("rust", retriever_scores={"own": 0.5, "semantic": 0.9, "lexical": 0.1})])
    assert made["retriever_scores"] == {"lexical": 1.0, "semantic": None, "recency": None, "own": 0.5}


# What holds for any rows; each example indexes all its rows several times.


fewer = settings(max_examples=50)

WORDS = st.lists(st.sampled_from(["rust", "rusty", "async", "cancel", "Cancellation", "other", "アシンク", "the"]),
                 max_size=6).map(" ".join)
FIGURES = st.lists(st.fixed_dictionaries({
    "id": st.sampled_from("xyz"), "n": st.integers(0, 90),
    "df": st.dictionaries(st.sampled_from(["rust", "async", "cancellation"]), st.integers(0, 120)),
}), max_size=2)


def any_rows(ranked: bool) -> st.SearchStrategy[list[Row]]:
    required: dict[str, Any] = {
        "query": st.just("rust async \"async rust\" cancellation"),
        "source": st.sampled_from(["history", "files", "own"]),
        "url": st.sampled_from(["https://rust.org/async", "file:///a/cancel", "x"]), "title": st.none() | WORDS,
    }
    optional: dict[str, Any] = {
        "id": st.sampled_from("abcdef"), "text": st.none() | WORDS, "snippet": WORDS, "score": st.floats(-9, 9),
        "accessed_at": st.none() | st.integers(0, 10**4).map(lambda hours: when.rfc3339(NOW - hours * HOUR)),
        "corpus": FIGURES, "provenance": st.fixed_dictionaries({}, optional={"private": st.booleans()}),
        "meta": st.fixed_dictionaries({}, optional={"tags": st.lists(WORDS), "own": st.integers(-9, 9)}),
        "own": st.booleans() | st.integers(0, 1), "retriever_scores": st.just({"semantic": 0.5}),
    }
    rank = {"rank": st.integers(1, 6)}
    return st.lists(st.fixed_dictionaries(required | (rank if ranked else {}),
                                          optional=optional if ranked else optional | rank), max_size=8)


OPTIONS = st.fixed_dictionaries({"now": st.just(NOW)}, optional={
    "depth": st.integers(0, 9), "recency": st.sampled_from([["browser"], ["all"], ["own"]]),
    "caps": st.dictionaries(st.sampled_from(["history", "browser", "files"]), st.integers(1, 3)),
    "every_family": st.integers(1, 4),
})


@fewer
@given(any_rows(ranked=True), OPTIONS, st.randoms(use_true_random=False))
def test_the_order_of_ranked_rows_changes_no_byte(rows: list[Row], options: dict[str, Any], chance: Any) -> None:
    mixed = rows.copy()
    chance.shuffle(mixed)
    assert lines(reranked(mixed, **options)) == lines(reranked(rows, **options))


@fewer
@given(any_rows(ranked=False), OPTIONS)
def test_reranking_again_changes_no_byte(rows: list[Row], options: dict[str, Any]) -> None:
    once = reranked(rows, **options)
    assert lines(reranked(once, **options)) == lines(once)
    assert lines(reranked(once[::-1], **options)) == lines(once)


@fewer
@given(any_rows(ranked=False), OPTIONS, st.integers(1, 6))
def test_reranking_the_first_again_changes_no_byte(rows: list[Row], options: dict[str, Any], limit: int) -> None:
    """Neither does what -n cut off: scores do not depend on it."""
    options = {**options, "limit": limit}
    once = reranked(rows, **options)
    assert lines(reranked(once, **options)) == lines(once)


@fewer
@given(any_rows(ranked=False), OPTIONS)
def test_nothing_is_lost_or_changed_but_the_scores(rows: list[Row], options: dict[str, Any]) -> None:
    before = orjson.dumps(rows)
    found = list(rerank(rows, **options).rows)
    assert orjson.dumps(rows) == before
    made = {"rank", "score", "retriever_scores", "corpus"}

    def rest(items: list[Row]) -> list[bytes]:
        return sorted(orjson.dumps({key: value for key, value in item.items() if key not in made}) for item in items)

    assert rest(found) == rest(rows)
    assert [item["rank"] for item in found] == list(range(1, len(rows) + 1))
    for item in found:
        parts = [item["score"], *item["retriever_scores"].values()]
        assert all(part is None or (0 <= part <= 1 and part == round(part, 6)) for part in parts)
        lexical_part, recency = (item["retriever_scores"][name] for name in ("lexical", "recency"))
        if lexical_part:
            bonus = RECENCY * (recency or 0)
            assert item["score"] == pytest.approx(lexical_part + bonus, abs=2e-6)
    scored = [item["score"] for item in found if item["retriever_scores"]["lexical"] is not None]
    if not (options.get("caps") or options.get("every_family")):
        assert scored == sorted(scored, reverse=True)
    assert max(scored, default=0) in (0, 1)


@fewer
@given(any_rows(ranked=True))
def test_the_marks_of_a_row_do_not_depend_on_its_neighbours(rows: list[Row]) -> None:
    query = "rust cancel \"async rust\""
    assert lexical.lexical(rows, query, CORPUS) == list(
        itertools.chain.from_iterable(marks(query, item) for item in rows))


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_text_is_too_strange(query: str, title: str, text: str) -> None:
    found = lexical.lexical([row(title, text=text, url=text or "x")], query, [])
    for mark in found or ():
        assert mark.bm25 >= 0 and 0 <= mark.proximity <= 1 and 0 <= mark.coverage <= 1
