"""Reading tables of which a part may be damaged: what can be read is read, the rest is passed over and counted."""

from collections.abc import Iterator, Sequence
from typing import Any

from lspipe import confine

#: Ids in one statement.
CHUNK = 500
#: After so many faults a table is not cut any finer.
_FAULTS = 200
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class Cursor:
    """A connection that `snapshot.connect` made. `damaged` counts what could not be read.

    Where a statement was interrupted (`confine.interrupted`), the error goes through: nothing is damaged
    then.
    """

    def __init__(self, conn: confine.Connection) -> None:
        self.conn = conn
        self.damaged = 0

    def each(self, sql: str, given: Sequence[Any] = (), longest: int = confine.LONGEST) -> Iterator[Any]:
        """The rows of a statement, as far as the file allows.

        One that makes SQLite keep what it reads (ORDER BY, DISTINCT, GROUP BY, IN) asks for `confine.SHORT` values:
        ids, numbers, times.
        """
        try:
            yield from self._steps(sql, given, longest)
        except confine.FAULTS as error:
            self._fault(error)

    def _steps(self, sql: str, given: Sequence[Any], longest: int) -> Iterator[Any]:
        """The rows of a statement, with a look at the clock after each: who asked may take his time with them."""
        conn, short = self.conn, longest < confine.LONGEST
        rows: Iterator[Any] | None = None
        while True:
            if short:  # Between two rows other statements run.
                conn.longest(longest)
            try:
                if rows is None:
                    rows = conn.execute(sql, given)
                row = next(rows, None)
            finally:
                if short:
                    conn.longest(confine.LONGEST)
            if row is None:
                return
            conn.look()
            yield row

    def kept(self, sql: str, given: Sequence[Any] = (), longest: int = confine.LONGEST) -> Iterator[Any]:
        """The same for rows that are kept until the end. Raises confine.TooMuch."""
        for row in self.each(sql, given, longest):
            self.conn.keep(*row)
            yield row

    def alone(self, sql: str, given: Sequence[Any] = ()) -> Iterator[Any]:
        """Like `each` for `confine.SHORT` values, quickly, where no other statement runs until the last row is had."""
        self.conn.longest(confine.SHORT)
        try:
            yield from self.conn.execute(sql, given)
        except confine.FAULTS as error:
            self._fault(error)
        finally:
            self.conn.longest(confine.LONGEST)

    def ids(self, sql: str, given: Sequence[Any] = ()) -> set[int]:
        """The integers of a statement's first column."""
        return {row[0] for row in self.alone(sql, given) if type(row[0]) is int}

    def among(self, ids: Sequence[Any], sql: str, given: Sequence[Any] = ()) -> Iterator[Any]:
        """The rows of a statement that ends in `... IN`, for these ids; one by one where many cannot be read.

        The first column is an id.
        """
        for chunk in chunks(ids):
            done = set()
            try:
                for row in self._steps(f"{sql} {marks(chunk)}", [*given, *chunk], confine.LONGEST):
                    done.add(row[0])
                    yield row
            except confine.FAULTS as error:
                if confine.interrupted(error, self.conn):
                    raise
                if self.conn.spent:
                    self.damaged += 1
                    return
                for number in chunk:
                    yield from (row for row in self.each(f"{sql} (?)", [*given, number]) if row[0] not in done)

    def all(self, table: str, columns: str, condition: str, given: Sequence[Any] = ()) -> Iterator[Any]:
        """Rows of `table` by its integer key `id`, the first of `columns`.

        Where one cannot be read, the ids around it are halved until it stands alone.
        """
        sql = f"SELECT {columns} FROM {table} p WHERE p.id >= ? AND p.id <= ? AND ({condition}) ORDER BY p.id"
        careful = self.conn.text_factory
        # Python's own decoder is much the quickest; it ends the statement at the first text that is not UTF-8.
        self.conn.text_factory = str
        ranges, faults = [(_LEAST, _MOST)], 0
        try:
            while ranges:
                low, high = ranges.pop()
                row = None
                try:
                    last = low - 1
                    for row in self.conn.execute(sql, [low, high, *given]):
                        if row[0] <= last:  # Pages of the table lead in a circle.
                            self.damaged += 1
                            break
                        last = row[0]
                        yield row
                except confine.FAULTS as error:
                    if confine.interrupted(error, self.conn):
                        raise
                    if confine.interrupted(error):
                        self.damaged += 1
                        return
                    low = low if row is None or type(row[0]) is not int else max(low, row[0] + 1)
                    if self.conn.text_factory is str:
                        self.conn.text_factory = careful
                        ranges.append((low, high))
                        continue
                    faults += 1
                    low, high = self._occupied(table, low, high)
                    if low >= high or faults > _FAULTS:
                        self.damaged += 1
                        continue
                    middle = (low + high) // 2
                    ranges += [(middle + 1, high), (low, middle)]
        finally:
            self.conn.text_factory = careful

    def _occupied(self, table: str, low: int, high: int) -> tuple[int, int]:
        """The first and the last id in a range, so that halving does not go through ids that nothing has."""
        if low >= high:
            return low, low
        sql = f"SELECT min(id), max(id) FROM {table} WHERE id >= ? AND id <= ?"
        try:
            first, last = self.conn.execute(sql, (low, high)).fetchone()
        except confine.FAULTS:
            return low, high
        return (low, low) if first is None else (first, last)

    def _fault(self, error: Exception) -> None:
        if confine.interrupted(error, self.conn):
            raise error
        self.damaged += 1

    def finds_by(self, table: str, column: str) -> bool:
        """Whether a whole index of `table` begins with `column`."""
        for row in self.each(f"PRAGMA index_list('{table}')"):
            name = str(row[1]).replace("'", "''")
            first = next(self.each(f"PRAGMA index_info('{name}')"), None)
            if first is not None and str(first[2]).lower() == column and not row[4]:
                return True
        return False


def one(cursor: Cursor, sql: str, given: Sequence[Any]) -> Any:
    """The first row of a statement, None for none."""
    return next(cursor.each(sql, given), None)


def chunks(ids: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The ids, so many at a time as go into one statement."""
    for start in range(0, len(ids), CHUNK):
        yield ids[start:start + CHUNK]


def marks(ids: Sequence[Any]) -> str:
    """`(?,?,?)` for these ids."""
    return f"({','.join('?' * len(ids))})"


def as_text(value: object) -> str:
    """A column that should hold text, for matching."""
    if isinstance(value, str):
        return value
    return "" if value is None else decoded(value)[0] or ""


def decoded(value: object) -> tuple[str | None, bool]:
    """(text, whether bytes of it were no UTF-8 and became U+FFFD); None for no text at all."""
    if not isinstance(value, bytes):
        return None if value is None else str(value), False
    try:
        return value.decode("utf-8"), False
    except UnicodeDecodeError:
        return value.decode("utf-8", "replace"), True
