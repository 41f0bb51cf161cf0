"""qmd's index: a private copy for qmd to run on, and what it says of collections, files and words.

qmd opens its index for writing and makes one where there is none, so it is given a copy in the run directory, or
nothing. The tables are those of qmd 2.8; where one is missing, less is known and nothing fails but a retry.
"""

import contextlib
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from lspipe import confine, paths, qmd, snapshot, when
from lspipe.exits import LspipeError, Precondition, Upstream, strerror
from lspipe.narrow import within
from lspipe.words import Term

#: Larger ones are not copied.
MOST = 256 << 20
_CONFIG_MOST = 1 << 20
#: Bytes of the longest name or path that is read of it.
_LONGEST = 4096
_TABLES = ("documents", "store_collections")
#: What the FTS5 table is made of, which is read when it is asked.
_WORDS = "documents_fts"
_FTS5 = re.compile(r"CREATE VIRTUAL TABLE \S+ USING fts5\b", re.IGNORECASE)


def file_of(cache: str) -> str:
    """Where qmd keeps its index."""
    return paths.real(os.path.join(cache, "qmd", "index.sqlite"))


def open_index(path: str) -> snapshot.Source:
    """The index, held open. Raises Precondition where there is none, Upstream where it cannot be read."""
    try:
        source = snapshot.open_all(path)
    except snapshot.Unusable as error:
        if error.reason == "not-found":
            raise Precondition(f"no index: qmd has none at '{path}'", qmd.BUILD) from None
        raise Upstream(f"cannot read the index of qmd: {error.message}") from None
    if os.fstat(source.fd).st_size == 0 and source.size == 0:
        source.close()
        raise Precondition(f"no index: '{path}' is empty", qmd.BUILD)
    return source


