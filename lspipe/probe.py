"""What `--sandbox-report` runs after lock-down: tries what is forbidden and says what the kernel answers.

Every attempt is harmless where the kernel allows it: files are opened and closed, never written; folders that
are to be removed are not empty; system calls get arguments that cannot work; a file that could be made is
removed at once.
"""

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lspipe import landlock, sandbox, seccomp

ALLOWED, REFUSED = "allowed", "EACCES"

Row = dict[str, Any]

#: Beside what is granted of a browser's profile, or of a Firefox one, these hold what nobody granted.
_NEIGHBOURS = (
    "Cookies", "Network/Cookies", "Login Data", "Web Data", "Local State", "Preferences",
    "cookies.sqlite", "logins.json", "key4.db", "formhistory.sqlite", "prefs.js",
)
_STREAM, _DATAGRAM, _RAW = 1, 2, 3
#: (name, family, type, protocol), Linux numbers.
_SOCKETS = (
    ("TCP", 2, _STREAM, 6), ("TCP over IPv6", 10, _STREAM, 6), ("UDP", 2, _DATAGRAM, 17),
    ("UDP over IPv6", 10, _DATAGRAM, 17), ("MPTCP", 2, _STREAM, 262), ("SCTP", 2, _STREAM, 132),
    ("ping", 2, _DATAGRAM, 1), ("raw IP", 2, _RAW, 1), ("Unix (path or abstract), stream", 1, _STREAM, 0),
    ("Unix (path or abstract), datagram", 1, _DATAGRAM, 0), ("netlink", 16, _RAW, 0),
    ("packet", 17, _RAW, 0x300), ("vsock", 40, _STREAM, 0), ("kernel crypto", 38, 5, 0),
)
_FAMILIES = 46
_FAST_OPEN = 0x20000000
_SOCKETPAIR, _EXECVE = (53, 199), (59, 221)
#: A key that nothing has: without IPC_CREAT none is made.
_SHARED = {"shmget": (0x6C737069, 1, 0), "semget": (0x6C737069, 0, 0), "msgget": (0x6C737069, 0)}


def probe(rules: sandbox.Rules, canaries: Sequence[str] = ()) -> list[Row]:
    """Rows of `attempt`, `expected`, `kernel` and `ok`, for a process that has locked itself down with
    `rules`.

    `expected` and `kernel` are "allowed" or the name of an error. `canaries` are paths that must be refused,
    such as profiles without a grant. On a kernel that offers less, the rows that differ are what it does not
    enforce.
    """
    rows = [*_reading(rules, canaries), *_writing(rules), *_signals(rules)]
    found = seccomp.architecture()
    if not sys.platform.startswith("linux") or found is None:
        return [*rows, _row("system calls", REFUSED, "not tried")]
    call = sandbox.library()[0]
    rows += [*_programs(rules, call, found[0]), *_network(call, found[0]), *_calls(call, found[0])]
    return [*rows, *_child(rules, call, found[0])]


def _row(attempt: str, expected: str, kernel: str) -> Row:
    shown = attempt.encode("utf-8", "backslashreplace").decode()
    return {"attempt": shown, "expected": expected, "kernel": kernel, "ok": expected == kernel}


def _try(action: Callable[..., Any], *arguments: Any) -> str:
    try:
        result = action(*arguments)
    except OSError as error:
        return _name(error.errno)
    if action is os.open:
        os.close(result)
    return ALLOWED


def _name(number: int | None) -> str:
    return errno.errorcode.get(number or 0, str(number))


