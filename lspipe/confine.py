"""An SQLite connection to a file that somebody else wrote, confined to reading named tables.

What SQLite's "Defense Against The Dark Arts" asks of a program that opens foreign files, and a progress
handler, without which no signal would be heeded while a long statement runs.

A small file may hold much: thousands of rows can share one chain of pages, and thousands of others name one row. So
no value is long (`LONGEST`, and `SHORT` where SQLite itself keeps what it reads, to sort it or to find it once), the
clock is looked at every few of them, and what is kept of one file is counted (`Connection.keep`).
"""

import sqlite3
import sys
import time
import weakref
from collections.abc import Callable, Iterable

from lspipe.live import Unusable

#: Bytes of the longest text or blob that is read at all; a url of Chromium has at most 2 MiB. SQLite says of a longer
#: one that it is too big before it reads it.
LONGEST = (2 << 20) + (64 << 10)
#: The same where only numbers, times and ids are asked for.
SHORT = 1000
#: Bytes that are kept of one file, and what a row takes besides its texts.
_MOST_KEPT, _ROW = 96 << 20, 200
#: Steps between two looks at the clock. A step may go through one value from its beginning to its end, some 20 ms.
_STEPS = 250
#: Bytes of the longest statement of a schema, and steps for reading all of it: some 2,500 tables and indexes.
_STATEMENT, _SCHEMA_STEPS = 20_000, 20_000
#: Seconds of processor time for fetching what was found when time is over.
_GRACE = 1.0
#: Steps of SQLite's machine that reading takes at most, whatever is asked: some, and so many for each byte of the file.
#: What takes more has pages that lead in a circle, or to one page again and again. A good one takes at most 6 a byte.
_LEAST_STEPS, _STEPS_A_BYTE = 2_000_000, 60
#: The same for seconds of processor time, which are looked at every so many looks. A good file takes 0.01 a MiB.
_LEAST_SECONDS, _SECONDS_A_BYTE, _LOOKS = 15.0, 1 / (1 << 20), 16
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


class TooMuch(sqlite3.DatabaseError):
    """A file holds more than is kept of one."""


class Connection(sqlite3.Connection):
    """A connection that knows whether it was ended because it had taken more steps, or more time, than its file can
    be worth; `stop` says whether time is over."""

    spent = False
    stop: Callable[[], bool] = staticmethod(lambda: False)
    #: The same, and `grace` gives it no longer.
    late: Callable[[], bool] = staticmethod(lambda: False)
    _room = _MOST_KEPT

    def longest(self, length: int) -> None:
        """From now on longer values are a fault of the file."""
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)

    def look(self) -> None:
        """Raise what an interrupted statement raises, where time is over: for what is long to do beside SQLite."""
        if self.stop():
            error = sqlite3.OperationalError("interrupted")
            error.sqlite_errorcode = sqlite3.SQLITE_INTERRUPT
            raise error

    def keep(self, *values: object, most: int = _ROW) -> None:
        """Count what is kept until the end: these values, and `most` bytes for what holds them. Raises TooMuch."""
        self._room -= most + sum(map(sys.getsizeof, values))
        if self._room < 0:
            raise TooMuch(f"there is more in it than {_MOST_KEPT >> 20} MiB of memory can hold")


def confine(conn: Connection, tables: Iterable[str], stop: Callable[[], bool] | None) -> None:
    """Let `conn` read `tables` and nothing else. Raises Unusable where one of them is no table, sqlite3.Error.

    `stop` is asked every few milliseconds of work; where it says yes, the statement ends with an error for
    which `interrupted` is true. Text comes as str, with U+FFFD for what is not UTF-8.
    """
    conn.stop = conn.late = stop or _go_on
    for limit, value in _LIMITS.items():
        conn.setlimit(limit, value)
    conn.text_factory = decode
    _load(conn)
    size = int(conn.execute("PRAGMA page_count").fetchone()[0]) * int(conn.execute("PRAGMA page_size").fetchone()[0])
    looks = (_LEAST_STEPS + size * _STEPS_A_BYTE) // _STEPS
    conn.set_progress_handler(_watch(conn, looks, _LEAST_SECONDS + size * _SECONDS_A_BYTE), _STEPS)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "temp_store = MEMORY",
                   "cache_size = -16000"):
        conn.execute(f"PRAGMA {pragma}")
    readable = frozenset(name.lower() for name in tables)
    for name, kind, page in conn.execute("SELECT name, type, rootpage FROM sqlite_master"):
        # A view runs whatever it holds, and a virtual table (it has no page) whatever module it names.
        if kind != "index" and str(name).lower() in readable and (kind != "table" or not page):
            raise Unusable("failed", f"'{name}' is not a table in it")
    conn.set_authorizer(_authorizer(readable))


def _load(conn: Connection) -> None:
    """Let SQLite read the schema, which it keeps in memory as long as it is open. Raises Unusable, sqlite3.Error."""
    conn.longest(_STATEMENT)
    conn.set_progress_handler(lambda: True, _SCHEMA_STEPS)
    try:
        conn.execute("SELECT 1 FROM sqlite_master LIMIT 0")
    except sqlite3.OperationalError as error:
        if interrupted(error):
            raise Unusable("failed", "it has more tables than any browser's") from None
        raise
    finally:
        conn.longest(LONGEST)
        conn.set_progress_handler(None, 0)


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


#: The connection whose handler looked at the processor's clock last, and what it saw.
_looked: tuple[int, float] = 0, 0.0


def _watch(conn: Connection, looks: int, seconds: float) -> Callable[[], bool]:
    """A progress handler that asks `stop`, and also says yes after so many calls, or seconds between them."""
    held, left, key = weakref.ref(conn), looks, id(conn)

    def over() -> bool:
        global _looked
        nonlocal left, seconds
        left -= 1
        found = held()
        if not left % _LOOKS:
            now = time.process_time()
            if _looked[0] == key:  # Else another one worked meanwhile.
                seconds -= now - _looked[1]
            _looked = key, now
        if found is None:
            return True
        if left < 0 or seconds < 0:
            found.spent = True
        return found.spent or found.stop()

    return over


def _go_on() -> bool:
    """A progress handler is what lets Python's signal handlers run during a long statement."""
    return False


def grace(conn: Connection) -> None:
    """What was found before `stop` said yes can still be fetched, for as long as one may wait for it."""
    stop, end = conn.stop, 0.0

    def over() -> bool:
        nonlocal end
        if not stop():
            return False
        end = end or time.process_time() + _GRACE
        return time.process_time() > end

    conn.stop = over


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
