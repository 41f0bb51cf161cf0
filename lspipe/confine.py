"""An SQLite connection to a file that somebody else wrote, confined to reading named tables.

What SQLite's "Defense Against The Dark Arts" asks of a program that opens foreign files, and a progress
handler, without which no signal would be heeded while a long statement runs.
"""

import sqlite3
import weakref
from collections.abc import Callable, Iterable

from lspipe.live import Unusable

#: The longest text or blob that is read at all.
LONGEST = 16 << 20
_STEPS = 20_000
#: Steps of SQLite's machine that reading takes at most, whatever is asked: some, and so many for each byte of the file.
#: What takes more has pages that lead in a circle, or to one page again and again. A good one takes at most 6 a byte.
_LEAST_STEPS, _STEPS_A_BYTE = 2_000_000, 60
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST, sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 500, sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 8, sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 16,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0, sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_FUNCTIONS = frozenset({
    "count", "max", "min", "length", "like", "glob", "instr", "coalesce", "ifnull", "substr", "typeof", "abs",
})
_PRAGMAS = frozenset({"table_info", "index_list", "index_info"})
_SCHEMA = ("sqlite_master", "sqlite_schema")


class Connection(sqlite3.Connection):
    """A connection that knows whether it was ended because it had taken more steps than its file can be worth."""

    spent = False


def confine(conn: Connection, tables: Iterable[str], stop: Callable[[], bool] | None) -> None:
    """Let `conn` read `tables` and nothing else. Raises Unusable where one of them is no table, sqlite3.Error.

    `stop` is asked every few milliseconds of work; where it says yes, the statement ends with an error for
    which `interrupted` is true. Text comes as str, with U+FFFD for what is not UTF-8.
    """
    for limit, value in _LIMITS.items():
        conn.setlimit(limit, value)
    conn.text_factory = decode
    size = int(conn.execute("PRAGMA page_count").fetchone()[0]) * int(conn.execute("PRAGMA page_size").fetchone()[0])
    looks = (_LEAST_STEPS + size * _STEPS_A_BYTE) // _STEPS
    conn.set_progress_handler(_watch(conn, looks, stop or _go_on), _STEPS)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "temp_store = MEMORY",
                   "cache_size = -16000"):
        conn.execute(f"PRAGMA {pragma}")
    readable = frozenset(name.lower() for name in tables)
    for name, kind, page in conn.execute("SELECT name, type, rootpage FROM sqlite_master"):
        # A view runs whatever it holds, and a virtual table (it has no page) whatever module it names.
        if kind != "index" and str(name).lower() in readable and (kind != "table" or not page):
            raise Unusable("failed", f"'{name}' is not a table in it")
    conn.set_authorizer(_authorizer(readable))


def _authorizer(readable: frozenset[str]) -> Callable[..., int]:
    def allowed(action: int, first: str | None, second: str | None, _database: str | None,
                inner: str | None) -> int:
        known = False
        if inner is None:
            if action == sqlite3.SQLITE_SELECT:
                known = True
            elif action == sqlite3.SQLITE_READ:
                known = (first or "").lower() in readable or first in _SCHEMA
            elif action == sqlite3.SQLITE_FUNCTION:
                known = (second or "").lower() in _FUNCTIONS
            elif action == sqlite3.SQLITE_PRAGMA:
                known = first in _PRAGMAS
        return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY

    return allowed


def _watch(conn: Connection, looks: int, stop: Callable[[], bool]) -> Callable[[], bool]:
    """A progress handler that also says yes after so many calls."""
    held, left = weakref.ref(conn), looks

    def over() -> bool:
        nonlocal left
        left -= 1
        found = held()
        if left < 0 and found is not None:
            found.spent = True
        return left < 0 or stop()

    return over


def _go_on() -> bool:
    """A progress handler is what lets Python's signal handlers run during a long statement."""
    return False


def no_deadline(conn: sqlite3.Connection) -> None:
    """From now on only a signal ends a statement: what was found before `stop` said yes can still be fetched."""
    if not getattr(conn, "spent", False):
        conn.set_progress_handler(_go_on, _STEPS)


def decode(raw: bytes) -> str:
    """Text of a database, with U+FFFD for what is not UTF-8."""
    return raw.decode("utf-8", "replace")


def columns(conn: sqlite3.Connection, table: str) -> frozenset[str]:
    """The columns of `table`, in lower case; none where there is no such table. Generated ones do not count."""
    return frozenset(str(row[1]).lower() for row in conn.execute(f"PRAGMA table_info('{table}')"))


def numbered(conn: sqlite3.Connection, table: str) -> bool:
    """Whether the rows of `table` have an integer key called `id`."""
    keys = [row for row in conn.execute(f"PRAGMA table_info('{table}')") if row[5]]
    return [(str(row[1]).lower(), str(row[2]).upper()) for row in keys] == [("id", "INTEGER")]


#: What a damaged file makes of a statement; the second where the message quotes bytes that are no text.
FAULTS = (sqlite3.Error, UnicodeDecodeError)


def interrupted(error: Exception, conn: sqlite3.Connection | None = None) -> bool:
    """Whether a statement (of `conn`) was ended by `stop` or by a signal, and nothing is wrong with the file."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT and not getattr(conn, "spent", False)


def explained(error: Exception, name: str) -> Unusable:
    """One of FAULTS as a reason to leave the file `name` out."""
    if isinstance(error, UnicodeDecodeError):
        return Unusable("failed", f"'{name}' is damaged")
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_NOTADB:
        return Unusable("failed", f"'{name}' is not an SQLite database")
    what = "is damaged" if code & 0xFF == sqlite3.SQLITE_CORRUPT else "cannot be read"
    return Unusable("failed", f"'{name}' {what}: {error}")
