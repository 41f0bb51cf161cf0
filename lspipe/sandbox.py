"""The sandbox: what an executable gives up, for good and with all its children, before it reads any input.

Two locks of the kernel, neither of which needs a privilege: Landlock for files and signals, seccomp for
sockets and for everything that changes a file without opening it. Where the process is root it keeps the
right to read and write any file (within the rules) and no other privilege. Descriptors that are already open
keep working.
"""

import contextlib
import functools
import os
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lspipe import landlock, seccomp
from lspipe.exits import Bug

ENFORCED, PARTIAL, NONE = "enforced", "partial", "none"

_PR_SET_NO_NEW_PRIVS = 38
_CAPGET_CAPSET = ((125, 126), (90, 91))
_CAPABILITIES = 0x20080522  # _LINUX_CAPABILITY_VERSION_3: two words of each set.
_READ_ANY_FILE = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_KILL = 1 << 5

#: Libraries of the system, the loader's tables, the local time zone.
_SYSTEM = (
    "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/usr/local/lib64",
    "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ld-musl-x86_64.path", "/etc/ld-musl-aarch64.path",
    "/usr/share/zoneinfo", "/etc/localtime",
)
_STORES = ("/nix/store", "/gnu/store")


class Rules(NamedTuple):
    """What is left. Each place is an absolute path, followed through symbolic links, or an open descriptor
    (O_PATH is enough), which is then exactly what was checked when it was opened. What does not exist grants
    nothing; a file made later at a granted path is another file.

    read: a file, or a folder with all below it. execute: programs, which may be read too; their ELF loader is
    added. write: everything but symbolic links, devices, FIFOs and sockets, renaming within the tree
    included. entries: only making, renaming and removing folders directly or deeper in it; no file in it can
    be opened or made, and it cannot be listed. may_signal: no limit on whom signals reach.
    """

    read: tuple[str | int, ...] = ()
    execute: tuple[str | int, ...] = ()
    write: tuple[str | int, ...] = ()
    entries: tuple[str | int, ...] = ()
    may_signal: bool = False


class State(NamedTuple):
    """What is in force: `fs`, `net`, `signal` are each "enforced", "partial" or "none" (`signal` also is
    "none" where the rules allow signals); `abi` is Landlock's, 0 without; `detail` says in words what is and
    what is not."""

    fs: str = NONE
    net: str = NONE
    signal: str = NONE
    abi: int = 0
    detail: str = ""