def _open(path: str, flags: int = os.O_RDONLY) -> str:
    return _try(os.open, path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


# --- files
# ---------------------------------------------------------------------------------------------------


def _places(places: Sequence[str | int]) -> list[str]:
    """Their real paths. Links can be read after lock-down; what they lead to cannot."""
    found = []
    for place in places:
        with contextlib.suppress(OSError):
            found.append(os.path.realpath(place) if isinstance(place, str) else _of_descriptor(place))
    return found


def _of_descriptor(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def _within(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _reading(rules: sandbox.Rules, canaries: Sequence[str]) -> Iterator[Row]:
    granted = _places([*rules.read, *rules.execute, *rules.write])
    here = os.path.abspath(__file__)
    yield _row(f"read a granted file: {here}", ALLOWED, _open(here))
    home, parent = os.path.expanduser("~"), os.getppid()
    outside = ["/", "/etc", "/etc/passwd", "/tmp", home, os.path.dirname(home), "/proc", "/proc/self/environ"]
    if parent > 0:
        outside += [f"/proc/{parent}/cmdline", f"/proc/{parent}/environ"]
    with contextlib.suppress(OSError):
        outside.append(os.getcwd())
    outside += _places(rules.entries)
    for path in dict.fromkeys([*outside, *_beside(rules), *canaries]):
        if os.path.lexists(path) and not _within(os.path.realpath(path), granted):
            yield _row(f"{'list' if os.path.isdir(path) else 'read'} {path}", REFUSED, _open(path))
    if not _within("/etc/passwd", granted):
        yield _row("read /etc/passwd through /proc/self/root", REFUSED, _open("/proc/self/root/etc/passwd"))
        roundabout = os.path.dirname(here) + "/.." * here.count("/") + "/etc/passwd"
        yield _row("read /etc/passwd through '..'", REFUSED, _open(roundabout))


def _beside(rules: sandbox.Rules) -> Iterator[str]:
    """The folders that are open, those of the files that are granted or open, and what such folders should not show."""
    program = _places(sandbox.program_paths())
    files = [path for path in _places([*rules.read, *rules.write]) if not _within(path, program)]
    for fd in range(3, 256):
        with contextlib.suppress(OSError):
            files.append(_of_descriptor(fd))
    folders = (path if os.path.isdir(path) else os.path.dirname(path) for path in files if os.path.exists(path))
    for folder in dict.fromkeys(folders):
        yield folder
        for name in _NEIGHBOURS:
            yield os.path.join(folder, name)


def _writing(rules: sandbox.Rules) -> Iterator[Row]:
    writable = _places(rules.write)
    package = os.path.dirname(os.path.abspath(__file__))
    file = os.path.join(package, "__init__.py")
    yield _row("write to /dev/null", ALLOWED, _open("/dev/null", os.O_WRONLY))
    if not _within(package, writable):
        yield _row(f"write to {file}", REFUSED, _open(file, os.O_WRONLY))
        yield _row(f"remove {package}", REFUSED, _try(os.rmdir, package))
        yield _row(f"unlink {package}", REFUSED, _try(os.unlink, package))
        folder = os.path.join(package, "commands")
        if os.path.isdir(folder) and not os.path.islink(folder):  # A file cannot take a folder's place.
            yield _row(f"rename {file}", REFUSED, _try(os.rename, file, folder))
    program = _places(sandbox.program_paths())
    for path in _places(rules.read):
        if os.path.isfile(path) and not _within(path, [*program, *writable]):
            yield _row(f"write to {path}", REFUSED, _open(path, os.O_WRONLY))
    outside = [*_places(rules.entries), *(os.path.dirname(path) for path in _places(rules.entries))]
    for folder in dict.fromkeys([*outside, os.path.expanduser("~"), "/tmp", "/dev/shm"]):
        if os.path.isdir(folder) and not _within(folder, writable):
            yield _row(f"make a file in {folder}", REFUSED, _made(_make_file, os.unlink, folder))
    for folder in outside[len(rules.entries):]:
        if not _within(folder, writable):
            yield _row(f"make a folder in {folder}", REFUSED, _made(os.mkdir, os.rmdir, folder))
    for folder in writable:
        if os.path.isdir(folder):
            yield _row(f"make and remove a file in {folder}", ALLOWED, _made(_make_file, os.unlink, folder))
            yield _row(f"make and remove a folder in {folder}", ALLOWED, _made(os.mkdir, os.rmdir, folder))
            yield _row(f"make a symbolic link in {folder}", REFUSED, _made(_make_link, os.unlink, folder))
            yield _row(f"make a FIFO in {folder}", REFUSED, _made(os.mkfifo, os.unlink, folder))


def _made(make: Callable[[str], None], remove: Callable[[str], None], folder: str) -> str:
    path = os.path.join(folder, f".probe-{os.getpid()}-{os.urandom(4).hex()}")
    answer = _try(make, path)
    if answer != ALLOWED:
        return answer
    removed = _try(remove, path)
    return ALLOWED if removed == ALLOWED else f"{path} was made, and removing it gave {removed}"


def _make_file(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _make_link(path: str) -> None:
    os.symlink("/", path)


# --- processes
# -----------------------------------------------------------------------------------------------


def _signals(rules: sandbox.Rules) -> Iterator[Row]:
    """To the parent, which was there before; SIGURG because it does nothing where nobody waits for it."""
    foreign, expected = os.getppid(), ALLOWED if rules.may_signal else "EPERM"
    if foreign > 0:
        yield _row("signal 0 to the parent process", expected, _try(os.kill, foreign, 0))
        if not rules.may_signal:
            yield _row("SIGURG to the parent process", expected, _try(os.kill, foreign, signal.SIGURG))
        if sys.platform.startswith("linux"):
            yield _row("signal 0 to the parent process by pidfd", expected, _try(_signal_by_pidfd, foreign))
    yield _row("signal 0 to itself", ALLOWED, _try(os.kill, os.getpid(), 0))


def _signal_by_pidfd(pid: int) -> None:
    fd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(fd, 0)
    finally:
        os.close(fd)


def _programs(rules: sandbox.Rules, call: landlock.Kernel, column: int) -> Iterator[Row]:
    """Arguments at an impossible address: the kernel opens the program, then gives up."""
    allowed = _places(rules.execute)
    for path in dict.fromkeys(["/bin/sh", "/usr/bin/env", sys.executable, *allowed]):
        if not os.path.isfile(path):
            continue
        _, number = call(_EXECVE[column], os.fsencode(path) + b"\0", -1, 0)
        expected = ALLOWED if _within(os.path.realpath(path), allowed) else REFUSED
        yield _row(f"execute {path}", expected, ALLOWED if number == errno.EFAULT else _name(number))


def _child(rules: sandbox.Rules, call: landlock.Kernel, column: int) -> list[Row]:
    """A child has the same limits; it may be signalled."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answers = [_open("/etc/passwd"), _ask(call, column, "socket", 2, _STREAM, 0)]
            os.write(theirs, " ".join(answers).encode())
            signal.pause()
        finally:
            os._exit(70)
    try:
        os.close(theirs)
        answers = os.read(ours, 256).decode().split()
        killed = _try(os.kill, pid, signal.SIGKILL)
    finally:
        os.close(ours)
        os.waitpid(pid, 0)
    reading = ALLOWED if _within("/etc/passwd", _places([*rules.read, *rules.write])) else REFUSED
    return [
        _row("in a child process: read /etc/passwd", reading, answers[0]),
        _row("in a child process: a TCP socket", REFUSED, answers[1]),
        _row("signal a child process", ALLOWED, killed),
    ]


# --- system calls
# --------------------------------------------------------------------------------------------


def _ask(call: landlock.Kernel, column: int, name: str, *arguments: Any) -> str:
    number = seccomp.number(seccomp.REFUSED.get(name) or seccomp.CONDITIONAL[name], column)
    result, error = call(number, *arguments)
    return ALLOWED if result >= 0 else _name(error)


def _network(call: landlock.Kernel, column: int) -> Iterator[Row]:
    def socket(family: int, kind: int, protocol: int) -> str:
        number = seccomp.number(seccomp.REFUSED["socket"], column)
        result, error = call(number, family, kind | os.O_CLOEXEC, protocol)
        if result < 0:
            return _name(error)
        os.close(result)
        return ALLOWED

    for name, *numbers in _SOCKETS:
        yield _row(f"socket: {name}", REFUSED, socket(*numbers))
    # Where nothing refuses it, asking for a rare family would make the kernel load its module.
    refused = socket(2, _STREAM, 6) == REFUSED
    for kind in (_STREAM, _DATAGRAM, _RAW):
        answers = {socket(family, kind, 0) for family in range(_FAMILIES)} if refused else {"not tried"}
        yield _row(f"socket: every family below {_FAMILIES}, type {kind}", REFUSED, " ".join(sorted(answers)))
    address = bytes((2, 0, 0, 9, 127, 0, 0, 1)) + bytes(8)
    for name, flags in (("an address", 0), ("TCP Fast Open", _FAST_OPEN)):
        answer = _ask(call, column, "sendto", -1, b"x", 1, flags, address, len(address))
        yield _row(f"sendto with {name}", REFUSED, answer)
    pair = b"\xff" * 8
    result, error = call(_SOCKETPAIR[column], 1, _STREAM | os.O_CLOEXEC, 0, pair)
    if result == 0:
        os.close(int.from_bytes(pair[:4], "little"))
        os.close(int.from_bytes(pair[4:], "little"))
    yield _row("socketpair", ALLOWED, ALLOWED if result == 0 else _name(error))


def _calls(call: landlock.Kernel, column: int) -> Iterator[Row]:
    for name, found in seccomp.REFUSED.items():
        if seccomp.number(found, column) is not None:
            arguments = _SHARED.get(name, (-1,) * 6)
            yield _row(f"system call {name}", REFUSED, _ask(call, column, name, *arguments))
    # Two flags that exclude each other: without the filter EINVAL, and no process.
    yield _row("system call clone, new namespace", REFUSED, _ask(call, column, "clone", 0x20200, 0, 0, 0, 0))
    yield _row("system call clone3", "ENOSYS", _ask(call, column, "clone3", 0, 0))
    yield _row("system call prlimit64, another process", REFUSED,
               _ask(call, column, "prlimit64", os.getppid() or 1, 4, 0, 0))
    for name, command in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("FS_IOC_SETFLAGS", 0x40086602)):
        yield _row(f"system call ioctl, {name}", REFUSED, _ask(call, column, "ioctl", -1, command, 0))
    if column == 0:
        error = call(0x40000000 + 39)[1]
        yield _row("system call getpid by the x32 table", REFUSED, _name(error))
