"""A session file of 10 MB replayed, against reading it and unpacking its records with struct."""

import os
import sys

from harness import ROOT, Case, environment, measure, scratch

#: Each does its work ten times, so that the start of an interpreter counts little.
ROUNDS = 10
FLOOR = """
import struct, sys
layouts = {0: "<ii", 2: "<ii", 6: "<Iii", 7: "<ii", 8: "<ii", 9: "<ii", 12: "<iB", 14: "<6i", 19: "<Ii", 21: "<i4xq",
           25: "<i4xQQB", 255: ""}
head = struct.Struct("<HB").unpack_from
layouts = {number: struct.Struct(layout).unpack_from for number, layout in layouts.items()}
for _ in range(int(sys.argv[2])):
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    at, found = 8, []
    while at + 3 <= len(data):
        size, number = head(data, at)
        found.append((number, layouts[number](data, at + 3)))
        at += 2 + size
"""
REPLAY = """
import sys
sys.path.insert(0, sys.argv[3])
from lspipe.browsers import snss
for _ in range(int(sys.argv[2])):
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    assert len(snss.open_tabs(data, "Session_1", 1 << 60).tabs) > 1000
"""


def main() -> bool:
    """The row of the table."""
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    import sessions

    with scratch() as home:
        path = os.path.join(home, "Session_1")
        data = sessions.large_session(10 << 20)
        with open(path, "wb") as file:
            file.write(data)
        rounds = str(ROUNDS)
        return measure(Case(
            f"a session file of {len(data) / 1e6:.0f} MB replayed", [sys.executable, "-c", REPLAY, path, rounds, ROOT],
            [sys.executable, "-c", FLOOR, path, rounds], 3.0, input_bytes=len(data)), environment(home))


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
