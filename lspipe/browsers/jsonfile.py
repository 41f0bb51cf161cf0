"""JSON that a browser wrote, parsed only where what comes of it is not much larger than what browsers write (pure)."""

from typing import Any

import orjson

from lspipe.live import Unusable

#: Lists and objects, and values, that a file may hold: two bytes of the one become 85 in memory, of the other 100 at
#: worst. A store of 5,000 tabs with 20 pages each has 300,000 and 2 million.
_CONTAINERS, _VALUES = 600_000, 2_000_000


def loads(data: bytes | bytearray, name: str) -> Any:
    """The value in the file `name`. orjson.JSONDecodeError where it is no JSON, Unusable where it is too much."""
    check(data, name)
    return orjson.loads(data)


def check(data: bytes | bytearray, name: str) -> None:
    """Raise Unusable where a file holds more than any browser writes; marks inside of strings count, too."""
    if data.count(b"[") + data.count(b"{") > _CONTAINERS or data.count(b",") > _VALUES:
        raise Unusable("not-readable", f"'{name}' holds more values than any browser writes")
