"""The ways between the folders of Safari: where a profile's files are that are not in its own folder (pure).

Safari keeps what it always had in ~/Library/Safari, what is newer in its container, and a profile that a person made in
a folder of its own inside the container. Bookmarks, the reading list and downloads are one file for all profiles, and
so are tabs.
"""

from collections.abc import Iterator, Sequence

_UP = ".."
_CONTAINER = ("Containers", "com.apple.Safari", "Data", "Library", "Safari")
#: From each kind of folder up to ~/Library, and from there down to the other ones.
_LIBRARY_FROM = {"old": 1, "container": 5, "profile": 7}
#: In a profile of its own only this is its own.
_OWN = {"history"}


def is_made(path: str) -> bool:
    """Whether it is the folder of a Safari profile that a person made, and not the first one."""
    return path.split("/")[-7:-1] == [*_CONTAINER, "Profiles"]


def _kind(path: str) -> str:
    if is_made(path):
        return "profile"
    return "container" if path.rstrip("/").split("/")[-5:] == list(_CONTAINER) else "old"


def ways(path: str, kind: str) -> Iterator[Sequence[str]]:
    """The folders to look for one kind of data of the profile at `path` into, as ways from there."""
    here = _kind(path)
    up = [_UP] * _LIBRARY_FROM[here]
    if here != "profile" or kind in _OWN:
        yield ()
    if here == "profile":
        if kind in _OWN:
            return
        yield (_UP, _UP)
    elif here == "old":
        yield (*up, *_CONTAINER)
    if here != "old":
        yield (*up, "Safari")
