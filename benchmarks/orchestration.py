"""ls-query: its own time over sources that return nothing, and a whole question against its slowest source."""

import json
import os
import random
import statistics
import sys
import time

from harness import Case, environment, measure, scratch, took

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))

import sample_state
from history import history

WORDS = "word17 word23"
FORKS = """
import os, sys, time
import click, orjson, jsonschema_rs
began = time.perf_counter()
for _ in range(6):
    if os.fork() == 0:
        os._exit(0)
for _ in range(6):
    os.wait()
print(time.perf_counter() - began)
"""


def grants(env: dict[str, str], *found: dict[str, object]) -> None:
    """Write the consent file."""
    os.makedirs(env["LSPIPE_CONFIG_HOME"], 0o700, exist_ok=True)
    path = os.path.join(env["LSPIPE_CONFIG_HOME"], "consent.json")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"v": 1, "grants": found}, file)


def own_time(env: dict[str, str]) -> bool:
    """ls-query less its --version, against six forks of a warm parent."""
    import subprocess

    ratios, own, floors = [], [], []
    for number in range(16):
        whole = took(["ls-query", "--jsonl", "nonesuchword"], env, os.devnull).wall
        start = took(["ls-query", "--version"], env, os.devnull).wall
        forks = float(subprocess.run([sys.executable, "-c", FORKS], env=env, capture_output=True, check=True).stdout)
        if number:
            ratios.append((whole - start) / forks)
            own.append(whole - start)
            floors.append(forks)
    ratio = statistics.median(ratios)
    print(f"ls-query's own time, over sources that return nothing, less ls-query --version\n"
          f"  ratio {ratio:.2f} (goal 3; {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} runs)"
          f"{'' if ratio <= 3 else '  MISSED'}\n"
          f"  {statistics.median(own) * 1000:.1f} ms against {statistics.median(floors) * 1000:.1f} ms\n"
          f"  floor: six forks of a Python that has imported click, orjson, jsonschema_rs", flush=True)
    return ratio <= 3


def files(folder: str, count: int, seed: int) -> None:
    """`count` small text files in folders of a hundred."""
    pick = random.Random(seed)
    words = [f"word{number}" for number in range(5000)]
    for number in range(count):
        place = os.path.join(folder, f"{number // 100:03d}")
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f"{number:05d}.md"), "w") as file:
            file.write("# " + " ".join(pick.choices(words, k=6)) + "\n\n")
            file.writelines(" ".join(pick.choices(words, k=12)) + "\n" for _ in range(40))


def whole(home: str, env: dict[str, str], profile: str) -> bool:
    """All sources at once, against the slowest of them alone."""
    commands = {
        "history": ["ls-history", "-n", "100", WORDS], "bookmarks": ["ls-bookmarks", "-n", "100", WORDS],
        "files": ["ls-rg", "--words", "-n", "100", WORDS, os.path.join(home, "notes"), os.path.join(home, "files")],
    }
    alone = {name: took(command, env, os.devnull).wall for name, command in commands.items()}
    slowest = max(alone, key=lambda name: alone[name])
    print("  alone: " + ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in alone.items()))
    return measure(Case("ls-query over history (100,000 urls), bookmarks, 1,000 notes, 20,000 files",
                        ["ls-query", "--jsonl", WORDS], commands[slowest], 1.5, runs=5), env)


def main() -> bool:
    """Both rows of the table."""
    with scratch() as home:
        env = environment(home)
        profile = os.path.join(home, ".config/chromium/Default")
        now = time.time_ns() // 1000
        sample_state.chromium(profile, now)
        os.makedirs(os.path.join(home, "notes"))
        browser = {"family": "browser", "browser": "chromium", "profile": "Default",
                   "data": ["history", "bookmarks"], "path": profile}
        grants(env, browser, {"family": "files", "path": os.path.join(home, "notes")})
        first = own_time(env)
        os.unlink(os.path.join(profile, "History"))
        history(os.path.join(profile, "History"), 100_000)
        files(os.path.join(home, "notes"), 1_000, 1)
        files(os.path.join(home, "files"), 20_000, 2)
        grants(env, browser, {"family": "files", "path": os.path.join(home, "notes")},
               {"family": "files", "path": os.path.join(home, "files")})
        return whole(home, env, profile) and first


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
