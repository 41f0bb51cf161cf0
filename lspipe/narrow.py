"""`narrow()`: grants and a request in, the part that may be read out (pure).

A path is text with surrogate escapes, as `os.fsdecode` makes it. Times are microseconds since 1970 UTC. Paths
are compared as text, part by part: the caller resolves symbolic links in what a person typed before it asks,
and `lspipe.consent` checks afterwards that a granted folder is still the one that was granted.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lspipe import when

FAMILIES = ("browser", "files", "wiki")
DATA = ("history", "bookmarks", "tabs", "downloads", "reading", "tab-text")
AUDIENCES = ("shell", "mcp", "serve")

_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Grant:
    """One thing that may be read: a browser profile, a folder, or a wiki.

    `browser`, `profile` and `data` belong to the family browser, `collection` to wiki (None: all of them), `index`
    too: the path of the one index of qmd that is meant (empty: not pinned to one). `path` is for browser (the profile's
    directory) and files. `ino` None: not pinned.
    """

    family: str
    browser: str | None = None
    profile: str | None = None
    collection: str | None = None
    data: tuple[str, ...] = ()
    audience: tuple[str, ...] = ("shell",)
    public: bool = False
    granted_at: int | None = None
    expires_at: int | None = None
    path: str = ""
    ino: int | None = None
    dev: int | None = None
    boot_id: str | None = None
    index: str = ""

    def ended(self, now: int) -> int | None:
        """When it ended, where it has."""
        return self.expires_at if self.expires_at is not None and self.expires_at <= now else None

    @property
    def target(self) -> tuple[str | None, ...]:
        """What is granted, whatever the terms."""
        return (self.family, self.path, self.collection, self.index)

    @property
    def label(self) -> str:
        """The selector that names it: `chromium/Default`, a path, `wiki/notes`, `wiki`."""
        if self.family == "browser":
            return f"{self.browser}/{self.profile}"
        if self.family == "files":
            return self.path
        return "wiki" if self.collection is None else f"wiki/{self.collection}"


@dataclass(frozen=True)
class Request:
    """What an executable wants to read.

    `data` is one of DATA for the family browser, None for the others. Empty `profiles`, `paths` and
    `collections` mean all that is granted. `paths` are absolute and free of symbolic links
    (`os.path.realpath`). `index` is the real path of qmd's index, None where it is only planned to ask it.
    `names` maps a profile's path to its shown name. Leave `now` alone: it is the real clock, where
    `--now` would bring an expired grant back to life.
    """

    family: str
    data: str | None = None
    profiles: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    index: str | None = None
    audience: str = "shell"
    names: Mapping[str, str] = field(default_factory=dict)
    now: int = field(default_factory=lambda: time.time_ns() // 1000)

    @property
    def source(self) -> str:
        """The source that asks, for messages."""
        return "tabs" if self.data == "tab-text" else self.data or self.family


@dataclass(frozen=True)
class Scope:
    """A part of one grant that may be read: `paths` at or below the grant's own; `collections` by name, where
    none means all, of a wiki grant that is for all."""

    grant: Grant
    paths: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Something that was asked for and may not, or cannot, be read: `reason` is a word of the envelope's
    `excluded_sources`, `detail` says it in words, `command` is the command line that would grant it. `lapsed`: it was
    granted once, but the grant has ended, or what stands there now is something else."""

    source: str
    reason: str
    detail: str
    browser: str | None = None
    profile: str | None = None
    path: str | None = None
    collection: str | None = None
    command: str | None = None
    lapsed: bool = False


@dataclass(frozen=True)
class Narrowed:
    """`allowed` lies within the grants. `refused` was asked for and is not there. `partial` was asked for
    too, and only the granted part below it is allowed: its `detail` names that part."""

    allowed: tuple[Scope, ...] = ()
    refused: tuple[Refusal, ...] = ()
    partial: tuple[Refusal, ...] = ()

    @property
    def roots(self) -> tuple[str, ...]:
        """The allowed paths without those inside another: what to walk so that each file is met once."""
        found: list[str] = []
        for path in (path for scope in self.allowed for path in scope.paths):
            if not any(within(path, other) for other in found):
                found = [other for other in found if not within(other, path)] + [path]
        return tuple(found)

    def is_public(self, path: str) -> bool:
        """Whether a grant made with --public covers `path`, even where a private one does so too."""
        scopes = (scope for scope in self.allowed if scope.grant.public)
        return any(within(path, root) for scope in scopes for root in scope.paths)


