"""ls-fuse over 100,000 rows, against loading and dumping the same rows."""

import os
import random
import sys

import orjson
from harness import Case, environment, measure, scratch

FLOOR = """
import os, sys, orjson
out = sys.stdout.buffer
for line in sys.stdin.buffer:
    out.write(orjson.dumps(orjson.loads(line), option=orjson.OPT_APPEND_NEWLINE))
"""


def rows(path: str, count: int = 100_000) -> int:
    """Four lists with some urls in common, of ordinary size; the bytes written."""
    pick = random.Random(7)
    words = [f"word{number}" for number in range(3000)]
    sources = ("history", "bookmarks", "files", "wiki")
    with open(path, "wb") as file:
        for number in range(count):
            source = sources[number % 4]
            page = pick.randrange(count * 3)
            text = " ".join(pick.choice(words) for _ in range(40))
            row = {
                "id": f"res_{number:016x}", "query_id": "ls_9c2e41d07ab3f815", "query": "word1 word2",
                "source": source, "rank": number // 4 + 1, "score": round(pick.random() * 9, 4),
                "title": text[:60], "url": f"https://host{page % 97}.example.org/{page}/{text[:20].replace(' ', '-')}",
                "snippet": text, "matched_terms": ["word1"], "accessed_at": "2026-07-21T09:12:00.000000Z",
                "provenance": {"retriever": "browser", "method": "snapshot", "acl": "authorized", "private": True,
                               "browser": "chromium", "profile": "Default", "origin": "local"},
                "corpus": [{"id": f"{source}:one", "n": 50000, "df": {"word1": 120, "word2": 61}}],
                "meta": {"visit_count": 4},
            }
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return os.path.getsize(path)


def main() -> bool:
    """Run the row of the table; the peak memory has a goal of its own."""
    with scratch() as home:
        path = os.path.join(home, "rows.jsonl")
        size = rows(path)
        return measure(Case("ls-fuse, 100,000 rows (peak memory goal 2.5 x the input)", ["ls-fuse"],
                            [sys.executable, "-c", FLOOR], 4.0, stdin=path, floor_stdin=path, runs=5,
                            input_bytes=size), environment(home))


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
