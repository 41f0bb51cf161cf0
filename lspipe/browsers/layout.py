"""What differs between the schemas of browser histories, and the scope options as SQL conditions (pure).

In the expressions `p` is a page and `v` a visit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lspipe import when
from lspipe.browsers.devices import ALL


@dataclass(frozen=True)
class Layout:
    """A schema: its two tables, and SQL expressions over the columns that are there; "NULL" for one that is not.

    page, time  of a visit: its page's id, and when it was, with the `v.` before it
    last        of a page: when it was last visited
    visited     condition: the page was visited at all
    shown       condition: the browser itself would list the page
    counted     condition: the visit is one to a page, and not a hop on the way or a part of a page
    synced      condition: the visit came from another device; None where that is not known
    device      of a visit: the id of the device that it came from, where that is known
    errors      query for the ids of pages that were never anything but an error; None where that is not known
    visitless   pages whose visits have expired are kept
    offset      microseconds from the epoch of stored times to 1970
    stored      the SQL literal for a time in microseconds from that epoch: the first stored time that is not before it
    """

    pages: str
    visits: str
    page: str
    time: str
    title: str = "NULL"
    text: str = "NULL"
    count: str = "NULL"
    last: str = "NULL"
    visited: str = "1"
    shown: str = "1"
    counted: str = "1"
    synced: str | None = None
    device: str = "NULL"
    errors: str | None = None
    visitless: bool = False
    offset: int = 0
    stored: Callable[[int], str] = str
    decode: Callable[[object, int], when.Checked] = when.from_unix_us


@dataclass(frozen=True)
class Wanted:
    """The scope options: times in microseconds since 1970, `until` exclusive; `origin` local, synced or None;
    `everything` lets hidden pages, redirects and errors in.

    `device` is what a person typed for another device, `devices` are the ids of those that are called so.
    """

    now: int
    since: int | None = None
    until: int | None = None
    origin: str | None = None
    everything: bool = False
    device: str | None = None
    devices: tuple[str, ...] = ()

    @property
    def narrow(self) -> bool:
        """Whether pages are chosen by their visits."""
        return (self.since, self.until, self.origin, self.device) != (None, None, None, None)


@dataclass(frozen=True)
class Conditions:
    """`Wanted` in the SQL of a `Layout`.

    shown     of pages that may be listed
    visit     of visits that count
    window    of visits, besides: at a time that can be, inside the window, of the origin
    expired   of pages, besides: last visited at a time that can be, inside the window
    possible  of visits: at a time that can be
    """

    shown: str
    visit: str
    window: str
    expired: str
    possible: str

    @classmethod
    def of(cls, layout: Layout, wanted: Wanted) -> "Conditions":
        """The conditions of these options for this schema."""
        def between(column: str, first: int, end: int) -> str:
            since, until = layout.stored(first + layout.offset), layout.stored(end + layout.offset)
            return f"{column} >= {since} AND {column} < {until}"

        first, end = 1, wanted.now + when.DAY + 1
        since = first if wanted.since is None else max(first, wanted.since)
        until = end if wanted.until is None else min(end, wanted.until)
        window = between(layout.time, since, until)
        if wanted.origin is not None:
            synced = layout.synced or "0"
            window += f" AND {synced}" if wanted.origin == "synced" else f" AND NOT {synced}"
        if wanted.device is not None:
            window += f" AND {from_device(layout, wanted.device, wanted.devices)}"
        # A visit that is gone cannot be told to have been a synced one.
        kept = layout.visitless and layout.last != "NULL" and wanted.origin != "synced" and wanted.device is None
        return cls(
            shown=layout.visited if wanted.everything else layout.shown,
            visit="1" if wanted.everything else layout.counted,
            window=window, expired=between(layout.last, since, until) if kept else "0",
            possible=between(layout.time, first, end),
        )


def from_device(layout: Layout, typed: str, known: Sequence[str]) -> str:
    """The condition that a visit came from one of the `known` devices, from one whose id begins as typed, or `all`."""
    if typed == ALL:
        return f"coalesce({layout.device}, '') <> ''"
    ids = ", ".join(map(_literal, known))
    return f"({layout.device} IN ({ids}) OR substr({layout.device}, 1, {len(typed)}) = {_literal(typed)})"


def _literal(text: str) -> str:
    return "'" + text.encode("utf-8", "replace").decode().replace("'", "''").replace("\0", "") + "'"
