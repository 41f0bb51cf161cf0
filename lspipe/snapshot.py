"""Consistent, private copies of databases that a running browser owns; the originals are only read, never locked.

A database is read whole, with its `-journal` and `-wal`, between two looks at sizes, times and journal state;
where they differ, another program was writing, and the copy is made again. Recovery is applied to the copy
(`lspipe.journal`), which lives in memory or, where it is large, in a file of the run directory that has no
name any more when the first byte is written to it.
"""

import errno
import mmap
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator

from lspipe import journal
from lspipe.confine import FAULTS, Connection, columns, confine, explained, interrupted
from lspipe.exits import strerror
from lspipe.live import TRIES, WAIT, Source, State, Unusable, fill, open_all, open_at, read_file, settled, torn

__all__ = [
    "FAULTS", "MEMORY", "Source", "Unusable", "columns", "connect", "copy", "explained", "interrupted", "open_all",
    "open_at", "quoted", "read_file",
]

#: Copies up to this size live in memory.
MEMORY = 64 << 20
_CHUNK = 8 << 20
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def connect(
    source: Source, run_tmp: str | None = None, *, tables: Iterable[str],
    memory: int = MEMORY, stop: Callable[[], bool] | None = None,
) -> Connection:
    """A connection to a consistent copy of `source` in which only `tables` can be read. Raises Unusable, and what an
    interrupted statement raises.

    Above `memory` bytes the copy is a nameless file in `run_tmp`; without `run_tmp` it is always in memory.
    `stop` is asked every few milliseconds of work; where it says yes, the statement ends with an
    sqlite3.OperationalError for which `interrupted` is true. Text comes as str, with U+FFFD for what is not
    UTF-8.
    """
    deserializes = hasattr(sqlite3.Connection, "deserialize")
    try:
        if deserializes and (run_tmp is None or source.size <= memory):
            conn = _memory_copy(source)
        elif run_tmp is not None:
            conn = _file_copy(source, run_tmp)
        else:
            raise Unusable("failed", "this Python's SQLite cannot deserialize, and there is no run folder")
    except OSError as error:
        raise Unusable("failed", f"cannot copy '{source.name}': {strerror(error)}") from None
    try:
        confine(conn, tables, stop)
    except FAULTS as error:
        conn.close()
        if interrupted(error, conn):
            raise
        raise explained(error, source.name) from None
    except BaseException:
        conn.close()
        raise
    return conn


def copy(source: Source, path: str, run_tmp: str) -> None:
    """A consistent copy of `source` in the new file `path`, for a program that opens it by name.

    Raises Unusable, OSError; what was made until then stays.
    """
    fd = os.open(path, _NEW, 0o600)
    try:
        _fill_copy(source, fd, run_tmp)
    finally:
        os.close(fd)


def _attempts(source: Source) -> Iterator[State]:
    """The state before each try; a hot journal gets the time that a commit takes to go away by itself."""
    for number in range(TRIES):
        if number:
            time.sleep(WAIT)
        settled(source.fd)
        state = source.state()
        if state.strange:
            continue
        if state.journal:
            time.sleep(WAIT)
            if source.state() != state:
                continue
        yield state


def _memory_copy(source: Source) -> Connection:
    for before in _attempts(source):
        data = bytearray(os.fstat(source.fd).st_size)
        whole = fill(source.fd, data)
        sides = _recovery_files(source, before, None)
        if not whole or source.state() != before:
            continue
        _check_header(data[:16], source.name)
        for patch, side in _patches(sides, len(data), bytes(data[:100])):
            del data[patch.size:]
            data.extend(bytes(patch.size - len(data)))
            for offset, content in patch.writes(side):
                data[offset:offset + patch.page_size] = content
        _check_header(data[:16], source.name)  # A journal may say that there was nothing before.
        data[:20] = journal.without_wal_mode(bytes(data[:20]))
        conn = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
        try:
            conn.deserialize(data)
        except FAULTS as error:
            conn.close()
            raise explained(error, source.name) from None
        return conn
    raise torn(source.name)


