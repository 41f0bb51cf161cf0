"""seccomp: the system calls that no local executable needs, refused for this process and its children.

Landlock guards files; this guards everything else that could carry bytes away, reach another process, or
change a file without opening it. Most calls are refused whatever their arguments. The filter is built here,
without libseccomp, for x86-64 and arm64 (Linux `include/uapi/linux/seccomp.h`, `linux/filter.h`; the numbers
are compared with the system's headers by a test). A call through another architecture's table (32-bit, x32)
is always refused.
"""

import errno
import functools
import os
import struct
import sys

from lspipe import landlock

#: Refused with EACCES, always. The number is (x86-64, arm64); one number where both have the same, None where
#: absent.
REFUSED: dict[str, int | tuple[int | None, int | None]] = {
    # New sockets, and new peers of sockets that came from outside. socketpair stays: it reaches nobody.
    # sendmsg has its address behind a pointer; of the standard library only asyncio's writelines() needs it.
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    # System calls that no filter would see.
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    # Other processes, and memory shared with them.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": 438, "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    # The kernel itself, and its keys.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "syslog": (103, 116),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # Another view of the file system.
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "mount_setattr": 442, "open_tree_attr": 467, "unshare": (272, 97), "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    # Files that are not open for writing: mode, owner, times, size, attributes. Landlock does not guard
    # these.
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": 452,
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "truncate": (76, 45), "file_setattr": 469,
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": 463,
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": 466,
    # Reading beside open(): attributes (a download's origin is one) and the names of files that come and go.
    "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10), "getxattrat": 464,
    "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13), "listxattrat": 465,
    "inotify_add_watch": (254, 27), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
}

#: Refused for some arguments, or with another answer.
CONDITIONAL: dict[str, int | tuple[int | None, int | None]] = {
    "sendto": (44, 206), "clone": (56, 220), "clone3": 435, "prlimit64": (302, 261), "ioctl": (16, 29),
    "open": (2, None), "openat": (257, 56), "openat2": 437,
}

_SECCOMP = (317, 277)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_GREATER, _JUMP_NOT_LESS, _JUMP_ANY_BIT = 0x15, 0x25, 0x35, 0x45


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> int:
    """One `struct sock_filter` as a number: a jump skips `then` or `otherwise` instructions, at most 255."""
    return code | then << 16 | otherwise << 24 | value << 32


_ALLOW = _step(_RETURN, 0x7FFF0000)
_REFUSE = _step(_RETURN, 0x00050000 | errno.EACCES)
_ABSENT = _step(_RETURN, 0x00050000 | errno.ENOSYS)

#: System calls from one number to another, both included, and what to do: instructions that return.
Entry = tuple[int, int, list[int]]

