"""LevelDB databases, read only: the newest value of every key that begins with one of some prefixes (pure).

A database is log files (`NNNNNN.log`), sorted tables (`NNNNNN.ldb`, once `.sst`) and a manifest, a log itself
(db/version_edit.cc), that says which of them count: the others are leftovers, in which a deleted entry would live
on. Every change has a sequence number; of one key the highest counts, and it may be a deletion. Damage costs the
record or the block that it is in, and is counted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from lspipe.browsers.leveldb_files import Bad, entries, index, records, sized, varint
from lspipe.live import Late, Unusable, never

#: The largest file that is read. A table has 2 MiB, a log 4, unless one value is larger.
MOST = 64 << 20
#: Bytes that may be kept of a database, and that may be unpacked to find them.
_KEPT, _SPENT = 64 << 20, 128 << 20
#: Tables that a manifest may list.
_LISTED = 100_000
#: Changes between two looks at the clock.
_STEPS = 4096
_LOGS, _TABLES = (".log",), (".ldb", ".sst")
_DELETED, _VALUE = 0, 1
#: What an edit of the manifest is made of: n for a number, b for bytes. 2: the first log that counts, 9: one that
#: counts besides, 6: a table goes (level, number), 7: a table comes (level, number, size, first and last key).
_EDITS = {1: "b", 2: "n", 3: "n", 4: "n", 5: "nb", 6: "nn", 7: "nnnbb", 9: "n"}


class Contents(NamedTuple):
    """The newest values by their keys; how many records, blocks and files were broken or missing."""

    values: dict[bytes, bytes]
    broken: int


def wanted(names: Iterable[str]) -> list[str]:
    """The names in a database's folder that are read."""
    return sorted(name for name in names if name == "CURRENT" or name.startswith("MANIFEST-")
                  or _number(name, _LOGS + _TABLES) is not None)


def _number(name: str, endings: tuple[str, ...]) -> int | None:
    stem, dot, ending = name.partition(".")
    known = dot + ending in endings and stem.isascii() and stem.isdigit() and len(stem) < 20
    return int(stem) if known else None


def read(files: Mapping[str, bytes], prefixes: Sequence[bytes], stop: Callable[[], bool] = never) -> Contents:
    """What the files of a database, by their names, hold under these prefixes.

    Raises Unusable: none, or too much; Late where `stop` says yes.
    """
    logs = {number: name for name in files if (number := _number(name, _LOGS)) is not None}
    tables = {number: name for name in files if (number := _number(name, _TABLES)) is not None}
    if not logs and not tables:
        raise Unusable("not-found", "there is no LevelDB database")
    found = _Gathered(prefixes, stop)
    listed = _manifest(files, found)
    if listed is not None:
        logs = {number: name for number, name in logs.items() if number >= listed.log or number == listed.previous}
        found.broken += len(listed.tables - tables.keys())
        tables = {number: name for number, name in tables.items() if number in listed.tables}
    for _, name in sorted(tables.items()):
        _table(files[name], found)
    for _, name in sorted(logs.items()):
        for batch in records(files[name], found.mentioned, found.count):
            _batch(batch, found)
    values = {key: value for key, (_, value) in found.newest.items() if value is not None}
    return Contents(values, found.broken)


class _Gathered:
    """The newest change of each key so far; a value of None is a deletion."""

    def __init__(self, prefixes: Sequence[bytes], stop: Callable[[], bool]) -> None:
        self.prefixes = tuple(prefixes)
        self._stop = stop
        self.newest: dict[bytes, tuple[int, bytes | None]] = {}
        self.broken = 0
        self._kept = self._spent = 0

    def add(self, key: bytes, sequence: int, value: bytes | None) -> None:
        old = self.newest.get(key)
        if not key.startswith(self.prefixes) or (old is not None and old[0] > sequence):
            return
        self._kept += len(key) + len(value or b"") + 100
        if self._kept > _KEPT:
            raise Unusable("failed", f"the database holds more than {_KEPT >> 20} MiB of such entries")
        self.newest[key] = sequence, value

    def mentioned(self, data: bytes) -> bool:
        """Whether bytes may hold such a key. Raises Late."""
        self.spend(0)
        return any(prefix in data for prefix in self.prefixes)

    def count(self) -> None:
        """One more that is broken."""
        self.broken += 1

    def spend(self, size: int) -> None:
        """So many bytes are unpacked. Raises Unusable where that is too much, Late where time is over."""
        if self._stop():
            raise Late
        self._spent += size
        if self._spent > _SPENT:
            raise Unusable("failed", f"the database unpacks to more than {_SPENT >> 20} MiB")


def _table(data: bytes, found: _Gathered) -> None:
    before = b""
    try:
        for last, handle in index(data, found.spend):
            highest = last[:-8]
            try:
                # The keys of a block lie between those that the index names for it and for the one before.
                if any(before <= prefix <= highest or before.startswith(prefix) for prefix in found.prefixes):
                    for key, value in entries(data, handle, found.spend):
                        if len(key) < 8:
                            raise Bad
                        change = int.from_bytes(key[-8:], "little")
                        found.add(key[:-8], change >> 8, value if change & 255 == _VALUE else None)
            except Bad:
                found.count()
            before = highest
    except Bad:
        found.count()


def _batch(data: bytes, found: _Gathered) -> None:
    """The changes that were written together."""
    sequence, count, at = int.from_bytes(data[:8], "little"), int.from_bytes(data[8:12], "little"), 12
    try:
        for number in range(count):
            if not number % _STEPS:
                found.spend(0)
            if at >= len(data):
                raise Bad
            kind = data[at]
            key, at = sized(data, at + 1)
            value = None
            if kind == _VALUE:
                value, at = sized(data, at)
            elif kind != _DELETED:
                raise Bad
            found.add(key, sequence + number, value)
    except Bad:
        found.count()


class _Listed(NamedTuple):
    tables: set[int]
    log: int
    previous: int


def _manifest(files: Mapping[str, bytes], found: _Gathered) -> _Listed | None:
    """Which files count, by the manifest that CURRENT names. None where it cannot be read: then all of them do."""
    data = files.get(files.get("CURRENT", b"").decode("ascii", "replace").strip())
    if data is None:
        return None
    tables: set[int] = set()
    logs = {2: 0, 9: 0}
    try:
        for edit in records(data, lambda _: True, _give_up):
            at = 0
            while at < len(edit):
                tag, at = varint(edit, at)
                numbers = []
                for kind in _EDITS.get(tag, "?"):
                    if kind == "n":
                        number, at = varint(edit, at)
                        numbers.append(number)
                    elif kind == "b":
                        _, at = sized(edit, at)
                    else:
                        raise Bad
                if tag in logs:
                    logs[tag] = numbers[0]
                elif tag == 6:
                    tables.discard(numbers[1])
                elif tag == 7:
                    tables.add(numbers[1])
                    if len(tables) > _LISTED:
                        raise Bad
    except Bad:
        found.count()
        return None
    return _Listed(tables, logs[2], logs[9]) if logs[2] or tables else None


def _give_up() -> None:
    raise Bad
