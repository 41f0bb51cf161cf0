"""The profiles that a browser command may read: found among the grants, and what is said where one cannot be read."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lspipe import consent, fulldisk, narrow, paths
from lspipe.browsers import places, profiles
from lspipe.exits import Precondition, Upstream
from lspipe.live import Late, Source, Unusable
from lspipe.narrow import Refusal, Request, obstacle

if TYPE_CHECKING:
    from lspipe.access import Held
    from lspipe.confine import Connection
    from lspipe.runner import Run


@dataclass(frozen=True)
class Granted:
    """One granted profile. `folder` is a descriptor of its directory, `name` what the browser calls it, `path` where
    it was granted."""

    browser: str
    profile: str
    engine: str
    folder: int
    name: str | None
    path: str = ""

    @property
    def label(self) -> str:
        """`chromium/Default`."""
        return f"{self.browser}/{self.profile}"


def request(kind: str, selectors: Sequence[str]) -> Request:
    """The request for one kind of data of the profiles that `--profile` names, of all without it."""
    names: dict[str, str] = {}
    if selectors:
        known = [grant for grant in consent.load(paths.config_home()).grants if grant.family == "browser"]
        # The names in the databases of profile groups are for those whose grant is in force.
        force = [grant.path for grant in known if obstacle(grant, Request("browser", kind)) is None]
        names = {**profiles.shown_names(grant.path for grant in known), **shown_names(force)}
    return Request("browser", kind, profiles=tuple(selectors), names=names)


def shown_names(granted: Sequence[str]) -> dict[str, str]:
    """What the browsers call these profiles, by their paths; of one on a disk of its own only its list says it."""
    names = profiles.shown_names(granted, groups=True)
    if any(path not in names and profiles.engine_of(None, path) == "firefox" for path in granted):
        with contextlib.suppress(Precondition):  # Without a home folder there are no lists.
            config = paths.user_folder("XDG_CONFIG_HOME", ".config")
            for one in profiles.discover(os.path.expanduser("~"), {"XDG_CONFIG_HOME": config}):
                if one.path in granted:
                    names.setdefault(one.path, one.name)
    return names


def present(word: str, home: str, environ: Mapping[str, str]) -> bool:
    """Whether a word of --profile means a profile on this machine."""
    return any(narrow.selects(word, one.browser, one.directory, one.name)
               for one in profiles.discover(home, environ))


def existing(home: str, environ: Mapping[str, str]) -> Callable[[Refusal], bool]:
    """Whether a refused profile is on this machine at all: what is not there is not found, not refused."""
    def exists(refusal: Refusal) -> bool:
        if refusal.profile is None:
            return True
        return present(f"{refusal.browser}/{refusal.profile}" if refusal.browser else refusal.profile, home, environ)

    return exists


def profiles_of(held: Iterable["Held"]) -> list[Granted]:
    """The profiles of held scopes, in the order of their labels."""
    held = list(held)
    names = shown_names([one.scope.grant.path for one in held])
    found = []
    for one in held:
        grant = one.scope.grant
        browser, profile = grant.browser or "browser", _text(grant.profile or os.path.basename(grant.path))
        found.append(Granted(browser, profile, profiles.engine_of(browser, grant.path), one.fds[0],
                             names.get(grant.path), grant.path))
    return sorted(found, key=lambda one: one.label)


def _text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


def check_any(run: "Run", asked: Iterable[Granted], source: str | None = None) -> None:
    """Raise Upstream where every profile was left out (of `source`) and nothing was found: that is no empty result."""
    left_out = {(found.get("browser"), found.get("profile")) for found in run.report.skipped
                if source is None or found.get("source") == source}
    if run.report.rows_out == 0 and {(one.browser, one.profile) for one in asked} <= left_out:
        raise Upstream("no granted profile could be read")


def leave_out(run: "Run", source: str, one: Granted, error: Unusable) -> None:
    """Say that a profile, or a part of it, cannot be read; the others go on, but with --strict."""
    message = f"cannot read profile '{one.label}': {error.message}"
    hint = error.hint or fulldisk.hint(error.errno, one.path)
    run.report.skip(message, error.reason, hint, what=f"profile '{one.label}'", source=source,
                    browser=one.browser, profile=one.profile, detail=error.message)


@contextlib.contextmanager
def tolerant(run: "Run", source: str, one: Granted, name: str) -> Iterator[None]:
    """What goes wrong with one profile's file `name` in here is said, and the next profile has its turn.

    Where time is over the block ends without a word: the runner says so.
    """
    try:
        yield
    except Late:
        pass
    except Unusable as error:
        leave_out(run, source, one, error)
    except MemoryError as error:
        import traceback

        traceback.clear_frames(error.__traceback__)  # They hold what was too much.
        leave_out(run, source, one, Unusable("not-readable", f"{name} needs more memory than it may have"))
    except Exception as error:
        from lspipe import confine  # It brings SQLite, which session files do without.

        if not isinstance(error, confine.FAULTS):
            raise
        if not confine.interrupted(error):
            leave_out(run, source, one, confine.explained(error, name))
        elif not run.clock.expired():
            raise  # By a signal.


def provenance(one: Granted, origin: str | None, method: str = "snapshot") -> dict[str, Any]:
    """Where a row of this profile comes from. What a browser knows is always private."""
    found: dict[str, Any] = {"retriever": "browser", "method": method, "acl": "authorized", "private": True,
                             "browser": one.browser, "profile": one.profile}
    if one.name and one.name != one.profile:
        found["profile_name"] = one.name
    if origin is not None:
        found["origin"] = origin
    return found


@contextlib.contextmanager
def in_time(run: "Run") -> Iterator[None]:
    """Where time is over, what SQLite was doing in here ends without a word."""
    from lspipe import confine

    try:
        yield
    except confine.FAULTS as error:
        if not (confine.interrupted(error) and run.clock.expired()):
            raise


def database(run: "Run", kind: str, one: Granted) -> Source | None:
    """The database that holds one kind of data, open until the run ends; None where it cannot be read."""
    try:
        return places.source(one.engine, one.path, one.folder, kind, run.closing)
    except Unusable as error:
        leave_out(run, kind, one, error)
        return None


def file(run: "Run", kind: str, one: Granted, name: str) -> int | None:
    """A descriptor of a file with one kind of data, open until the run ends; None where it cannot be read."""
    try:
        return places.open_file(one.engine, one.path, one.folder, kind, name, run.closing)
    except Unusable as error:
        leave_out(run, kind, one, error)
        return None


class Shared:
    """Files that several profiles have in common are read once, for the first of these."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._first: dict[tuple[int, int], str] = {}

    def known(self, one: Granted, fd: int) -> bool:
        """Whether another profile came with this file before; that is said."""
        facts = os.fstat(fd)
        first = self._first.setdefault((facts.st_dev, facts.st_ino), one.label)
        if first != one.label:
            self._run.report.note(f"{one.label}: it has them in common with {first}")
        return first != one.label


def connect(run: "Run", source: Source, tables: Sequence[str], room: int) -> "Connection":
    """A connection to a copy of `source`: in memory if it fits into `room` bytes, else in the run directory.

    Raises Unusable, and Precondition where there is no run directory to put it in.
    """
    from lspipe import snapshot

    if source.size <= room:
        return snapshot.connect(source, tables=tables, memory=room, stop=run.clock.expired)
    ledger = run.need_ledger()
    row = ledger.add("snapshot", "copy of a browser database, without a name", paths=[ledger.tmp])
    conn = snapshot.connect(source, ledger.tmp, tables=tables, memory=room, stop=run.clock.expired)
    row.live()
    return conn