def plain_path(path: str) -> str | None:
    """The path without empty and `.` parts. None where text alone does not say what it means: a relative
    path, one with `..`, one with a NUL."""
    if not path.startswith("/") or "\0" in path:
        return None
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return None if ".." in parts else "/" + "/".join(parts)


def readable(text: str) -> str:
    """The text with U+FFFD for each byte that is not UTF-8: for messages, never for opening."""
    return _SURROGATES.sub("\ufffd", text)


def within(path: str, root: str) -> bool:
    """Whether `path` is `root` or below it; both as `plain_path` makes them."""
    return path == root or path.startswith(root if root.endswith("/") else root + "/")


def selects(selector: str, browser: str | None, profile: str | None, name: str | None = None) -> bool:
    """Whether a `--profile` word means this profile: `chromium/Default`, `Default`, `chromium`, or a shown
    name, alone or behind the browser (`chromium/Work`)."""
    words = [browser, profile, f"{browser}/{profile}"]
    if name:
        words += [name, f"{browser}/{name}"]
    return selector in words


def obstacle(grant: Grant, request: Request) -> str | None:
    """Why a grant for the right family and data does not serve the request now; None: it does."""
    if (end := grant.ended(request.now)) is not None:
        return f"the grant ended {when.rfc3339(end)}"
    if request.audience not in grant.audience:
        return f"granted to {', '.join(grant.audience)}, not to {request.audience}"
    if grant.index and request.index not in (None, grant.index):
        return f"granted for another index of qmd, '{readable(grant.index)}'"
    if grant.family != "wiki" and plain_path(grant.path) != grant.path:
        return "the path of the grant is not absolute and plain"
    return None


def narrow(grants: Sequence[Grant], request: Request) -> Narrowed:
    """The part of `request` that lies within `grants`, and what does not.

    Pure and total: whatever the request says, every allowed scope is of a grant in force for the request's
    family, kind of data and audience, and holds only paths and collections inside that grant.
    """
    fitting = [
        grant for grant in grants
        if grant.family == request.family
        and (request.data in grant.data if grant.family == "browser" else request.data is None)
    ]
    usable = [grant for grant in fitting if obstacle(grant, request) is None]
    idle = [grant for grant in fitting if obstacle(grant, request) is not None]
    if request.family == "browser":
        others = [grant for grant in grants if grant.family == "browser"]
        found = _profiles(usable, idle, others, request)
    elif request.family == "files":
        found = _paths(usable, idle, request)
    elif request.family == "wiki":
        found = _collections(usable, idle, request)
    else:
        found = Narrowed()
    if found.allowed or found.refused:
        return found
    # What pages show is asked for by the tabs source, which may well be granted.
    return Narrowed(refused=(_refusal(request, "no grant of tab-text" if request.data == "tab-text" else "no grant"),))


def _profiles(usable: list[Grant], idle: list[Grant], others: list[Grant], request: Request) -> Narrowed:
    def means(selector: str, grant: Grant) -> bool:
        return selects(selector, grant.browser, grant.profile, request.names.get(grant.path))

    def asked(grant: Grant) -> bool:
        return not request.profiles or any(means(selector, grant) for selector in request.profiles)

    allowed: dict[str, Scope] = {}
    for grant in filter(asked, usable):
        allowed.setdefault(grant.path, Scope(grant, (grant.path,)))
    refused = [_refused_grant(grant, request) for grant in filter(asked, idle) if grant.path not in allowed]
    for selector in request.profiles:
        if any(means(selector, grant) for grant in [*usable, *idle]):
            continue
        granted = {kind for grant in others if means(selector, grant) for kind in grant.data}
        kinds = [kind for kind in DATA if kind in granted]
        detail = f"granted for {', '.join(kinds)}, not for {request.data}" if kinds else "no grant"
        browser, slash, profile = selector.partition("/")
        if not slash:
            browser, profile = "", selector
        refused.append(_refusal(request, detail, browser=browser or None, profile=profile))
    return Narrowed(tuple(allowed.values()), tuple(refused))


