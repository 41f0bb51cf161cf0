"""ls-history over a million urls, against a copy of the file and a LIKE scan of the copy, from Python."""

import json
import os
import random
import sqlite3
import sys

from harness import Case, environment, measure, scratch

URLS = 1_000_000
FLOOR = """
import os, shutil, sqlite3, sys
source, copy = sys.argv[1:3]
shutil.copyfile(source, copy)
base = sqlite3.connect(copy)
found = base.execute("SELECT url, title, last_visit_time FROM urls WHERE url LIKE '%word17%' OR title LIKE '%word17%'"
                     " OR url LIKE '%word23%' OR title LIKE '%word23%'").fetchall()
print(len(found))
os.unlink(copy)
"""


def history(path: str, count: int = URLS) -> None:
    """A History of Chromium's form: `count` urls, one visit each."""
    pick = random.Random(11)
    words = [f"word{number}" for number in range(5000)]
    base = sqlite3.connect(path)
    base.executescript("""
        PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;
        CREATE TABLE meta(key LONGVARCHAR NOT NULL UNIQUE PRIMARY KEY, value LONGVARCHAR);
        INSERT INTO meta VALUES('version', '70');
        CREATE TABLE urls(id INTEGER PRIMARY KEY AUTOINCREMENT, url LONGVARCHAR, title LONGVARCHAR,
            visit_count INTEGER DEFAULT 0 NOT NULL, typed_count INTEGER DEFAULT 0 NOT NULL,
            last_visit_time INTEGER NOT NULL, hidden INTEGER DEFAULT 0 NOT NULL);
        CREATE TABLE visits(id INTEGER PRIMARY KEY AUTOINCREMENT, url INTEGER NOT NULL, visit_time INTEGER NOT NULL,
            from_visit INTEGER, transition INTEGER DEFAULT 0 NOT NULL, segment_id INTEGER,
            visit_duration INTEGER DEFAULT 0 NOT NULL, originator_cache_guid TEXT);
        CREATE TABLE visit_source(id INTEGER PRIMARY KEY, source INTEGER NOT NULL);
    """)
    start = 13_400_000_000_000_000

    def urls() -> object:
        for number in range(count):
            title = " ".join(pick.choices(words, k=6))
            path = "/".join(pick.choices(words, k=3))
            yield (f"https://host{number % 4000}.example.org/{path}?item={number}", title, start + number * 1000)

    base.executemany("INSERT INTO urls(url, title, visit_count, last_visit_time) VALUES(?, ?, 1, ?)", urls())
    base.execute("INSERT INTO visits(url, visit_time, from_visit, transition, originator_cache_guid)"
                 " SELECT id, last_visit_time, 0, 805306368, '' FROM urls")
    base.executescript("CREATE INDEX visits_url_index ON visits(url);"
                       "CREATE INDEX visits_time_index ON visits(visit_time);"
                       "CREATE INDEX urls_url_index ON urls(url);")
    base.commit()
    base.close()


def main() -> bool:
    """Run the row of the table."""
    with scratch() as home:
        profile = os.path.join(home, ".config/chromium/Default")
        os.makedirs(profile)
        history(os.path.join(profile, "History"))
        env = environment(home)
        os.makedirs(env["LSPIPE_CONFIG_HOME"], 0o700)
        consent = os.path.join(env["LSPIPE_CONFIG_HOME"], "consent.json")
        with open(os.open(consent, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump({"v": 1, "grants": [{"family": "browser", "browser": "chromium", "profile": "Default",
                                           "data": ["history"], "path": profile}]}, file)
        source = os.path.join(profile, "History")
        return measure(Case(
            "ls-history, 1 million urls", ["ls-history", "-n", "100", "word17 word23"],
            [sys.executable, "-c", FLOOR, source, os.path.join(home, "copy")], 3.0, runs=5,
            input_bytes=os.path.getsize(source)), env)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
