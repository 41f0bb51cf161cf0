"""The browser profiles on this machine: where they are, what they are called, which files hold what.

Nothing but directory entries, times, `profiles.ini` and the names in `Local State` is read here: that much
may be known before a grant. The names in the databases of Firefox's profile groups are read only on demand
(`group_names`).
"""

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import orjson

from lspipe import live
from lspipe.browsers import jsonfile, safariplaces, webkit
from lspipe.browsers.known import BESIDE, BROWSERS, FILES, Browser
from lspipe.paths import real as real_path

_NAMES_MOST = 32 << 20
#: Directories that are no person's profile.
NOT_A_PERSON = {"Guest Profile", "System Profile"}
#: The first profile of Chromium, and its name where the root itself is the profile.
_ONLY = "Default"

#: A directory is a profile when one of these is in it.
SIGNS = {
    "chromium": ("History", "Bookmarks", "AccountBookmarks", "EncryptedBookmarks", "EncryptedBookmarks2",
                 "EncryptedAccountBookmarks", "EncryptedAccountBookmarks2", "Sessions"),
    "firefox": ("places.sqlite", "sessionstore.jsonlz4", "sessionstore-backups"),
}
#: What changes when a profile is used.
_AGES = {"chromium": ("History", "History-wal", "Bookmarks", "AccountBookmarks", "Sessions"),
         "firefox": ("places.sqlite", "places.sqlite-wal", "sessionstore.jsonlz4", "sessionstore-backups"),
         "safari": ("History.db", "History.db-wal", "Bookmarks.plist"), "orion": ("history", "history-wal"),
         "epiphany": ("ephy-history.db", "ephy-history.db-wal", "session_state.xml")}


@dataclass(frozen=True)
class Profile:
    """One profile. `directory` names it within its browser, `name` is what the browser shows, `path` is free of
    symbolic links, `default` says that the browser opens it by itself, `fresh` is its newest change (ns)."""

    browser: str
    engine: str
    root: str
    directory: str
    name: str
    path: str
    default: bool = False
    fresh: int = 0


def files(engine: str, kind: str) -> tuple[str, ...]:
    """What is read in a profile for one kind of data; nothing where its browser does not keep it."""
    return FILES.get(engine, {}).get(kind, ())


def beside(browser: str, kind: str) -> tuple[str, ...]:
    """What is read outside the profile for one kind of data, by its path from the profile's directory."""
    return (BESIDE[browser, kind],) if (browser, kind) in BESIDE else ()


def engine_of(browser: str | None, path: str) -> str:
    """The engine of a browser that the table names, else of the profile's files."""
    known = next((one.engine for one in BROWSERS if one.name == browser), None)
    if known is None:
        signs = (("firefox", "places.sqlite"), ("safari", "History.db"), ("epiphany", "ephy-history.db"),
                 ("orion", "favourites.plist"))
        known = next((engine for engine, sign in signs if os.path.lexists(os.path.join(path, sign))), "chromium")
    return known


def discover(home: str, environ: Mapping[str, str], platform: str = sys.platform) -> list[Profile]:
    """Every profile of every known browser, the most lately used first, each once whatever links lead to it."""
    found: dict[tuple[int, int], Profile] = {}
    taken: set[tuple[str, str]] = set()
    for browser in BROWSERS:
        for root, kind in _roots(browser, home, environ, platform):
            for profile in _LISTED[browser.engine](browser, root):
                with contextlib.suppress(OSError):
                    facts = os.stat(profile.path)
                    if (facts.st_dev, facts.st_ino) not in found and stat.S_ISDIR(facts.st_mode):
                        named = _unique(profile, kind, taken)
                        found[facts.st_dev, facts.st_ino] = replace(named, fresh=_fresh(profile))
    return sorted(found.values(), key=lambda one: (-one.fresh, one.browser, one.directory))


def _roots(browser: Browser, home: str, environ: Mapping[str, str], platform: str) -> Iterator[tuple[str, str]]:
    """(existing root, what kind of installation it belongs to)."""
    library = os.path.join(home, "Library")
    bases = {"home": [home], "config": [os.path.join(home, ".config")], "data": [os.path.join(home, ".local/share")]}
    if platform == "darwin":
        bases = {"mac": [os.path.join(library, "Application Support")], "library": [library]}
    else:
        for base, variable in (("config", "XDG_CONFIG_HOME"), ("data", "XDG_DATA_HOME")):
            if os.path.isabs(environ.get(variable, "")):
                bases[base].insert(0, environ[variable])
    seen = set()
    for pattern in browser.roots:
        kind, _, rest = pattern.partition("/")
        package = "snap" if rest.startswith("snap/") else "flatpak" if rest.startswith(".var/") else kind
        for base in bases.get(kind, ()):
            for root in _expand(base, rest):
                real = real_path(root)
                if real not in seen and os.path.isdir(real):
                    seen.add(real)
                    yield real, package