#: Flags of clone() that make namespaces. In clone3() they are behind a pointer, so libraries are told that it
#: does not exist and use clone().
_NEW_NAMESPACE = 0x7E020000
#: Of all ioctl commands only those of terminals and descriptors ('T') are needed; file systems have some that
#: change a file through a descriptor that only reads. TIOCSTI types into the terminal, which outlives us.
_TERMINAL = 0x5400
_NOT_FOR_TERMINALS = (0x5412, 0x541C, 0x541D, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD


def architecture() -> tuple[int, int] | None:
    """(column of the tables, AUDIT_ARCH value) of this process; None where there is no table for it."""
    # A 32-bit interpreter on a 64-bit kernel would have every call refused.
    return _ARCHITECTURES.get(os.uname().machine) if sys.maxsize > 2**32 else None


def number(call: int | tuple[int | None, int | None], column: int) -> int | None:
    """The number of a call of the tables above on one architecture."""
    return call if isinstance(call, int) else call[column]


@functools.cache
def program(column: int, audit: int, truncates: bool) -> bytes:
    """The filter as `struct sock_filter[]`. `truncates`: also refuse to truncate a file that is opened for
    reading, which Landlock before ABI 3 cannot."""
    bodies = _conditional()
    if truncates:
        for name, flags in (("open", 1), ("openat", 2)):
            bodies[name] = [
                _argument(flags), _step(_AND, os.O_TRUNC | os.O_ACCMODE),
                _step(_JUMP_EQUAL, os.O_TRUNC | os.O_RDONLY, 0, 1), _REFUSE, _ALLOW,
            ]
        bodies["openat2"] = [_ABSENT]
    entries: list[Entry] = []
    for call in sorted(n for n in (number(found, column) for found in REFUSED.values()) if n is not None):
        if entries and entries[-1][1] == call - 1:
            entries[-1] = (entries[-1][0], call, [_REFUSE])
        else:
            entries.append((call, call, [_REFUSE]))
    for name, body in bodies.items():
        found = number(CONDITIONAL[name], column)
        if found is not None:
            entries.append((found, found, body))
    code = [_load(4), _step(_JUMP_EQUAL, audit, 1), _REFUSE, _load(0)]
    if column == 0:
        code += [_step(_JUMP_NOT_LESS, _X32, 0, 1), _REFUSE]
    code += _search(sorted(entries))
    return struct.pack(f"<{len(code)}Q", *code)


def _conditional() -> dict[str, list[int]]:
    terminal: list[int] = []
    for command in _NOT_FOR_TERMINALS:
        terminal += _step(_JUMP_EQUAL, command, 0, 1), _REFUSE
    return {
        # With an address it could reach beyond a socket's peer, and open a connection with its data.
        "sendto": [_argument(4), _step(_JUMP_EQUAL, 0, 0, 2), _argument(4, high=True),
                   _step(_JUMP_EQUAL, 0, 1), _REFUSE, _ALLOW],
        "clone": [_argument(0), _step(_JUMP_ANY_BIT, _NEW_NAMESPACE, 0, 1), _REFUSE, _ALLOW],
        "clone3": [_ABSENT],
        # A limit set on another process is a way to kill it.
        "prlimit64": [_argument(0), _step(_JUMP_EQUAL, 0, 1), _REFUSE, _ALLOW],
        "ioctl": [_argument(1), *terminal, _step(_AND, 0xFF00), _step(_JUMP_EQUAL, _TERMINAL, 1), _REFUSE,
                  _ALLOW],
    }


def _search(entries: list[Entry]) -> list[int]:
    """A binary search for the call's number, which is loaded. The kernel runs the filter for every number
    when it is installed, so a plain list of comparisons costs more."""
    if len(entries) > 4:
        middle = len(entries) // 2
        low, high = _search(entries[:middle]), _search(entries[middle:])
        return [_step(_JUMP_NOT_LESS, entries[middle][0], len(low)), *low, *high]
    code: list[int] = []
    for first, last, body in entries:
        if first == last:
            code.append(_step(_JUMP_EQUAL, first, 0, len(body)))
        else:
            code.append(_step(_JUMP_NOT_LESS, first, 0, len(body) + 1))
            code.append(_step(_JUMP_GREATER, last, len(body)))
        code += body
    return [*code, _ALLOW]


def _load(offset: int) -> int:
    return _step(_LOAD, offset)


def _argument(index: int, high: bool = False) -> int:
    """Load half of an argument: `struct seccomp_data`, little-endian on both architectures."""
    return _load(16 + 8 * index + (4 if high else 0))


def offered(kernel: landlock.Kernel) -> bool:
    """Whether the kernel takes a filter that refuses with an error (SECCOMP_GET_ACTION_AVAIL, Linux 4.14)."""
    found = architecture()
    return found is not None and kernel(_SECCOMP[found[0]], 2, 0, struct.pack("<I", 0x00050000))[0] == 0


def restrict(kernel: landlock.Kernel, truncates: bool) -> str | None:
    """Install the filter. PR_SET_NO_NEW_PRIVS must be set. None when it is in force, else why not."""
    import ctypes

    found = architecture()
    if found is None:
        return f"no table of system calls for {os.uname().machine}"
    code = ctypes.create_string_buffer(program(*found, truncates))
    header = struct.pack("<HxxxxxxQ", (len(code) - 1) // 8, ctypes.addressof(code))
    result, error = kernel(_SECCOMP[found[0]], 1, 0, header)
    return f"seccomp: {os.strerror(error)}" if result < 0 else None
