"""Queries of any length and shape through every executable that takes one: a pasted page is no reason to find less."""

import random
import string

import pytest
import support
from support import Home

ASKED = ("ls-history", "ls-bookmarks", "ls-tabs", "ls-downloads", "ls-reading", "ls-rg", "ls-qmd", "ls-query",
         "ls-rerank")


def many(count: int, form: str = "{}") -> str:
    """So many words that are in no text."""
    pick = random.Random(count)
    return " ".join(form.format("q" + "".join(pick.choices(string.ascii_lowercase, k=7))) for _ in range(count))


#: Each finds what `async` finds; what it is longer by is in no document.
LONG = {
    "a sentence": many(70), "a page": many(600), "a book": many(10_000), "without many": many(150, "-{}"),
    "phrases": many(1000, '"{} x"'), "titles": many(40, "-title:{}"), "one long word": "q" * 70_000,
    "a word of many parts": "q-" * 20_000, "the same again": "async " * 15_000,
    "letters with marks": "q\u0301" * 20_000,
    "one that folds to many": "\ufdfa" * 3000, "script without spaces": "日本語" * 8000, "quotes": '"' * 60_000,
    "camels": "qZ" * 30_000, "a program for rg": "--pre=./ran " * 5, "what takes some engines for ever": "(a+)+b",
}


@pytest.mark.parametrize("name", ASKED)
def test_what_is_found_does_not_depend_on_the_rest_of_a_long_query(name: str, home: Home) -> None:
    support.need_qmd()
    home = Home(support_root(home), sample=True, wiki=True)
    rows = support.typical("ls-fuse").stdin if name == "ls-rerank" else None

    def found(query: str) -> set[str]:
        more = {"ls-rg": ["--words"], "ls-query": ["--jsonl", "--timeout=60s", "-n100"], "ls-qmd": ["--timeout=60s"]}
        args = [*more.get(name, []), *(["-q", query] if name == "ls-rerank" else ["--", query]),
                *([str(home.home / "notes")] if name == "ls-rg" else [])]
        done = home.run(name, *args, stdin=rows)
        assert (done.code, b"" if name == "ls-query" else done.err) == (0, b""), (done.code, done.err)
        return {row["url"] for row in done.rows}

    word = "pdf" if name == "ls-downloads" else "async"
    few = found(word)
    assert few
    missing = {kind for kind, more in LONG.items() if not few <= found(f"{word} {more}")}
    assert not missing
    assert not (home.home / "ran").exists() and home.runs == []


def support_root(home: Home) -> "support.Path":
    root = home.root / "with-a-wiki"
    root.mkdir()
    return root


def test_more_exclusions_than_qmd_can(home: Home) -> None:
    support.need_qmd()
    place = Home(support_root(home), sample=True, wiki=True)
    done = place.run("ls-qmd", "async " + many(201, "-{}"))
    assert (done.code, done.out) == (2, b"")
    assert done.err == b"ls-qmd: 201 excluded words are too many: qmd leaves out at most 200\n"
