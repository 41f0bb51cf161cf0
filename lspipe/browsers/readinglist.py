"""Chromium's reading list: what is in the database of `Sync Data/LevelDB` under its keys (pure).

The list of this machine and that of the signed-in account lie side by side. A value is the protocol buffer
`ReadingListLocal` of components/reading_list/core/proto/reading_list.proto, times in microseconds since 1970.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from lspipe import matching, when
from lspipe.browsers import protobuf, ranking
from lspipe.live import Late, never

#: Keys by where an entry comes from; behind each stands the url.
PREFIXES = {"local": b"reading_list-dt-", "account": b"A-reading_list-dt-"}
_ID, _TITLE, _URL, _ADDED, _CHANGED, _STATUS, _READ, _MINUTES = 1, 2, 3, 4, 5, 6, 11, 17
_STATES = {0: "unread", 1: "read", 2: "unseen"}


class Reading(NamedTuple):
    """An entry. `state` is unread (opened once), read or unseen (never opened), None where its browser does not say;
    times as in a bookmark; `text` is how the page begins."""

    url: str
    title: str | None
    state: str | None
    added: int | None
    quality: str | None
    changed: int | None
    first_read: int | None
    origin: str | None
    text: str | None = None


def entries(
    values: Mapping[bytes, bytes], now: int, stop: Callable[[], bool] = never,
) -> Iterator[Reading | None]:
    """The entries by the time they were added, the newest first; at the end a None for each that is broken.

    What the account's list repeats of the local one is left out. Raises Late where `stop` says yes.
    """
    found: dict[str, Reading] = {}
    broken = 0
    for origin, prefix in PREFIXES.items():
        for key, value in values.items():
            if not key.startswith(prefix):
                continue
            if stop():
                raise Late
            one = _entry(value, key[len(prefix):], origin, now)
            if one is None:
                broken += 1
            else:
                found.setdefault(one.url, one)
    yield from sorted(found.values(), key=lambda one: (-(one.added or 0), one.url))
    yield from [None] * broken


def searched(entry: Reading) -> list[matching.Field]:
    """The searched parts of an entry."""
    return ranking.fields(entry.url, entry.title or "", entry.text or "")


def _entry(value: bytes, key: bytes, origin: str, now: int) -> Reading | None:
    fields = protobuf.last(value)
    if fields is None:
        return None
    url = protobuf.text(fields.get(_URL)) or protobuf.text(fields.get(_ID)) or key.decode("utf-8", "replace")
    if not url:
        return None
    status = fields.get(_STATUS, 2)
    added, quality = _time(fields.get(_ADDED), now)
    state = _STATES.get(status if isinstance(status, int) else 2, "unseen")
    return Reading(url, protobuf.text(fields.get(_TITLE)), state, added, quality, _time(fields.get(_CHANGED), now)[0],
                   _time(fields.get(_READ), now)[0], origin)


def _time(value: protobuf.Value | None, now: int) -> when.Checked:
    return when.from_unix_us(protobuf.signed(value), now)