def _paths(usable: list[Grant], idle: list[Grant], request: Request) -> Narrowed:
    if not request.paths:
        return Narrowed(
            tuple(Scope(grant, (grant.path,)) for grant in dict.fromkeys(usable)),
            tuple(_refused_grant(grant, request) for grant in idle),
        )
    found: dict[Grant, dict[str, None]] = {}
    refused: list[Refusal] = []
    partial: list[Refusal] = []
    for asked in request.paths:
        path = plain_path(asked)
        if path is None:
            refused.append(_refusal(request, "not an absolute path without '..'", path=asked))
            continue
        inside = [grant for grant in usable if within(path, grant.path)]
        below = [grant for grant in usable if grant not in inside and within(grant.path, path)]
        for grant in inside:
            found.setdefault(grant, {})[path] = None
        for grant in below:
            found.setdefault(grant, {})[grant.path] = None
        if below and not inside:
            parts = readable(", ".join(dict.fromkeys(grant.path for grant in below)))
            partial.append(_refusal(request, f"only as far as granted: {parts}", path=path))
        elif not inside:
            refused.append(_first_refusal([grant for grant in idle if within(path, grant.path)], request, path=path))
    allowed = tuple(Scope(grant, tuple(parts)) for grant, parts in found.items())
    return Narrowed(allowed, tuple(refused), tuple(partial))


def _collections(usable: list[Grant], idle: list[Grant], request: Request) -> Narrowed:
    if not request.collections:
        return Narrowed(
            tuple(Scope(grant, (), (grant.collection,) if grant.collection is not None else ())
                  for grant in dict.fromkeys(usable)),
            tuple(_refused_grant(grant, request) for grant in idle),
        )
    found: dict[Grant, dict[str, None]] = {}
    refused: list[Refusal] = []
    for name in request.collections:
        inside = [grant for grant in usable if grant.collection in (None, name)]
        for grant in inside:
            found.setdefault(grant, {})[name] = None
        if not inside:
            ended = [grant for grant in idle if grant.collection in (None, name)]
            refused.append(_first_refusal(ended, request, collection=name))
    return Narrowed(tuple(Scope(grant, (), tuple(names)) for grant, names in found.items()), tuple(refused))


def _refused_grant(grant: Grant, request: Request) -> Refusal:
    return _first_refusal([grant], request, browser=grant.browser, profile=grant.profile, path=grant.path or None,
                          collection=grant.collection)


def _first_refusal(idle: Sequence[Grant], request: Request, **what: str | None) -> Refusal:
    """What was asked for, refused for what stands in the way of the first grant that would have covered it."""
    detail = next((obstacle(grant, request) for grant in idle), None)
    lapsed = any(grant.ended(request.now) is not None for grant in idle)
    return _refusal(request, detail or "no grant", lapsed=lapsed, **what)


def _refusal(
    request: Request, detail: str, *, browser: str | None = None, profile: str | None = None,
    path: str | None = None, collection: str | None = None, lapsed: bool = False,
) -> Refusal:
    profile_name = "/".join(part for part in (browser, profile) if part)
    name = {"browser": profile_name, "files": path or "."}.get(request.family, collection)
    command = grant_command(request.family, name, request.data, request.audience)
    return Refusal(request.source, "no-consent", detail, browser, profile, path, collection, command, lapsed)


def grant_command(family: str, name: str | None, data: str | None = None, audience: str = "shell") -> str:
    """The command line, quoted for a shell, that asks a person for a grant of `name`."""
    import shlex

    words = ["ls-consent", "grant", family]
    if family == "browser":
        words += ["--data", data or DATA[0]]
    if audience != "shell":
        words += ["--audience", f"shell,{audience}"]
    if name:
        words += ["--", name] if name.startswith("-") else [name]
    return readable(shlex.join(words))
