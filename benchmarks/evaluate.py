"""Ranking quality: one collection cut into four sources, through `ls-fuse | ls-rerank`, against one index over all.

The recipe: the documents, shuffled by a stated seed, are cut 60/30/10 into three sources, and a fourth repeats a tenth
of all. Each source is an FTS5 index of its own that answers with its best rows, their text and its corpus figures, as
a real source does. nDCG@10 of what comes out is printed as a ratio to one FTS5 index over all documents, beside what
simpler ways of the same give.

Collections (a folder in a tar.xz, with docs.jsonl, queries.jsonl and qrels.tsv) come from LSPIPE_COLLECTIONS.
"""

import argparse
import math
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from lspipe import folding, lexical, row, snippet, words  # noqa: E402
from lspipe.fuse import K, fuse  # noqa: E402
from lspipe.score import rerank  # noqa: E402

GOAL = 1.0
#: (source, family, share of the documents); the last one repeats documents of the others.
PARTS = (("history", "browser", 0.6), ("files", "files", 0.3), ("wiki", "wiki", 0.1), ("bookmarks", "browser", 0.1))
#: What ls-query asks each source for, and how much text a row carries.
EACH = 100
TEXT = 2000
DEPTH = 100
SNIPPET = 300

Row = dict[str, Any]


@dataclass
class Collection:
    """Documents as (title, text) by id, queries as text by id, and the grades of documents for each query."""

    name: str
    docs: dict[str, tuple[str, str]]
    queries: dict[str, str]
    grades: dict[str, dict[str, int]]


def load(name: str, split: str | None) -> Collection | None:
    """The collection, unpacked into a temporary folder and read; None where it is not there."""
    archive = os.path.join(os.environ.get("LSPIPE_COLLECTIONS", ""), name + ".tar.xz")
    if not os.path.isfile(archive):
        return None
    with tempfile.TemporaryDirectory(prefix="lspipe-eval-") as folder:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        folder = os.path.join(folder, name)
        docs = {doc["id"]: (doc.get("title") or "", doc.get("text") or "")
                for doc in lines(os.path.join(folder, "docs.jsonl"))}
        queries = {query["id"]: query["text"] for query in lines(os.path.join(folder, "queries.jsonl"))
                   if split in (None, query.get("split", split))}
        grades: dict[str, dict[str, int]] = defaultdict(dict)
        with open(os.path.join(folder, "qrels.tsv")) as file:
            for line in file:
                query, doc, grade = line.split()
                grades[query][doc] = int(grade)
    return Collection(name, docs, {key: text for key, text in queries.items() if key in grades}, grades)


def lines(path: str) -> list[Any]:
    """The objects of a JSON Lines file."""
    with open(path, "rb") as file:
        return [orjson.loads(line) for line in file]


def ndcg(ranked: Sequence[str], grades: Mapping[str, int], depth: int = 10) -> float:
    """Normalized discounted cumulated gain of the first ten (Jaervelin, Kekaelaeinen, TOIS 2002)."""
    def gain(values: Iterable[int]) -> float:
        return sum(value / math.log2(place + 2) for place, value in enumerate(values))

    best = gain(sorted(grades.values(), reverse=True)[:depth])
    return gain(grades.get(doc, 0) for doc in ranked[:depth]) / best if best else 0.0


def tokens(text: str) -> list[str]:
    """Folded tokens, as lspipe cuts them."""
    return [token.text for token in folding.tokens(text)]


def asked(query: str) -> list[str]:
    """The words of a question without stop words; repeated ones stay."""
    found = tokens(query)
    return [word for word in found if word not in lexical.STOP] or found


