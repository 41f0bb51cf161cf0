"""Who a process is (pid, start ticks, boot, pidfs inode, pid namespace), and a hold that outlives its reuse.

A pid alone is reused within minutes on a busy machine, and a pid with its start time can be reused within one
10 ms tick. On Linux 6.9 and later the inode of a pidfd is unique for the whole boot; older kernels have none,
and there pid, boot and start ticks must do. Fields of /proc/<pid>/stat: proc_pid_stat(5).
"""

import contextlib
import functools
import os
import select
import signal
import sys
from typing import Any, NamedTuple

#: `recorded` as it was read back from a file.
Recorded = dict[str, Any]


class Facts(NamedTuple):
    """What the system says of a process now; ticks are since boot (on macOS microseconds since 1970)."""

    state: str
    ppid: int
    pgid: int
    start_ticks: int


@functools.cache
def boot_id() -> str | None:
    """The identity of this boot of this kernel, the same in all of its containers."""
    if sys.platform == "darwin":
        return _sysctl("kern.bootsessionuuid")
    return _first_line("/proc/sys/kernel/random/boot_id")


@functools.cache
def host_id() -> str:
    """16 hex digits, the same from boot to boot; a hash, because machine-id(5) is not to be shown."""
    import hashlib

    name = _first_line("/etc/machine-id") or os.uname().nodename
    return hashlib.sha256(b"lspipe host\0" + os.fsencode(name)).hexdigest()[:16]


@functools.cache
def pid_namespace() -> int | None:
    """The inode of our pid namespace; None where there is no such thing."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return None


def facts(pid: int) -> Facts:
    """The facts of process `pid`; ProcessLookupError if there is none, OSError if they may not be read."""
    if sys.platform == "darwin":
        return _mac_facts(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything
    return Facts(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[19]))


def recorded(pid: int) -> Recorded:
    """What is written down about a process, for `Process.differs` to compare with later.

    Start ticks are null where a sandbox hides /proc: the inode of the pidfd is proof enough then.
    """
    ticks = inode = group = None
    with contextlib.suppress(OSError):
        ticks = facts(pid).start_ticks
    with contextlib.suppress(OSError, AttributeError):
        descriptor = os.pidfd_open(pid)
        inode = _pidfs_inode(descriptor)
        os.close(descriptor)
    with contextlib.suppress(OSError):
        group = os.getpgid(pid)
    return {"pid": pid, "pgid": group, "start_ticks": ticks, "pidfs_ino": inode,
            "boot_id": boot_id(), "pidns": pid_namespace()}


def _pidfs_inode(descriptor: int) -> str | None:
    """The inode of a pidfd, as text (it may pass 2**53); None on kernels where all pidfds share one."""
    found = os.fstat(descriptor)
    return str(found.st_ino) if found.st_dev != _anonymous_device() else None


@functools.cache
def _anonymous_device() -> int:
    descriptor = os.eventfd(0)
    try:
        return os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)


class Process:
    """A hold on one process: what is read and sent through it never reaches a later process of the same pid.

    Raises ProcessLookupError if it is gone, another OSError where it cannot be held.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = -1 if sys.platform == "darwin" else os.pidfd_open(pid)
        try:
            self.facts = facts(pid)  # read after the hold was taken, believed if it has not ended since
            if self.ended():
                raise ProcessLookupError(pid)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """The pidfd, for poll; it becomes readable when the process ends."""
        return self._descriptor

    def ended(self) -> bool:
        """Whether it has ended, reaped by its parent or not."""
        if self._descriptor >= 0:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            return bool(poll.poll(0)) or self.facts.state == "Z"
        try:
            now = facts(self.pid)
        except ProcessLookupError:
            return True
        return now.state == "Z" or now.start_ticks != self.facts.start_ticks

    def differs(self, written: Recorded) -> str | None:
        """Why this is not the process that was written down; None if it is, by all that was written."""
        if written.get("boot_id") != boot_id():
            return "another boot"
        if written.get("pidns") != pid_namespace():
            return "other pid namespace"
        ticks, inode = written.get("start_ticks"), written.get("pidfs_ino")
        if ticks is None and inode is None:
            return "identity unknown"
        if ticks is not None and ticks != self.facts.start_ticks:
            return "identity differs"
        if inode is not None and (self._descriptor < 0 or inode != _pidfs_inode(self._descriptor)):
            return "identity differs"
        return None

    def send(self, number: int) -> None:
        """Signal it. ProcessLookupError if it has ended, PermissionError if it is not ours."""
        if self._descriptor >= 0:
            signal.pidfd_send_signal(self._descriptor, number)
        elif not self.ended():  # macOS has no pidfd: microseconds between the look and the signal
            os.kill(self.pid, number)

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def provably_gone(written: Recorded) -> bool:
    """Whether the process that was written down, on this host, is over; False also means "cannot tell"."""
    if written.get("boot_id") != boot_id():
        return written.get("boot_id") is not None
    if written.get("pidns") != pid_namespace() or not isinstance(written.get("pid"), int):
        return False
    try:
        process = Process(written["pid"])
    except ProcessLookupError:
        return True
    except OSError:
        return False
    try:
        return process.differs(written) == "identity differs"
    finally:
        process.close()


def namespace_depth(pid: int) -> int:
    """How many pid namespaces `pid` is in, counted from ours: 1 for a neighbour, more inside a container."""
    if sys.platform == "darwin":
        return 1
    with open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"NSpid:"):
                return len(line.split()) - 1
    return 1


def _first_line(path: str) -> str | None:
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return file.readline().strip() or None
    return None


def _mac_facts(pid: int) -> Facts:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            state = "Z" if process.status() == psutil.STATUS_ZOMBIE else "S"
            return Facts(state, process.ppid(), os.getpgid(pid), round(process.create_time() * 1e6))
    except psutil.NoSuchProcess:
        raise ProcessLookupError(pid) from None
    except psutil.AccessDenied:
        raise PermissionError(pid) from None


def _sysctl(name: str) -> str | None:
    import ctypes

    value = ctypes.create_string_buffer(128)
    size = ctypes.c_size_t(len(value))
    failed = ctypes.CDLL(None).sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0)
    return None if failed else value.value.decode("ascii", "replace")
