"""Whose browser listens on a loopback port: what its files and /proc say, before anything is connected to.

A browser writes `DevToolsActivePort` beside its profiles when it is started with `--remote-debugging-port=0`, or
debugging is turned on in chrome://inspect; never for a fixed port. The file stays when the browser is gone. So on
Linux the kernel is asked who listens there, and in which profiles that process has files open (proc_net_tcp(5),
proc_pid_fd(5)). Where there is no /proc the answer of the port must say what only that browser can know: the path in
its file.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from lspipe import live
from lspipe.browsers import profiles
from lspipe.exits import Usage
from lspipe.live import Unusable

FILE, _LOCK = "DevToolsActivePort", "SingletonLock"
#: The profile that is the user-data folder itself, as Opera has it.
ITSELF = "."
#: The port of a browser that was started by hand, as most instructions have it.
COMMON = 9222
_FILE_MOST = 4096
_PATH = re.compile(r"/devtools/browser/[0-9A-Za-z-]{1,64}\Z")
_ADDRESS = re.compile(r"(127\.0\.0\.1|\[::1\]):([1-9][0-9]{0,4})\Z")
_LISTENS = "0A"
#: What a browser has open in each profile that it has loaded, and nowhere else.
_OPEN_IN_ALL = frozenset({"History", "Favicons", "Web Data", "Login Data", "Local Storage", "Sync Data"})
#: Those of them that are files.
_DATABASES = ("/History", "/Favicons", "/Web Data", "/Login Data")
#: Of each table: the address, every address, and what a socket of both families has for the IPv4 one.
_TABLES = {
    "127.0.0.1": (("/proc/net/tcp", "0100007F"), ("/proc/net/tcp6", "0000000000000000FFFF00000100007F"),
                  ("/proc/net/tcp", "0" * 8), ("/proc/net/tcp6", "0" * 32)),
    "::1": (("/proc/net/tcp6", "00000000000000000000000001000000"), ("/proc/net/tcp6", "0" * 32)),
}


class Address(NamedTuple):
    """A loopback address, literal, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listener(NamedTuple):
    """The process that listens on a port, and the directories beside the profile in which it has files open.

    A profile that lies elsewhere, behind a link, has its whole path for a name.
    """

    pid: int
    loaded: frozenset[str]


def parse(text: str) -> Address:
    """`127.0.0.1:9222` or `[::1]:9222`. Raises Usage: no other address is ever connected to."""
    found = _ADDRESS.match(text)
    if found is None or int(found[2]) > 65535:
        raise Usage(f"--cdp takes 127.0.0.1:PORT or [::1]:PORT, not '{text}'")
    return Address(found[1].strip("[]"), int(found[2]))


def is_path(text: str) -> bool:
    """Whether this is the path of a browser's own socket, and of no page's."""
    return _PATH.match(text) is not None


def port_file(root: int) -> tuple[int, str] | None:
    """(port, path) from the file in the open user-data folder `root`; None where there is none that fits."""
    try:
        fd = live.open_at(root, FILE)
    except Unusable:
        return None
    try:
        lines = os.read(fd, _FILE_MOST).decode("ascii", "replace").split("\n")
    finally:
        os.close(fd)
    if len(lines) < 2 or not re.fullmatch(r"[1-9][0-9]{0,4}", lines[0]) or not is_path(lines[1]):
        return None
    return (int(lines[0]), lines[1]) if int(lines[0]) < 65536 else None


def can_tell() -> bool:
    """Whether this system says who listens."""
    return os.path.exists("/proc/net/tcp")


def listener(address: Address, root: int) -> Listener | None:
    """The process of ours that listens on `address` with files open below the user-data folder `root`, if any."""
    sockets = listening(address)
    if not sockets:
        return None
    above = os.readlink(f"/proc/self/fd/{root}") + "/"
    for pid in _candidates(root):
        links = _open_files(pid)
        if not sockets.isdisjoint(links) and (loaded := _profiles(links, above, root)):
            return Listener(pid, loaded)
    return None


def people(root: int) -> frozenset[str]:
    """The directories in `root` that are a person's profiles."""
    return frozenset(name for name in [ITSELF, *os.listdir(root)] if _is_profile(root, name))


def is_root(folder: int) -> bool:
    """Whether the open profile is a user-data folder itself."""
    with suppress(OSError):
        return stat.S_ISREG(os.stat("Local State", dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def listening(address: Address) -> set[str]:
    """What a descriptor of our sockets that listen there is called; the most exact address alone.

    Nothing where another user listens at an address that is as exact or more so: it is he who would be connected to.
    """
    for table, host in _TABLES[address.host]:
        # Remote address, state, queues, timers, retransmissions, owner, timeout, inode.
        line = re.compile(rf"(?m)^ *\d+: {host}:{address.port:04X} \S+ {_LISTENS} \S+ \S+ \S+ +(\d+) +\d+ (\d+) ")
        with suppress(OSError), open(table, encoding="ascii") as file:
            found = line.findall(file.read())
            if found:
                ours = all(int(user) == os.geteuid() for user, _ in found)
                return {f"socket:[{inode}]" for _, inode in found} if ours else set()
    return set()


def _candidates(root: int) -> Iterator[int]:
    """The process that the browser's lock names, then all others of ours: a container has other numbers."""
    named = -1
    with suppress(OSError, ValueError):
        named = int(os.readlink(_LOCK, dir_fd=root).rpartition("-")[2])
        yield named
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != named:
            with suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                    yield int(name)


def _open_files(pid: int) -> set[str]:
    """What the descriptors of a process lead to; nothing where that may not be seen."""
    found = set()
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def _profiles(links: set[str], above: str, root: int) -> frozenset[str]:
    """The profiles in which these files are; a new one has none yet of the files that make a directory one."""
    # A directory that is a link, or was one when the browser opened it: it is no less a profile.
    elsewhere = {os.path.dirname(link) for link in links if link.endswith(_DATABASES) and not link.startswith(above)}
    below = [link[len(above):].split("/") for link in links if link.startswith(above)]
    below = [parts if len(parts) > 1 and parts[0] not in _OPEN_IN_ALL else [ITSELF, *parts] for parts in below]
    found = frozenset(parts[0] for parts in below if parts[0] not in profiles.NOT_A_PERSON
                      and (parts[1] in _OPEN_IN_ALL or (parts[0] != ITSELF and _is_profile(root, parts[0]))))
    return found | elsewhere if found else found


def _is_profile(root: int, name: str) -> bool:
    """By names alone: a profile that is not granted is not opened."""
    if name in profiles.NOT_A_PERSON:
        return False
    for sign in profiles.SIGNS["chromium"]:
        with suppress(OSError):
            if stat.S_IFMT(os.stat(f"{name}/{sign}", dir_fd=root, follow_symlinks=False).st_mode):
                return True
    return False
