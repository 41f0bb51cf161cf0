"""Every benchmark there is, one after the other; 1 where a goal was missed."""

import importlib
import sys

NAMES = ("startup", "orchestration", "fusion", "history", "rg", "snss", "redact", "tabs", "qmd")


def main() -> int:
    """Run them all, or those that are named."""
    results = []
    for name in sys.argv[1:] or NAMES:
        results.append((name, importlib.import_module(name).main()))
        print()
    missed = [name for name, met in results if not met]
    print("goals missed in: " + ", ".join(missed) if missed else "every goal met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
