"""The open session files of a profile, and the tabs that were found in them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lspipe.browsers.tab import Tab
from lspipe.live import Source, Unusable

if TYPE_CHECKING:
    from lspipe.confine import Connection

Connect = Callable[[Source, Sequence[str]], "Connection"]
"""What makes a connection to a copy of a database, in which only these tables can be read."""


@dataclass
class Opened:
    """Open files by name: `stores` in the order to try them, then Zen's `sidebars`, and the list of containers; of
    Safari its `database` of tabs, or a store. `path` is where the profile is."""

    closed: bool
    path: str = ""
    stores: dict[str, int] = field(default_factory=dict)
    sidebars: dict[str, int] = field(default_factory=dict)
    containers: int | None = None
    database: Source | None = None
    failures: list[Unusable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """Tabs, when their file was written (µs since 1970), the newer files that could not be read, and remarks."""

    tabs: list[Tab]
    saved: int
    failures: list[Unusable]
    notes: list[str]