def lock_down(rules: Rules, *, abi: int | None = None, filtered: bool = True) -> State:
    """Give up everything but `rules`. Cannot be undone; children inherit it. About a millisecond, ctypes
    included.

    Never fails on a kernel that offers less: the State says what it does offer. `abi` and `filtered` use less
    than there is, as if the kernel were older or had no seccomp. Raises Bug where other threads run: they
    would stay free; OSError where descriptors or memory are short: then nothing may go on.
    """
    if not sys.platform.startswith("linux"):
        return State(detail=f"no sandbox on {sys.platform}")
    _alone()
    try:
        call, control = library()
    except (ImportError, OSError, AttributeError) as error:
        return State(detail=f"no sandbox: {error}")
    control(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # Both locks ask for it.
    offered = landlock.version(call)
    used = offered if abi is None else min(offered, abi)
    said = []
    problem: str | None = "no Landlock in this kernel"
    if used:
        problem = landlock.restrict(call, used, _grants(rules), not rules.may_signal)
    said.append(problem or f"Landlock ABI {used}")
    if problem:
        used = 0
    _drop_privileges(call, rules.may_signal)
    filter_problem = seccomp.restrict(call, used < 3) if filtered else "no seccomp"
    said.append(filter_problem or "seccomp")
    scoped = used >= 6 and not rules.may_signal
    if not scoped:
        said.append("signals allowed by the rules" if rules.may_signal else "signals need Landlock ABI 6")
    return State(
        fs=NONE if not used else PARTIAL if filter_problem else ENFORCED,
        net=ENFORCED if not filter_problem else PARTIAL if used >= 4 else NONE,
        signal=ENFORCED if scoped else NONE,
        abi=used,
        detail=", ".join(said),
    )


def offered() -> State:
    """What `lock_down` could put in force here, for rules that allow no signals; nothing is given up."""
    if not sys.platform.startswith("linux"):
        return State(detail=f"no sandbox on {sys.platform}")
    try:
        call = library()[0]
    except (ImportError, OSError, AttributeError) as error:
        return State(detail=f"no sandbox: {error}")
    abi, filtered = landlock.version(call), seccomp.offered(call)
    return State(
        fs=NONE if not abi else ENFORCED if filtered else PARTIAL,
        net=ENFORCED if filtered else PARTIAL if abi >= 4 else NONE,
        signal=ENFORCED if abi >= 6 else NONE, abi=abi,
    )


def _alone() -> None:
    try:
        # Two links for `.` and `..`, one for each thread.
        threads = os.stat("/proc/self/task").st_nlink - 2
    except OSError:
        import threading

        threads = threading.active_count()
    if threads > 1:
        raise Bug(f"cannot lock down: {threads} threads run, and only this one would be held")


def warm() -> None:
    """Do what `lock_down` can do once for many: a parent that forks children which lock down calls it
    first."""
    if sys.platform.startswith("linux"):
        found = seccomp.architecture()
        if found:
            seccomp.program(*found, False)
        with contextlib.suppress(ImportError, OSError, AttributeError):
            library()


@functools.cache
def library() -> tuple[landlock.Kernel, Callable[..., int]]:
    """The C library's syscall() and prctl()."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    enter, long, last_error = library.syscall, ctypes.c_long, ctypes.get_errno
    enter.restype = long

    def call(number: int, *arguments: Any) -> tuple[int, int]:
        result = enter(long(number), *(long(a) if isinstance(a, int) else a for a in arguments))
        return result, last_error() if result < 0 else 0

    return call, library.prctl


def _grants(rules: Rules) -> Iterator[tuple[str | int, int]]:
    yield "/dev/null", landlock.READ_FILE | landlock.WRITE_FILE | landlock.TRUNCATE
    yield "/dev/urandom", landlock.READ_FILE
    for place in rules.read:
        yield place, landlock.READ
    for place in rules.execute:
        yield place, landlock.RUN
        loader = _loader(place)
        if loader:
            yield loader, landlock.RUN
    for place in rules.write:
        yield place, landlock.WRITE
    for place in rules.entries:
        yield place, landlock.ENTRIES


def _loader(program: str | int) -> str | None:
    """The program that the kernel starts to load this one (PT_INTERP of a 64-bit little-endian ELF file)."""
    if isinstance(program, int):
        program = f"/proc/self/fd/{program}"
    try:
        fd = os.open(program, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        head = os.read(fd, 4096)
        if head[:6] != b"\x7fELF\x02\x01":
            return None
        start, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        for place in range(start, start + size * count, size):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", head, place)
            if kind == 3:
                return os.fsdecode(os.pread(fd, length, offset).rstrip(b"\0"))
    except (OSError, struct.error):
        pass
    finally:
        os.close(fd)
    return None


def _drop_privileges(kernel: landlock.Kernel, may_signal: bool) -> None:
    """Of root's capabilities only those that open files stay; no_new_privs keeps children from regaining
    them."""
    import ctypes

    found = seccomp.architecture()
    if found is None:
        return
    get, put = _CAPGET_CAPSET[found[0]]
    header = struct.pack("<Ii", _CAPABILITIES, 0)
    held = ctypes.create_string_buffer(24)
    if kernel(get, header, held)[0] < 0:
        return
    sets = struct.unpack("<6I", held.raw)  # Effective, permitted, inheritable; then their upper halves.
    keep = _READ_ANY_FILE | (_KILL if may_signal else 0)
    left = (*(word & keep for word in sets[:3]), 0, 0, 0)
    if left != sets:
        kernel(put, header, struct.pack("<6I", *left))


def program_paths() -> tuple[str, ...]:
    """What Python and this package need to read for imports that come later: the standard library, site
    packages, this package and its schemas, system libraries, time zones. Never a whole prefix, which may be a
    home folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    standard = os.path.dirname(os.path.abspath(os.__file__))
    found = [here, os.path.join(here, "schemas"), standard, os.path.join(sys.prefix, "pyvenv.cfg")]
    for prefix in (sys.base_prefix, sys.base_exec_prefix):
        found += [os.path.join(prefix, name) for name in ("lib", sys.platlibdir, "share/zoneinfo")]
        found += [store for store in _STORES if prefix.startswith(store + "/")]
    for entry in sys.path:
        if os.path.basename(entry) in ("site-packages", "dist-packages") or entry.endswith(".zip"):
            found.append(os.path.abspath(entry))
    for name in ("click", "orjson"):
        module = sys.modules.get(name)
        if module is not None and module.__file__:
            found.append(os.path.dirname(os.path.dirname(module.__file__)))
    home = os.path.expanduser("~")
    return tuple(path for path in dict.fromkeys((*found, *_SYSTEM)) if not _holds(path, home))


def _holds(path: str, home: str) -> bool:
    return path == home or home.startswith(path.rstrip("/") + "/")