def _expand(base: str, pattern: str) -> list[str]:
    before, star, after = pattern.partition("*/")
    if not star:
        return [os.path.join(base, pattern)]
    folder = os.path.join(base, before)
    return [os.path.join(folder, name, after) for name in _entries(folder)]


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _unique(profile: Profile, kind: str, taken: set[tuple[str, str]]) -> Profile:
    """The profile under a name that no other profile of its browser has: `Default`, `Default@snap`, `Default@3`."""
    label, number = profile.directory, 1
    while (profile.browser, label) in taken:
        label = f"{profile.directory}@{kind if number == 1 and kind in ('snap', 'flatpak') else number + 1}"
        number += 1
    taken.add((profile.browser, label))
    return replace(profile, directory=label)


def _fresh(profile: Profile) -> int:
    newest = 0
    for name in _AGES[profile.engine]:
        with contextlib.suppress(OSError):
            newest = max(newest, os.stat(os.path.join(profile.path, name)).st_mtime_ns)
    return newest


def _holds(path: str, engine: str) -> bool:
    return any(os.path.lexists(os.path.join(path, name)) for name in SIGNS[engine])


# ---- Chromium


def _chromium_profiles(browser: Browser, root: str) -> Iterator[Profile]:
    shown = None
    for directory in _entries(root):
        path = real_path(os.path.join(root, directory))
        if directory in NOT_A_PERSON or path == root or not _holds(path, browser.engine):
            continue
        if shown is None:
            shown = local_state(root)
        yield Profile(browser.name, browser.engine, root, _text(directory), shown.get(directory) or _text(directory),
                      path, default=directory == _ONLY)
    if _holds(root, browser.engine):  # As Opera has it; where there are others, it is what an older one left.
        label = _ONLY if shown is None else _text(os.path.basename(root))
        yield Profile(browser.name, browser.engine, root, label, local_state(root).get(_ONLY) or label, root,
                      default=shown is None)


def local_state(root: str) -> dict[str, str]:
    """Directory to shown name, from Chromium's `Local State`; nothing where that cannot be read."""
    data = _small(root, "Local State")
    try:
        cache = jsonfile.loads(data, "Local State")["profile"]["info_cache"] if data else {}
        return {directory: facts["name"] for directory, facts in cache.items()
                if isinstance(facts, dict) and isinstance(facts.get("name"), str)}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, live.Unusable):
        return {}


def _small(root: str, name: str) -> bytes | None:
    """A file of names, None where it cannot be read: names are a courtesy."""
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fd = live.open_at(folder, name)
        try:
            return live.read_file(fd, name, _NAMES_MOST)
        finally:
            os.close(fd)
    except (live.Unusable, OSError):
        return None
    finally:
        os.close(folder)


def _text(name: str) -> str:
    """A name of the file system as text."""
    return os.fsencode(name).decode("utf-8", "replace")


# ---- Firefox


def _firefox(browser: Browser, root: str) -> Iterator[Profile]:
    """What profiles.ini lists, then the other directories with a history: those of profile groups, and orphans."""
    sections = ini(_small(root, "profiles.ini") or b"")
    opened = {values["Default"] for name, values in sections if name.startswith("Install") and values.get("Default")}
    seen = set()
    for name, values in sections:
        if not name.startswith("Profile") or not values.get("Path"):
            continue
        path = real_path(_place(root, values["Path"], values.get("IsRelative", "1")))
        if path in seen or not _holds(path, browser.engine):
            continue
        seen.add(path)
        # What an installation opens beats the older Default=1, which no installation may have left behind.
        default = values["Path"] in opened if opened else values.get("Default") == "1"
        label = _text(os.path.basename(path))
        shown = os.fsencode(values.get("Name", "")).decode("utf-8", "replace")
        yield Profile(browser.name, browser.engine, root, label, shown or label, path, default)
    for folder in (root, os.path.join(root, "Profiles")):
        for directory in _entries(folder):
            path = real_path(os.path.join(folder, directory))
            if path not in seen and os.path.lexists(os.path.join(path, "places.sqlite")):
                seen.add(path)
                label = _text(directory)
                yield Profile(browser.name, browser.engine, root, label, label, path)


