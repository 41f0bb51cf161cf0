"""Run another program (rg, qmd): found once, in the ledger before it exists, bounded, and never left behind.

The child gets its own process group, a signal when its parent dies, default signals, no descriptor but its three
pipes, and an environment of a few named variables. It works under the sandbox of its parent, which it inherits.
"""

import contextlib
import errno
import fcntl
import os
import resource as limits
import select
import signal
import stat
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

from lspipe import ledger
from lspipe.exits import Bug, LspipeError, Precondition, Upstream
from lspipe.process import Child

#: What a child may know of our environment. Never RIPGREP_CONFIG_PATH, which can make rg run programs.
_KEPT = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ")
_NEVER = ("RIPGREP_CONFIG_PATH", "LD_", "DYLD_")
_INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: Bytes of memory that a child may have, unless its caller allows more: a file that is made for it can ask for all.
MEMORY = 2 << 30
#: Seconds to become another program.
_START = 10.0


def find_program(name: str, env_path: str | None = None, extra: Sequence[str] = ()) -> str:
    """The absolute path of program `name` in `env_path` (default: PATH), then in the folders `extra`.

    A folder that is relative or that anybody can write is passed over, and so is such a program. Precondition
    if nothing is left.
    """
    refused = None
    path = os.environ.get("PATH", os.defpath) if env_path is None else env_path
    for folder in [*path.split(os.pathsep), *extra]:
        program = os.path.join(folder, name)
        if not os.path.isfile(program) or not os.access(program, os.X_OK):
            continue
        if not os.path.isabs(folder):
            refused = f"'{ledger.text(program)}' is passed over: its folder in PATH is relative"
        elif _anybody_writes(program) or _anybody_writes(os.path.realpath(program)):
            refused = f"'{ledger.text(program)}' is passed over: anybody can change it"
        else:
            return program
    raise Precondition(f"cannot find the program '{name}'", refused or f"install {name}, or add it to PATH")


def _anybody_writes(program: str) -> bool:
    """Whether others can replace the file: by its own mode, its folder's, or that of a folder above."""
    if os.stat(program).st_mode & stat.S_IWOTH:
        return True
    folder = os.path.dirname(program)
    if os.stat(folder).st_mode & stat.S_IWOTH:
        return True
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        mode = os.stat(folder).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return True
    return False


def environment(run: ledger.Run, extra: Mapping[str, str]) -> dict[str, str]:
    """All that a child of `run` gets to know: language, time zone, a safe PATH, its temporary folder, `extra`."""
    known = {name: os.environ[name] for name in _KEPT if name in os.environ}
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    known["PATH"] = os.pathsep.join(f for f in folders if os.path.isabs(f) and not _open_folder(f))
    known["TMPDIR"] = run.tmp
    known.update({name: value for name, value in extra.items() if not name.startswith(_NEVER)})
    known[ledger.TOKEN] = run.token
    return known


def _open_folder(folder: str) -> bool:
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:
        return True


def spawn(run: ledger.Run, argv: Sequence[str], *, env: Mapping[str, str], stdin: bytes | None, purpose: str,
          cwd: str | None = None, memory: int = MEMORY) -> Child:
    """Start `argv` (an absolute program, see `find_program`) with `env` added to the few variables of
    `environment`, `stdin` as its input (None: the null device) and at most `memory` bytes for its data.

    Precondition if the ledger cannot be written or the program cannot be started: then nothing was.
    """
    import threading

    if not os.path.isabs(argv[0]):
        raise Bug("a program is started by its absolute path")
    if threading.current_thread() is not threading.main_thread():
        raise Bug("a child must be started from the main thread: its death signal follows the thread")
    variables = environment(run, env)
    row = run.add("child", purpose, command=ledger.command_line(argv), exe=argv[0])
    try:
        theirs, ours = _pipes(stdin is not None)
    except OSError as error:
        row.release()
        raise _cannot(argv[0], error.errno) from None
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # inherited; exit codes would be lost
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTING)
    try:
        pid = os.fork()
        if pid == 0:
            _become(row, argv, variables, cwd, theirs, memory)
        with contextlib.suppress(OSError):  # it may have become the other program already, having done so itself
            os.setpgid(pid, pid)
        child = Child(row, argv[0], pid, ours[:3], stdin)
        run.closing.append(child.stop)
    except OSError as error:
        _close(ours)
        row.release()
        raise _cannot(argv[0], error.errno) from None
    finally:
        _close(theirs)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        trouble = _hear(ours[3])
    finally:
        os.close(ours[3])
    if trouble is not None:
        child.stop()
        raise trouble if isinstance(trouble, LspipeError) else _cannot(argv[0], trouble)
    return child


def _cannot(program: str, number: int | None) -> Precondition:
    return Precondition(f"cannot start '{ledger.text(program)}': {os.strerror(number or errno.EIO)}")


def _pipes(feeding: bool) -> tuple[list[int], list[int]]:
    """The child's ends and ours: its standard input, output and error, and where it says that it failed."""
    theirs: list[int] = []
    ours: list[int] = []
    try:
        for number in range(4):
            if number == 0 and not feeding:
                theirs.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
                ours.append(-1)
                continue
            read, write = os.pipe()
            theirs.append(read if number == 0 else write)
            ours.append(write if number == 0 else read)
            os.set_blocking(ours[-1], number == 3)
    except OSError:
        _close(theirs + ours)
        raise
    return theirs, ours


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def _become(row: ledger.Resource, argv: Sequence[str], variables: Mapping[str, str], cwd: str | None,
            theirs: Sequence[int], memory: int) -> NoReturn:
    """In the child. The lock of the run is closed first: held here, it would make a dead owner look alive."""
    failed = theirs[3]
    try:
        # Out of the way of 0, 1 and 2 first: they were free if our own standard descriptors came closed.
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10) for descriptor in theirs]
        failed = high[3]
        for number in range(3):
            os.dup2(high[number], number)
        os.closerange(3, failed)
        os.closerange(failed + 1, os.sysconf("SC_OPEN_MAX"))
        row.enter(group=True)
        for number in signal.valid_signals():
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        limits.setrlimit(limits.RLIMIT_CORE, (0, 0))  # a crash must leave no file either
        _limit(limits.RLIMIT_DATA, memory)
        if cwd is not None:
            os.chdir(cwd)
        os.execve(argv[0], list(argv), dict(variables))
    except LspipeError as error:
        os.write(failed, b"ledger " + error.message.encode("utf-8", "replace")[:400])
    except OSError as error:
        os.write(failed, b"%d" % (error.errno or errno.EIO))
    except BaseException:  # whatever it is, the child must not go on as a second copy of its parent
        os.write(failed, b"%d" % errno.EIO)
    finally:
        os._exit(127)


def _limit(which: int, to: int) -> None:
    """Set a limit of this process, within what is allowed: the soft one here is that of our own process."""
    _soft, hard = limits.getrlimit(which)
    limits.setrlimit(which, (to if hard == limits.RLIM_INFINITY else min(hard, to), hard))


def _hear(descriptor: int) -> LspipeError | int | None:
    """What the child says before it becomes the other program: nothing, if all went well."""
    until = time.monotonic() + _START
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    said = b""
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        data = os.read(descriptor, 512)
        if not data:
            kind, _, message = said.partition(b" ")
            if kind == b"ledger":
                return Precondition(message.decode(), "make room, or set LSPIPE_STATE_HOME to another folder")
            return int(said) if said else None
        said += data
    return Upstream("a program did not start within 10 seconds")
