"""Protocol buffers without their schema: the fields of a message by their numbers (pure).

The format is that of protobuf.dev's "Encoding". Groups, which nobody writes any more, count as broken.
"""

from lspipe.browsers.leveldb_files import Bad, varint

Value = int | bytes
_FIXED = {1: 8, 5: 4}
#: Fields of one message, and numbers of one field: two bytes can stand for a hundred of memory.
_MOST = 100_000


def fields(data: bytes) -> list[tuple[int, Value]]:
    """(number, value) of each field in their order: a number without sign, or bytes. Raises Bad."""
    found: list[tuple[int, Value]] = []
    at = 0
    while at < len(data):
        if len(found) == _MOST:
            raise Bad
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            number, at = varint(data, at)
            found.append((tag >> 3, number))
            continue
        size = _FIXED.get(kind)
        if kind == 2:
            size, at = varint(data, at)
        if size is None or at + size > len(data):
            raise Bad
        found.append((tag >> 3, data[at:at + size]))
        at += size
    return found


def last(data: bytes) -> dict[int, Value] | None:
    """The last value of each field, which is the one that counts; None where the message is broken."""
    try:
        return dict(fields(data))
    except Bad:
        return None


def text(value: Value | None) -> str | None:
    """Text that is not empty."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) and value else None


def signed(value: Value | None) -> int | None:
    """A number that may be negative: it is stored as 64 bits without a sign."""
    if not isinstance(value, int):
        return None
    return value - (1 << 64) if value >> 63 else value


def numbers(value: Value) -> list[int]:
    """A repeated number, one at a time or packed. Raises Bad."""
    if isinstance(value, int):
        return [value]
    found: list[int] = []
    at = 0
    while at < len(value):
        if len(found) == _MOST:
            raise Bad
        number, at = varint(value, at)
        found.append(number)
    return found
