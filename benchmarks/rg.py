"""ls-rg over 20,000 files and a common word, against rg itself read by orjson and rows of the same size dumped."""

import os
import random
import sys

import orjson
from harness import ROOT, Case, environment, measure, scratch

#: What any program that makes rows of rg's matches has to do: read them all, and dump as many as large.
FLOOR = """
import subprocess, sys, orjson
row = orjson.loads(sys.argv[2])
out, loads, dumps = sys.stdout.buffer, orjson.loads, orjson.dumps
rg = subprocess.Popen(["rg", "--json", "--sort", "path", "--no-config", "return", sys.argv[1]], stdout=subprocess.PIPE)
for line in rg.stdout:
    message = loads(line)
    if message["type"] == "match":
        row["snippet"] = message["data"]["lines"]["text"].strip()
        out.write(dumps(row, option=orjson.OPT_APPEND_NEWLINE))
"""
FILES, LINES = 20_000, 160


def tree(folder: str) -> None:
    """Files like those of a large checkout: 5 KB on average, in folders of 100; one line in 30 holds the word."""
    pick = random.Random(7)
    letters = "etaoinshrdlucmfwyp"
    words = ["".join(pick.choice(letters) for _ in range(pick.randint(2, 9))) for _ in range(3000)]
    lines = [" ".join(pick.choices(words, k=5)) for _ in range(20_000)]
    lines += [line.replace(" ", " return ", 1) for line in lines[:690]]
    for number in range(FILES):
        below = os.path.join(folder, f"{number // 100:03}")
        os.makedirs(below, exist_ok=True)
        with open(os.path.join(below, f"module_{number:05}.py"), "w", encoding="ascii") as file:
            file.write("\n".join(pick.choices(lines, k=pick.randint(1, 2 * LINES))) + "\n")


def grant(config: str, folder: str) -> None:
    """Consent to read the tree."""
    os.mkdir(config, 0o700)
    fd = os.open(os.path.join(config, "consent.json"), os.O_WRONLY | os.O_CREAT, 0o600)
    with open(fd, "wb") as file:
        file.write(orjson.dumps({"v": 1, "grants": [{"family": "files", "path": folder}]}))


def main() -> bool:
    """The row of the table; and, without a goal, what the query language costs."""
    with scratch() as home:
        home = os.path.realpath(home)
        folder = os.path.join(home, "tree")
        tree(folder)
        env = environment(home)
        grant(env["LSPIPE_CONFIG_HOME"], folder)
        mine = [sys.executable, os.path.join(ROOT, "bin", "ls-rg")]
        sample = sample_row([*mine, "-n1", "return", folder], env)
        floor = [sys.executable, "-c", FLOOR, folder, sample]
        met = measure(Case("ls-rg, 20,000 files, a word in 100,000 lines", [*mine, "return", folder], floor, 2.0,
                           runs=5), env)
        measure(Case("ls-rg --words, the same (no goal)", [*mine, "--words", "return", "-n100", folder], floor,
                     float("inf"), runs=3), env)
        return met


def sample_row(command: list[str], env: dict[str, str]) -> str:
    """One row, for its size."""
    import subprocess

    return subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