class Index:
    """An FTS5 index of some documents: porter stems, title weight 2, words OR-ed."""

    def __init__(self, docs: Mapping[str, tuple[str, str]], ids: Iterable[str]) -> None:
        self.size = 0
        self._base = sqlite3.connect(":memory:")
        self._base.execute("CREATE VIRTUAL TABLE d USING fts5(id UNINDEXED, title, body, tokenize='porter unicode61')")
        for doc in sorted(ids):
            title, text = docs[doc]
            self._base.execute("INSERT INTO d VALUES (?,?,?)", (doc, " ".join(tokens(title)), " ".join(tokens(text))))
            self.size += 1

    def best(self, query: str, count: int) -> list[tuple[str, float]]:
        """(document, score), best first."""
        match = " OR ".join(f'"{word}"' for word in asked(query))
        return [(doc, -score) for doc, score in self._base.execute(
            "SELECT id, bm25(d, 0, 2, 1) AS s FROM d WHERE d MATCH ? ORDER BY s, id LIMIT ?", (match, count))]

    def holding(self, words_: Sequence[str], beginning: bool = False) -> int:
        """How many documents hold the words one after the other, by stem, or one that begins so."""
        match = '"' + " ".join(words_) + '"' + ("*" if beginning else "")
        return int(self._base.execute("SELECT count(*) FROM d WHERE d MATCH ?", (match,)).fetchone()[0])