def _file_copy(source: Source, run_tmp: str) -> Connection:
    path = os.path.join(run_tmp, f"copy-{secrets.token_hex(8)}")
    fd = os.open(path, _NEW, 0o600)
    try:
        try:
            # SQLite has to open it by name. Until the name is gone there is not one byte in it.
            conn = sqlite3.connect(f"file:{quoted(path)}?mode=ro", uri=True, isolation_level=None, factory=Connection)
        finally:
            os.unlink(path)
        try:
            _fill_copy(source, fd, run_tmp)
        except BaseException:
            conn.close()
            raise
    finally:
        os.close(fd)
    return conn


def _fill_copy(source: Source, fd: int, run_tmp: str) -> None:
    for before in _attempts(source):
        size = before.main[2]
        os.ftruncate(fd, 0)
        whole = _copy(source.fd, fd, size)
        sides = _recovery_files(source, before, run_tmp)
        if not whole or source.state() != before:
            continue
        head = os.pread(fd, 100, 0)
        _check_header(head, source.name)
        for patch, side in _patches(sides, size, head):
            os.ftruncate(fd, patch.size)
            for offset, content in patch.writes(side):
                os.pwrite(fd, content, offset)
        _check_header(os.pread(fd, 16, 0), source.name)
        os.pwrite(fd, journal.without_wal_mode(os.pread(fd, 20, 0)), 0)
        return
    raise torn(source.name)


def _copy(source: int, target: int, size: int) -> bool:
    """Copy `size` bytes in the kernel where it can; False where there was less."""
    done = 0
    in_kernel = hasattr(os, "copy_file_range")
    while done < size:
        if in_kernel:
            try:
                got = os.copy_file_range(source, target, min(size - done, 1 << 30), done, done)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                in_kernel = False
                continue
        else:
            got = os.pwrite(target, os.pread(source, min(size - done, _CHUNK), done), done)
        if got == 0:
            return False
        done += got
    return True


def _recovery_files(source: Source, state: State, run_tmp: str | None) -> list[tuple[str, memoryview]]:
    """Private copies of the recovery files that count: a hot journal first, then a log, as SQLite takes them."""
    wanted = [("-journal", bool(state.journal)), ("-wal", len(state.wal) == journal.WAL_HEADER)]
    found = []
    for suffix, counts in wanted:
        fd = source.side(suffix)[0] if counts else None
        if fd is None:
            continue
        size = os.fstat(fd).st_size
        # One that was cut meanwhile comes out short, and then the state differs.
        if run_tmp is None or size <= MEMORY:
            room = bytearray(size)
            fill(fd, room)
            found.append((suffix, memoryview(room)))
        else:
            found.append((suffix, memoryview(_nameless(fd, size, run_tmp))))
    return found


def _nameless(source: int, size: int, run_tmp: str) -> mmap.mmap:
    """A copy in a file without a name, mapped: nobody else can shorten it under the mapping."""
    path = os.path.join(run_tmp, f"copy-{secrets.token_hex(8)}")
    fd = os.open(path, _NEW, 0o600)
    try:
        os.unlink(path)
        os.ftruncate(fd, size)
        _copy(source, fd, size)
        return mmap.mmap(fd, size, prot=mmap.PROT_READ)
    finally:
        os.close(fd)


def _patches(
    sides: list[tuple[str, memoryview]], size: int, head: bytes
) -> Iterator[tuple[journal.Patch, memoryview]]:
    for suffix, side in sides:
        rollback = suffix == "-journal"
        patch = journal.journal_patch(side, size, head) if rollback else journal.wal_patch(side, size)
        if patch is not None:
            size = patch.size
            yield patch, side


def _check_header(head: bytes | bytearray, name: str) -> None:
    if not head:
        raise Unusable("failed", f"'{name}' is empty (0 bytes)")
    if not journal.is_database(bytes(head)):
        raise Unusable("failed", f"'{name}' is not an SQLite database")


def quoted(path: str) -> str:
    """A path for the `file:` name of a database."""
    from urllib.parse import quote

    return quote(os.fsencode(path))
