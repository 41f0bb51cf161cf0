"""Landlock: which files this process and its children may still open, and whom they may signal.

Numbers and semantics: Linux `include/uapi/linux/landlock.h` and Documentation/userspace-api/landlock.rst. The
three system calls have the same numbers on every architecture.

What the kernel does not check here: looking a name up (stat, access, readlink, chdir), descriptors that are
already open, and pipes, sockets and memory files reached through /proc/self/fd.
"""

import errno
import functools
import os
import stat
import struct
from collections.abc import Callable, Iterable

#: Calls the kernel: `(number, *arguments) -> (result, errno)`; bytes and ctypes buffers go by address.
Kernel = Callable[..., tuple[int, int]]

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15

#: Every right of ABI 1: making devices, FIFOs, sockets and symbolic links is never granted.
_ABI_1 = (1 << 13) - 1
_OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_TCP = 0b11  # bind, connect: no port is granted.
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2

READ = READ_FILE | READ_DIR
RUN = READ | EXECUTE
#: REFER lets a file be renamed from one folder of the tree to another; both ends need it.
WRITE = READ | WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR | REFER
#: A folder's own entries: nothing in it can be opened, and it cannot even be listed.
ENTRIES = MAKE_DIR | REMOVE_DIR


_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@functools.cache
def version(kernel: Kernel) -> int:
    """The ABI that the running kernel offers; 0 where it has none or it is switched off."""
    return max(0, kernel(_CREATE_RULESET, 0, 0, _VERSION)[0])


def handled(abi: int) -> int:
    """The file rights that an ABI can refuse; what it does not know stays allowed."""
    return _ABI_1 | (REFER if abi >= 2 else 0) | (TRUNCATE if abi >= 3 else 0) | (
        IOCTL_DEV if abi >= 5 else 0)


def restrict(
    kernel: Kernel, abi: int, grants: Iterable[tuple[str | int, int]], scope_signals: bool
) -> str | None:
    """Refuse every file access but `grants`, pairs of a path or an open descriptor and rights; every TCP port
    (ABI 4), every abstract socket and, with `scope_signals`, every signal to a process outside (ABI 6).

    A path that does not exist grants nothing. PR_SET_NO_NEW_PRIVS must be set. None when it is in force, else
    what the kernel said. OSError where that is a want of descriptors or memory: no reason to go on without.
    """
    rights = handled(abi)
    scoped = (_SCOPE_ABSTRACT_SOCKET | (_SCOPE_SIGNAL if scope_signals else 0)) if abi >= 6 else 0
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    attributes = struct.pack("<QQQ", rights, _TCP if abi >= 4 else 0, scoped)[:size]
    ruleset, error = kernel(_CREATE_RULESET, attributes, size, 0)
    if ruleset < 0:
        if error in _SCARCE:
            raise OSError(error, os.strerror(error))
        return f"landlock_create_ruleset: {os.strerror(error)}"
    try:
        for place, wanted in grants:
            problem = _add(kernel, ruleset, place, wanted & rights)
            if problem:
                return problem
        result, error = kernel(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return f"landlock_restrict_self: {os.strerror(error)}" if result < 0 else None


def _add(kernel: Kernel, ruleset: int, place: str | int, rights: int) -> str | None:
    if isinstance(place, str):
        try:
            fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except OSError as trouble:
            if trouble.errno in _SCARCE:
                raise
            return None
    else:
        fd = place
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_A_FILE
        if not rights:
            return None
        result, error = kernel(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("<Qi", rights, fd), 0)
    finally:
        if fd != place:
            os.close(fd)
    # A pipe, a socket or a memory file has no place in the tree (EBADFD): it can be used, never granted.
    if result < 0 and error != errno.EBADFD:
        return f"landlock_add_rule: {os.strerror(error)}"
    return None