def cut(docs: Iterable[str], seed: int) -> list[list[str]]:
    """The documents of each source."""
    pick = random.Random(seed)
    ids = sorted(docs)
    pick.shuffle(ids)
    ends = [0, int(len(ids) * 0.6), int(len(ids) * 0.9), len(ids)]
    parts = [ids[start:end] for start, end in zip(ends, ends[1:], strict=False)]
    return [*parts, sorted(pick.sample(ids, len(ids) // 10))]


def answer(name: str, kin: str, index: Index, query: str, collection: Collection, beginning: bool) -> list[Row]:
    """What a source answers: its rows, with text and corpus figures."""
    terms = [term for term in words.parse(query).wanted if term.field != "site"]
    corpus = [{"id": f"{name}:{collection.name}", "n": index.size,
               "df": {term.key: index.holding(term.words, beginning) for term in terms}}]
    rows = []
    for rank, (doc, score) in enumerate(index.best(query, EACH), 1):
        title, text = collection.docs[doc]
        # An id in the url would match numbers of the query; a hash of it does not.
        url = f"https://{collection.name}.example/{row.query_id(doc)[3:]}"
        rows.append({
            "id": row.identify(name, None, None, url), "query_id": row.query_id(query), "query": query, "source": name,
            "rank": rank, "score": round(score, 6), "title": title, "url": url,
            "snippet": snippet.clip(" ".join(text.split()), SNIPPET), "text": text[:TEXT],
            "provenance": {"retriever": kin, "method": "index", "acl": "authorized", "private": True},
            "corpus": corpus, "meta": {"doc": doc},
        })
    return rows


def in_process(rows: list[Row]) -> list[str]:
    """The documents after fusing and reranking by the modules."""
    return [found["meta"]["doc"] for found in rerank(fuse(rows).rows).rows]


def by_executables(lists: Sequence[list[Row]], folder: str) -> list[str]:
    """The documents after `ls-fuse FILE... | ls-rerank`, the real ones of this checkout."""
    files = []
    for number, rows in enumerate(lists):
        files.append(os.path.join(folder, f"{number}.jsonl"))
        with open(files[-1], "wb") as file:
            file.writelines(orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE) for found in rows)
    env = {**os.environ, **{f"LSPIPE_{name}_HOME": os.path.join(folder, name) for name in ("CONFIG", "STATE", "CACHE")}}
    tool = [sys.executable, "-I"]
    first = subprocess.Popen([*tool, f"{ROOT}/bin/ls-fuse", *files], stdout=subprocess.PIPE, env=env)
    assert first.stdout is not None
    second = subprocess.run([*tool, f"{ROOT}/bin/ls-rerank"], stdin=first.stdout, capture_output=True, env=env)
    first.stdout.close()
    if first.wait() or second.returncode:
        sys.exit(f"ls-fuse ended with {first.returncode}, ls-rerank with {second.returncode}: {second.stderr.decode()}")
    return [orjson.loads(line)["meta"]["doc"] for line in second.stdout.splitlines()]


def plain_sum(rows: Iterable[Row]) -> list[str]:
    """Reciprocal rank fusion as it is usually done: every list's share is added."""
    shares: dict[str, float] = defaultdict(float)
    for found in rows:
        shares[found["meta"]["doc"]] += 1 / (K + found["rank"])
    return sorted(shares, key=lambda doc: (-shares[doc], doc))


def unstemmed(rows: list[Row]) -> list[str]:
    """The recipe on words instead of stems."""
    lexical.TOKENIZE, kept = "unicode61", lexical.TOKENIZE
    try:
        return in_process(rows)
    finally:
        lexical.TOKENIZE = kept


def snippet_only(rows: list[Row]) -> list[str]:
    """The recipe where sources send no text, only the snippet for people."""
    return in_process([{key: value for key, value in found.items() if key != "text"} for found in rows])


def candidate_idf(rows: list[Row], collection: Collection) -> list[str]:
    """The recipe where rarity is counted among the rows that are reranked instead of in the corpus."""
    docs = {found["meta"]["doc"] for found in fuse(rows, limit=DEPTH).rows}
    if not docs:
        return []
    pool = Index(collection.docs, docs)
    terms = words.parse(rows[0]["query"]).wanted
    corpus = [{"id": "candidates", "n": pool.size, "df": {term.key: pool.holding(term.words) for term in terms}}]
    return in_process([{**found, "corpus": corpus} for found in rows])


def federate(collection: Collection, seed: int, executables: bool) -> dict[str, float]:
    """Mean nDCG@10 of every way."""
    whole = Index(collection.docs, collection.docs)
    sources = [(name, kin, Index(collection.docs, ids))
               for (name, kin, _), ids in zip(PARTS, cut(collection.docs, seed), strict=True)]
    found: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="lspipe-eval-") as folder:
        for key, query in collection.queries.items():
            lists = [answer(name, kin, index, query, collection, False) for name, kin, index in sources]
            begun = [answer(name, kin, index, query, collection, True) for name, kin, index in sources]
            rows = [item for part in lists for item in part]
            ways = {
                "one FTS5 index over all": [doc for doc, _ in whole.best(query, 10)],
                "ls-fuse | ls-rerank": by_executables(lists, folder) if executables else in_process(rows),
                "  df by beginnings of words": in_process([item for part in begun for item in part]),
                "  unstemmed": unstemmed(rows),
                "  snippet only": snippet_only(rows),
                "  IDF of the candidates": candidate_idf(rows, collection),
                "  no reranking": [item["meta"]["doc"] for item in fuse(rows).rows],
                "plain RRF, sum of shares": plain_sum(rows),
            }
            if executables and ways["ls-fuse | ls-rerank"] != in_process(rows):
                sys.exit(f"query {key}: the executables and the modules disagree")
            for way, ranked in ways.items():
                found[way].append(ndcg(ranked, collection.grades[key]))
    return {way: statistics.fmean(values) for way, values in found.items()}


def show(title: str, means: Mapping[str, float]) -> float:
    """Print one table; the ratio that the goal is about."""
    base = means["one FTS5 index over all"]
    print(title)
    for way, mean in means.items():
        print(f"  {way:30} {mean:.4f}  {mean / base:.3f}")
    return means["ls-fuse | ls-rerank"] / base


def main() -> int:
    """Print the tables; 1 where the goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collection", default="cacm", help="which one (default: %(default)s)")
    parser.add_argument("--split", help="only the queries of this split (dev is for tuning, test for reporting)")
    parser.add_argument("--seed", type=int, action="append", help="of the cut; may be repeated (default: 1)")
    parser.add_argument("--in-process", action="store_true", help="call the modules instead of the executables")
    given = parser.parse_args()
    collection = load(given.collection, given.split)
    if collection is None:
        print(f"not run: no {given.collection}.tar.xz in the folder that LSPIPE_COLLECTIONS names")
        return 0
    met = True
    for seed in given.seed or [1]:
        ratio = show(
            f"federated {collection.name}{' ' + given.split if given.split else ''}, cut seed {seed}: nDCG@10 of "
            f"{len(collection.queries)} queries, ratio to one index",
            federate(collection, seed, not given.in_process))
        met &= ratio >= GOAL
        print(f"  goal {GOAL:.1f}: {ratio:.3f}{'' if ratio >= GOAL else '  MISSED'}", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
