"""What sync has brought from a person's other devices: databases opened before lock-down, read afterwards."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lspipe import stream
from lspipe.browsers import granted, places, safariplaces
from lspipe.browsers.granted import Granted
from lspipe.exits import NotFound
from lspipe.live import Late, Source, Unusable
from lspipe.run import Run

if TYPE_CHECKING:
    from lspipe.browsers.syncedtabs import Synced
    from lspipe.browsers.tab import Device, Tab

_TABS, _RECORDS = "tabs", "synced-tabs.db"


class Opened(NamedTuple):
    """A profile with what holds its synced tabs: the files of Chromium's database by name, or Firefox's or Safari's,
    and Safari's list of profiles."""

    profile: Granted
    files: dict[str, int]
    database: Source | None = None
    profiles: Source | None = None


def open_all(run: Run, asked: Iterable[Granted]) -> list[Opened]:
    """Open what holds the tabs of other devices; a browser that never synced has none."""
    from lspipe.browsers import syncstore

    opened = []
    for one in asked:
        try:
            if one.engine == "firefox":
                found = Opened(one, {}, Source(one.folder, _RECORDS))
                assert found.database is not None
                run.closing.callback(found.database.close)
            elif one.engine == "safari":
                found = _open_safari(run, one)
            elif one.engine == "chromium":
                found = Opened(one, syncstore.open_files(one.folder, run.closing))
            else:
                found = Opened(one, {})
        except Unusable as error:
            if error.reason != "not-found":
                granted.leave_out(run, _TABS, one, error)
                continue
            found = Opened(one, {})
        opened.append(found)
    return opened


def _open_safari(run: Run, one: Granted) -> Opened:
    """iCloud's tabs. Nothing tells of which profile they are, so that there may be only the first one."""
    if safariplaces.is_made(one.path):
        return Opened(one, {})
    database = places.source(one.engine, one.path, one.folder, _TABS, run.closing, "CloudTabs.db")
    listed = None
    try:
        listed = places.source(one.engine, one.path, one.folder, _TABS, run.closing)
    except Unusable as error:
        if error.reason != "not-found":  # Without it there may be profiles that nobody sees.
            raise
    return Opened(one, {}, database, listed)


def _read_safari(run: Run, one: Opened) -> "Synced":
    from lspipe import snapshot
    from lspipe.browsers import safaritabs

    if one.profiles is not None:
        with contextlib.closing(granted.connect(run, one.profiles, ["bookmarks"], snapshot.MEMORY)) as conn:
            if safaritabs.profiles(conn) > 1:
                raise Unusable("failed", "of which profile the tabs of other devices are, nothing tells")
    assert one.database is not None
    with contextlib.closing(granted.connect(run, one.database, safaritabs.CLOUD_TABLES, snapshot.MEMORY)) as conn:
        return safaritabs.cloud_tabs(conn, run.now)


def tabs(run: Run, opened: Iterable[Opened], typed: str) -> "list[tuple[Granted, list[Tab]]]":
    """The tabs of the devices that `typed` means, profile by profile; what cannot be read is said.

    Raises NotFound where no profile knows such a device.
    """
    from lspipe.browsers import devices

    found: list[tuple[Granted, list[Tab]]] = []
    known: dict[str, Device] = {}
    for one in opened:
        with granted.tolerant(run, _TABS, one.profile, _RECORDS):
            if run.clock.expired():
                break
            synced = _read(run, one)
            known |= {device.id: device for device in synced.devices}
            found.append((one.profile, [tab for tab in synced.tabs if tab.device is not None
                                        and devices.means(typed, tab.device.id, tab.device.name)]))
            if synced.broken:
                parts = stream.counted(synced.broken, "part of its synced tabs is", "parts of its synced tabs are")
                granted.leave_out(run, _TABS, one.profile, Unusable("failed", f"{parts} damaged or missing"))
    if not run.clock.expired():  # Else nobody knows which devices there are.
        check(typed, {number: device.name or number for number, device in known.items()})
    return found


def _read(run: Run, one: Opened) -> "Synced":
    from lspipe import snapshot
    from lspipe.browsers import devices, syncedtabs, syncstore

    if one.database is not None and one.profile.engine == "safari":
        return _read_safari(run, one)
    if one.database is not None:
        with contextlib.closing(granted.connect(run, one.database, [syncedtabs.TABLE], snapshot.MEMORY)) as conn:
            if not {"guid", "record"} <= snapshot.columns(conn, syncedtabs.TABLE):
                raise Unusable("failed", f"'{_RECORDS}' holds no tabs: another schema")
            return syncedtabs.of_firefox(syncedtabs.records(conn), run.now)
    contents = syncstore.read(one.files, (*syncedtabs.PREFIXES, *devices.PREFIXES), run.clock.expired)
    synced = syncedtabs.of_chromium(contents.values, run.now, run.clock.expired)
    return synced._replace(broken=synced.broken + contents.broken)


def check(typed: str, known: dict[str, str]) -> None:
    """Raise NotFound, with what there is, where none of the `known` devices (id to name) is called so."""
    from lspipe.browsers import devices
    from lspipe.options import printable

    if typed == devices.ALL or any(devices.means(typed, number, name) for number, name in known.items()):
        return
    names = ", ".join(f"'{printable(name)}'" for name in sorted(set(known.values()))[:20])
    raise NotFound(f"no device '{printable(typed)}'", f"devices: {names}" if names else "no other device is known")


class Names:
    """The names of devices that one profile's history may name, read when the first is asked for."""

    def __init__(self, run: Run, profile: Granted, files: dict[str, int]) -> None:
        self._run, self._profile, self._files = run, profile, files
        self._names: dict[str, str] | None = None

    @classmethod
    def of(cls, run: Run, one: Granted) -> "Names":
        """The names that the browser of a profile keeps, its database open until the run ends.

        Where it cannot be opened there are none: a device then has its id for a name, which is noted.
        """
        from lspipe.browsers import syncstore

        try:
            return cls(run, one, {} if one.engine != "chromium" else syncstore.open_files(one.folder, run.closing))
        except Unusable as error:
            run.report.note(f"{one.label}: no names of devices: {error.message}")
            return cls(run, one, {})

    def all(self) -> dict[str, str]:
        """Id to name of every device that has one."""
        if self._names is None:
            from lspipe.browsers import devices, syncstore

            try:
                stop = self._run.clock.expired
                self._names = devices.names(syncstore.read(self._files, devices.PREFIXES, stop).values)
            except Late:
                self._names = {}
            except Unusable as error:
                self._names = {}
                self._run.report.note(f"{self._profile.label}: no names of devices: {error.message}")
        return self._names

    def name(self, number: str | None) -> str | None:
        """The name of a device, None for one without, and for None."""
        return None if number is None else self.all().get(number)

    def ids(self, typed: str) -> Sequence[str]:
        """The ids of the devices of that name."""
        return [number for number, name in self.all().items() if name.casefold() == typed.casefold()]
