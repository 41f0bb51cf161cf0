"""Where the profiles of Safari, Orion and GNOME Web are: directory entries, and the names in Orion's own list."""

import os
from collections.abc import Callable, Iterator

#: A directory is a profile when one of these is in it.
_SIGNS = {
    "safari": ("History.db", "Bookmarks.plist", "SafariTabs.db", "LastSession.plist"),
    "orion": ("history", "favourites.plist", "reading_list.plist"),
    "epiphany": ("ephy-history.db", "bookmarks.gvdb", "session_state.xml"),
}
_FIRST = "Default"

Listed = tuple[str, str | None, str, bool]
"""A profile: directory, shown name, path, whether the browser opens it by itself."""
Small = Callable[[str, str], bytes | None]
"""What reads a file of names, None where it cannot be read."""


def listed(engine: str, root: str, small: Small) -> Iterator[Listed]:
    """The profiles below a root."""
    if engine == "safari":
        yield from _safari(root)
    elif engine == "orion":
        yield from _orion(root, small)
    elif _holds(root, engine):  # GNOME Web has one, the root itself.
        yield _FIRST, None, root, True


def _holds(path: str, engine: str) -> bool:
    return any(os.path.lexists(os.path.join(path, name)) for name in _SIGNS[engine])


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _safari(root: str) -> Iterator[Listed]:
    """The first profile, in the older of its two folders if there is something in it, and those that people made."""
    library, _, inside = root.partition("/Containers/com.apple.Safari/")
    older = os.path.join(library, "Safari")
    if not (inside and _is_safaris(older)) and _is_safaris(root):
        yield _FIRST, None, root, True
    made = os.path.join(root, "Profiles")
    for directory in _entries(made) if inside else ():
        yield directory, None, os.path.join(made, directory), False


def _is_safaris(path: str) -> bool:
    """Whether there is something of Safari's in a folder; macOS hides that from those who may not read it."""
    if _holds(path, "safari"):
        return True
    try:
        os.listdir(path)
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def _orion(root: str, small: Small) -> Iterator[Listed]:
    shown = None
    for directory in _entries(root):
        path = os.path.join(root, directory)
        if _holds(path, "orion"):
            if shown is None:
                shown = orion_names(root, small)
            yield directory, shown.get(directory), path, directory == "Defaults"


def is_orions(root: str) -> bool:
    """Whether a folder is where Orion, or its release candidate, has its profiles."""
    return os.path.basename(root) in ("Orion", "Orion RC")


def orion_names(root: str, small: Small) -> dict[str, str]:
    """Directory to shown name, from Orion's list of profiles; nothing where that cannot be read."""
    data = small(root, "profiles")
    if data is None:
        return {}
    from lspipe.browsers import orion

    return orion.names(data)