def _place(root: str, path: str, relative: str) -> str:
    return path if relative == "0" and os.path.isabs(path) else os.path.join(root, path)


def ini(data: bytes) -> list[tuple[str, dict[str, str]]]:
    """The sections of a file like profiles.ini, in order; lines that are none are passed over.

    Paths keep bytes that are not UTF-8, as `os.fsdecode` does.
    """
    sections: list[tuple[str, dict[str, str]]] = []
    for raw in data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n"):
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            sections.append((line[1:-1], {}))
        elif "=" in line and "\0" not in line and sections and not line.startswith((";", "#")):
            key, _, value = line.partition("=")
            sections[-1][1].setdefault(key.strip(), value.strip())
    return sections


def group_names(root: str) -> dict[str, str]:
    """Path to shown name of the profiles in Firefox's profile groups, from their databases: only after a grant."""
    found: dict[str, str] = {}
    stores = {values.get("StoreID") for _, values in ini(_small(root, "profiles.ini") or b"")} - {None, ""}
    if not stores:
        return found
    from lspipe import snapshot

    for store in sorted(str(name) for name in stores):
        if "/" in store:
            continue
        with contextlib.suppress(snapshot.Unusable, OSError, *snapshot.FAULTS):
            path = os.path.join(root, "Profile Groups", f"{store}.sqlite")
            with contextlib.closing(snapshot.open_all(path)) as source, \
                    contextlib.closing(snapshot.connect(source, tables=("Profiles",))) as conn:
                # More than anybody has, and no longer than a path may be.
                for place, name in conn.execute("SELECT substr(path, 1, 4096), substr(name, 1, 4096) FROM Profiles"
                                                " LIMIT 1000"):
                    if isinstance(place, str) and isinstance(name, str) and name:
                        found[real_path(os.path.join(root, place))] = name
    return found


def shown_names(paths: Iterable[str], groups: bool = False) -> dict[str, str]:
    """The shown name of each profile that has one, by its path, found again from the path alone.

    With `groups`, which only a profile that is granted may ask for, also from the databases of profile
    groups.
    """
    found: dict[str, str] = {}
    for path in paths:
        above = os.path.dirname(path)
        if os.path.lexists(os.path.join(path, "Local State")):
            above, directory = path, _ONLY
        else:
            directory = os.path.basename(path)
        for root in (above, os.path.dirname(above)):
            if os.path.lexists(os.path.join(root, "profiles.ini")):
                names = {real_path(_place(root, values["Path"], values.get("IsRelative", "1"))):
                         os.fsencode(values.get("Name", "")).decode("utf-8", "replace")
                         for _, values in ini(_small(root, "profiles.ini") or b"") if values.get("Path")}
                if groups:
                    names.update(group_names(root))
                break
        else:
            listed = webkit.orion_names(above, _small) if webkit.is_orions(above) else local_state(above)
            names = {path: listed.get(directory, "")}
            if groups and safariplaces.is_made(path):
                names[path] = safari_name(path) or ""
        if names.get(path):
            found[path] = names[path]
    return found


# ---- Safari, Orion, GNOME Web


def _webkit(browser: Browser, root: str) -> Iterator[Profile]:
    for directory, name, path, default in webkit.listed(browser.engine, root, _small):
        label = _text(directory)
        yield Profile(browser.name, browser.engine, root, label, name or label, real_path(path), default)


_LISTED = {"chromium": _chromium_profiles, "firefox": _firefox, "safari": _webkit, "orion": _webkit,
           "epiphany": _webkit}


def safari_name(path: str) -> str | None:
    """What a Safari profile that a person made is called, from the database of tabs: only after a grant."""
    from lspipe import snapshot
    from lspipe.browsers import safaritabs

    above = os.path.dirname(os.path.dirname(path))
    with contextlib.suppress(snapshot.Unusable, OSError, *snapshot.FAULTS), \
            contextlib.closing(snapshot.open_all(os.path.join(above, "SafariTabs.db"))) as source, \
            contextlib.closing(snapshot.connect(source, tables=("bookmarks",))) as conn:
        return safaritabs.profile_name(conn, os.path.basename(path))
    return None
