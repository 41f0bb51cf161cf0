"""ls-redact: how many secrets it finds, how many harmless texts it takes for one, and how fast it reads rows.

The sets lie in tests/data: `b` was written from kinds of secret before there were rules, `c` after the rules were
done, and nothing was changed for it. A mark (¦) inside the prefixes of well-known services keeps scanners of
repositories quiet; it is taken out here.
"""

import os
import random
import statistics
import sys
from collections.abc import Iterator
from typing import Any

import fusion
import orjson
from harness import ROOT, Case, environment, measure, scratch, took

from lspipe import redact

SETS = {"b": "written before the rules", "c": "held out"}
COUNT = 100_000


def cases(name: str) -> Iterator[dict[str, Any]]:
    """The texts of a set: kind, field, text and the secrets in it; none in a harmless one."""
    with open(os.path.join(ROOT, "tests", "data", f"redact-{name}.jsonl"), encoding="utf-8") as file:
        for line in file:
            yield orjson.loads(line.replace("¦", ""))


def judge(name: str) -> None:
    """Print the catch rate and the false alarms of one set, each miss by its kind."""
    secrets = caught = harmless = wrong = 0
    missed: dict[str, None] = {}
    for case in cases(name):
        shown, count = redact.text(case["text"], case["field"] == "url")
        if not case["secrets"]:
            harmless += 1
            wrong += bool(count)
        for secret in case["secrets"]:
            secrets += 1
            if secret in shown:
                missed[case["kind"]] = None
            else:
                caught += 1
    print(f"set {name} ({SETS[name]})\n  caught {caught} of {secrets} secrets ({caught / secrets:.0%}), "
          f"false alarms in {wrong} of {harmless} harmless texts\n  missed: {', '.join(missed) or 'none'}")


def rows(path: str) -> int:
    """Rows of ordinary size, a third of their urls with a query, every fiftieth with a secret; the bytes written."""
    pick = random.Random(11)
    secret = [case for case in cases("b") if case["secrets"]]
    fusion.rows(path + ".plain", COUNT)
    with open(path + ".plain", "rb") as plain, open(path, "wb") as file:
        for number, line in enumerate(plain):
            row = orjson.loads(line)
            if number % 3 == 0:
                row["url"] += f"?page={number % 7}&q=word+{number % 1000}&lang=en"
            if number % 50 == 0:
                case = pick.choice(secret)
                row[case["field"]] = case["text"]
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return os.path.getsize(path)


def main() -> bool:
    """Print the figures of the sets, then the speed against loading and dumping the same rows."""
    for name in SETS:
        judge(name)
    with scratch() as home:
        env = environment(home)
        path = os.path.join(home, "rows.jsonl")
        size = rows(path)
        met = measure(Case("ls-redact, 100,000 rows, one in fifty with a secret", ["ls-redact"],
                           [sys.executable, "-c", fusion.FLOOR], 6.0, stdin=path, floor_stdin=path, runs=5,
                           input_bytes=size), env)
        whole = statistics.median(took(["ls-redact"], env, path).cpu for _ in range(3))
        empty = statistics.median(took(["ls-redact"], env, os.devnull).cpu for _ in range(3))
        print(f"  {COUNT / (whole - empty):,.0f} rows a second of one processor, start-up taken off")
    return met


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
