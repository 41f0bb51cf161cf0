"""Firefox's compressed files (`.jsonlz4`, `.baklz4`): eight magic bytes, the size, one LZ4 block (pure).

The block is the raw format of lz4_Block_format.md, not the one with frames. Nothing is allocated because a header
says so: what comes out grows as it is decoded and is held against three bounds, the size in the header, what a
block of this length can hold at most, and MOST.
"""

from lspipe.live import Unusable

MAGIC = b"mozLz40\0"
#: Two thousand tabs make some 30 MiB; what is unpacked is in memory three times while it is parsed.
MOST = 96 << 20
#: A byte of a block stands for at most 255 bytes.
_RATIO = 255
_HEADER = len(MAGIC) + 4


def unpacked(data: bytes, name: str, most: int = MOST) -> bytearray:
    """What is compressed in the file `name`. Raises Unusable."""
    if len(data) < _HEADER or not data.startswith(MAGIC):
        raise Unusable("failed", f"'{name}' is not compressed the way Firefox does it")
    size = int.from_bytes(data[len(MAGIC):_HEADER], "little")
    if size > most:
        raise Unusable("failed", f"'{name}' claims {size >> 20} MiB; at most {most >> 20} MiB are unpacked")
    if size > _RATIO * (len(data) - _HEADER):
        raise Unusable("failed", f"'{name}' claims more than it can hold: it was cut, or forged")
    try:
        return _block(data, _HEADER, size)
    except (IndexError, ValueError):
        raise Unusable("failed", f"'{name}' is damaged") from None


def _block(data: bytes, at: int, size: int) -> bytearray:
    """The `size` bytes in the block that begins at `at`. Raises ValueError or IndexError where it does not fit."""
    out = bytearray()
    end = len(data)
    while at < end:
        token = data[at]
        at += 1
        length, at = _length(data, at, token >> 4)
        stop = at + length
        if stop > end or len(out) + length > size:
            raise ValueError
        out += data[at:stop]
        if stop == end:
            break  # The last sequence has no match.
        at = stop + 2
        back = data[stop] | data[stop + 1] << 8
        length, at = _length(data, at, token & 15)
        repeat(out, back, length + 4, size)
    if len(out) != size:
        raise ValueError
    return out


def _length(data: bytes, at: int, length: int) -> tuple[int, int]:
    """A length that begins in a token and goes on at `at` where it is 15 there; and where what follows begins."""
    if length == 15:
        more = 255
        while more == 255:
            more = data[at]
            at += 1
            length += more
    return length, at


def repeat(out: bytearray, back: int, length: int, size: int) -> None:
    """Append `length` bytes from `back` bytes before the end, which may be among those being appended.

    Raises ValueError where there are none, and where `out` would become longer than `size`.
    """
    start = len(out) - back
    if back == 0 or start < 0 or len(out) + length > size:
        raise ValueError
    while length > back:  # What has been appended is there to be copied, too.
        out += out[start:]
        length -= back
        back += back
    out += out[start:start + length]
