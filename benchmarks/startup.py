"""Start-up of a transform, without and with one row; and ls-query's own time over sources that return nothing."""

import os
import sys

from harness import Case, environment, measure, scratch


def main() -> bool:
    """Run the three rows of the table."""
    with scratch() as home:
        env = environment(home)
        one = os.path.join(home, "one.jsonl")
        with open(one, "w") as file:
            file.write('{"source":"history","url":"https://example.org/","title":"one","rank":1}\n')
        results = [
            measure(Case("start-up of a transform, empty input", ["ls-fuse"],
                         [sys.executable, "-c", "import click, orjson"], 1.5, runs=15), env),
            measure(Case("the same, one row", ["ls-fuse"],
                         [sys.executable, "-c", "import click, orjson, jsonschema_rs"], 1.4, stdin=one, runs=15), env),
        ]
    return all(results)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