def read_config(folder: str) -> bytes | None:
    """The text of qmd's `index.yml`; None where there is none. Raises Precondition where it cannot be read."""
    path = paths.real(os.path.join(folder, "qmd", "index.yml"))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Precondition(f"cannot read '{path}': not a regular file")
            data = file.read(_CONFIG_MOST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Precondition(f"cannot read '{path}': {strerror(error)}") from None
    if len(data) > _CONFIG_MOST:
        raise Precondition(f"'{path}' is longer than {_CONFIG_MOST >> 20} MiB")
    return data


@dataclass
class Place:
    """Where qmd runs: its index, and the folder of its settings, both ours for as long as it runs."""

    index: str
    config: str
    #: Whether `index` is a copy.
    private: bool

    def environment(self, cache: str | None = None) -> dict[str, str]:
        """The variables that lead qmd here; `cache` is the folder of its models, where it may use them."""
        found = {"INDEX_PATH": self.index, "QMD_CONFIG_DIR": self.config, "HOME": self.config, "NO_COLOR": "1",
                 "OPENSSL_CONF": os.devnull, "QMD_FORCE_CPU": "1", "QMD_SQLITE_BUSY_TIMEOUT": "5000"}
        return found | ({"XDG_CACHE_HOME": cache} if cache else {})

    def configure(self, known: Iterable["Collection"]) -> None:
        """Write the settings that the user does not have: what is searched (JSON is YAML, too)."""
        named = {one.name: {"path": one.path or "/nowhere", "pattern": one.pattern, "includeByDefault": one.default}
                 for one in known}
        with open(os.path.join(self.config, "index.yml"), "xb") as file:
            file.write(orjson.dumps({"collections": named}))

    def clear(self) -> None:
        """Remove the copy."""
        if self.private:
            for suffix in ("", "-wal", "-shm", "-journal"):
                with contextlib.suppress(OSError):
                    os.unlink(self.index + suffix)


def prepare(source: snapshot.Source, original: str, config: bytes | None, run_tmp: str) -> Place:
    """Copy the index, with its log applied, and the settings into `run_tmp`; a larger one stays where it is.

    Raises Upstream where it is damaged or changes all the time.
    """
    folder = os.path.join(run_tmp, "config")
    os.mkdir(folder, 0o700)
    if config is not None:
        with open(os.path.join(folder, "index.yml"), "xb") as file:
            file.write(config)
    if source.size > MOST:
        return Place(original, folder, private=False)
    place = Place(os.path.join(run_tmp, "index.sqlite"), folder, private=True)
    try:
        snapshot.copy(source, place.index, run_tmp)
    except snapshot.Unusable as error:
        place.clear()
        if "changed each time" in error.message:
            raise Upstream("the index of qmd changed each time it was read: qmd is writing", "run it again") from None
        raise qmd.damaged(error.message) from None
    except OSError as error:
        place.clear()
        raise Upstream(f"cannot copy the index of qmd: {strerror(error)}",
                       "make room in the state folder, or set LSPIPE_STATE_HOME to another one") from None
    return place


class Collection(NamedTuple):
    """A collection: its folder, where the index tells it, and whether qmd searches it unasked."""

    name: str
    path: str | None
    pattern: str = "**/*.md"
    default: bool = True


class Part(NamedTuple):
    """A collection, or what of it lies below the folder `below` (relative; empty: all)."""

    collection: Collection
    below: str = ""


def connect(place: Place) -> confine.Connection:
    """A connection that can read `documents` and `store_collections` and nothing else. Raises Upstream."""
    conn = _open(place)
    try:
        confine.confine(conn, _TABLES, None)
        conn.longest(_LONGEST)
    except (*confine.FAULTS, LspipeError) as error:
        conn.close()
        raise _damaged(error) from None
    return conn


def _open(place: Place) -> confine.Connection:
    still = "&immutable=1" if place.private else ""
    try:
        return sqlite3.connect(f"file:{snapshot.quoted(place.index)}?mode=ro{still}", uri=True, isolation_level=None,
                               factory=confine.Connection)
    except sqlite3.OperationalError as error:  # No descriptor, no memory, or another took it away.
        raise Upstream(f"cannot open the index of qmd: {error}", "run it again") from None


def _damaged(error: Exception) -> Upstream:
    return qmd.damaged(error.message if isinstance(error, LspipeError)
                       else confine.explained(error, "index.sqlite").message)


def collections(conn: confine.Connection) -> list[Collection]:
    """What is in the index, by name. Raises Precondition where nothing is, Upstream where it is damaged."""
    try:
        known = confine.columns(conn, "store_collections")
        found = {}
        if {"name", "path"} <= known:
            pattern = "pattern" if "pattern" in known else "'**/*.md'"
            default = "include_by_default" if "include_by_default" in known else "1"
            rows = conn.execute(f"SELECT name, path, {pattern}, {default} FROM store_collections")
            for name, path, pattern, default in rows:
                conn.keep(name, path, pattern)
                found[str(name)] = Collection(str(name), str(path), str(pattern), default != 0)
        named = set()
        if {"collection", "active"} <= confine.columns(conn, "documents"):
            for (name,) in conn.execute("SELECT DISTINCT collection FROM documents WHERE active = 1"):
                conn.keep(name)
                named.add(str(name))
    except confine.FAULTS as error:
        raise _damaged(error) from None
    if not named:
        raise Precondition("no index: there is no page in the one of qmd", qmd.BUILD)
    for name in named:
        found.setdefault(name, Collection(name, None))
    return [found[name] for name in sorted(found)]


def below(known: Iterable[Collection], folders: Sequence[str]) -> list[Part]:
    """The collections that lie below the folders (absolute, real), and what lies below a folder inside one."""
    found = []
    for one in known:
        home = paths.real(one.path) if one.path else None
        if home is None:
            continue
        if any(within(home, folder) for folder in folders):
            found.append(Part(one))
            continue
        inside = [folder for folder in folders if within(folder, home)]
        found += [Part(one, os.path.relpath(folder, home)) for folder in inside]
    return found


def modified(conn: sqlite3.Connection, collection: str, path: str) -> int | None:
    """When the file was changed last, as the index has it, in microseconds; None where it does not say."""
    try:
        row = conn.execute("SELECT modified_at FROM documents WHERE collection = ? AND path = ? AND active = 1",
                           (collection, path)).fetchone()
    except confine.FAULTS:
        return None
    return when.parse_rfc3339(row[0]) if row and isinstance(row[0], str) else None


def has_vectors(place: Place) -> bool:
    """Whether there is anything for a search by meaning."""
    conn = _open(place)
    try:
        confine.confine(conn, ("content_vectors",), None)
        return conn.execute("SELECT 1 FROM content_vectors LIMIT 1").fetchone() is not None
    except (*confine.FAULTS, LspipeError):
        return False
    finally:
        conn.close()


def fewer(place: Place, asked: qmd.Question, among: Sequence[str], stop: Callable[[], bool]) -> list[Term]:
    """The words to ask for where no page holds them all: from the rarest on, each that some page holds together
    with those before it. In the query's order; none where the index does not tell, or no page holds any.

    `among` names the collections; none: all.
    """
    def count(terms: Sequence[Term], most: int) -> int:
        return _count(conn, qmd.match(terms, asked.unwanted), among, most)

    with contextlib.closing(_open(place)) as conn:
        try:
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "temp_store = MEMORY"):
                conn.execute(f"PRAGMA {pragma}")
            conn.longest(confine.LONGEST)
            conn.set_progress_handler(stop, 1000)
            made = conn.execute("SELECT sql FROM sqlite_master WHERE name = ? AND type = 'table'", (_WORDS,)).fetchone()
            if made is None or not _FTS5.match(str(made[0])):
                return []
            conn.execute(f"SELECT 1 FROM {_WORDS} LIMIT 0")  # What FTS5 asks for when it opens is not granted later.
            conn.set_authorizer(_words_only)
            counted = sorted((count([term], 1 << 30), number, term) for number, term in enumerate(asked.terms))
            chosen: list[tuple[int, Term]] = []
            for pages, number, term in counted:
                if pages and count([*(one for _number, one in chosen), term], 1):
                    chosen.append((number, term))
        except confine.FAULTS:
            return []
    return [term for _number, term in sorted(chosen)]


def _count(conn: sqlite3.Connection, match: str, among: Sequence[str], most: int) -> int:
    inside = f" AND d.collection IN ({','.join('?' * len(among))})" if among else ""
    found = conn.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {_WORDS} f JOIN documents d ON d.id = f.rowid"
        f" WHERE {_WORDS} MATCH ? AND d.active = 1{inside} LIMIT {most})", (match, *among)).fetchone()
    return int(found[0])


def _words_only(action: int, first: str | None, _second: str | None, _database: str | None, _by: str | None) -> int:
    known = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION) or (
        action == sqlite3.SQLITE_READ and (first in ("", "documents") or str(first).startswith(_WORDS)))
    # Whether another program has written meanwhile.
    known |= action == sqlite3.SQLITE_PRAGMA and first == "data_version"
    return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY
