"""The sandbox on the real kernel: what stays possible, what is refused, and what an older kernel would refuse.

Each test forks a child that locks itself down, does something and says what came of it.
"""

import asyncio
import ctypes
import errno
import fcntl
import mmap
import os
import pickle
import pty
import re
import resource
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lspipe import landlock, ledger, sandbox, seccomp
from lspipe.exits import Bug
from lspipe.sandbox import Rules, State, lock_down

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Landlock and seccomp are of Linux")
ABI = landlock.version(sandbox.library()[0]) if sys.platform.startswith("linux") else 0
landlocked = pytest.mark.skipif(not ABI, reason="this kernel has no Landlock")
filtered = pytest.mark.skipif(
    not sys.platform.startswith("linux") or seccomp.architecture() is None, reason="no table of system calls")
scoped = pytest.mark.skipif(ABI < 6, reason="this kernel's Landlock does not limit signals")


def forked(work: Callable[..., Any], *arguments: Any) -> Any:
    """What `work` returns in a child; ("signal", N) where one killed it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as stream:
                stream.write(pickle.dumps(work(*arguments)))
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(70)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "signal", os.WTERMSIG(status)
    assert status == 0, f"the child ended with {os.waitstatus_to_exitcode(status)}"
    return pickle.loads(said)


def locked(rules: Rules, work: Callable[..., Any], *arguments: Any, **how: Any) -> Any:
    """What `work` returns in a child that locked itself down with `rules`."""
    def both() -> Any:
        lock_down(rules, **how)
        return work(*arguments)

    return forked(both)


def answer(action: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """What the kernel says: "allowed", or the name of an error."""
    try:
        action(*arguments, **options)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "allowed"


def answers(*tries: tuple[Any, ...]) -> list[str]:
    return [answer(*one) for one in tries]


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A browser's profile; only its History is granted by these tests."""
    folder = tmp_path / "profile"
    folder.mkdir()
    for name in ("History", "Cookies", "Login Data"):
        (folder / name).write_text(f"secret of {name}")
    return folder


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """`<state>/run/1-a`, with `tmp` in it, and a neighbour `2-b`."""
    for path in ("state/run/1-a/tmp", "state/run/2-b"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "state/run/2-b/lock").write_text("theirs")
    return tmp_path / "state/run/1-a"


# --- reading -------------------------------------------------------------------------------------------------


@landlocked
def test_a_granted_file_is_readable_and_what_lies_beside_it_is_not(profile: Path) -> None:
    def work() -> list[str]:
        return [(profile / "History").read_text()] + answers(
            ((profile / "Cookies").read_text,), ((profile / "Login Data").read_text,), (os.listdir, profile),
            (os.listdir, profile.parent), ((profile / "History").write_text, ""), (os.open, profile, os.O_RDONLY))

    assert locked(Rules(read=(str(profile / "History"),)), work) == ["secret of History"] + ["EACCES"] * 6


@landlocked
def test_a_granted_folder_is_readable_with_all_below_it_and_nothing_above(tmp_path: Path) -> None:
    (tmp_path / "notes/deep").mkdir(parents=True)
    (tmp_path / "notes/deep/one").write_text("1")
    (tmp_path / "outside").write_text("2")
    (tmp_path / "notes/link").symlink_to(tmp_path / "outside")

    def work() -> list[Any]:
        notes = tmp_path / "notes"
        return [os.listdir(notes / "deep"), (notes / "deep/one").read_text(), *answers(
            ((notes / "link").read_text,), ((notes / ".." / "outside").read_text,),
            (Path(f"/proc/self/root{tmp_path}/outside").read_text,), (os.listdir, tmp_path),
            ((notes / "new").write_text, ""), ((notes / "deep/one").unlink,), (os.mkdir, notes / "new"),
            (os.rename, notes / "deep/one", notes / "two"), (os.link, notes / "deep/one", notes / "two"))]

    said = locked(Rules(read=(str(tmp_path / "notes"),)), work)
    assert said[:2] == [["one"], "1"]
    assert set(said[2:]) <= {"EACCES", "EXDEV"} and said[2:5] == ["EACCES"] * 3
    assert sorted(os.listdir(tmp_path / "notes")) == ["deep", "link"]


@landlocked
@pytest.mark.parametrize("name", ["descriptor", "magic link"])
def test_a_grant_by_descriptor_holds_whatever_takes_the_path(profile: Path, name: str) -> None:
    history = profile / "History"
    fd = os.open(history, os.O_PATH)
    history.rename(profile / "moved")
    history.symlink_to(profile / "Cookies")
    place = fd if name == "descriptor" else f"/proc/self/fd/{fd}"

    def work() -> list[str]:
        return [(profile / "moved").read_text(), answer(history.read_text)]

    assert locked(Rules(read=(place,)), work) == ["secret of History", "EACCES"]
    os.close(fd)


@landlocked
def test_a_file_made_later_at_a_granted_path_is_another_file(profile: Path) -> None:
    granted = os.open(profile / "History", os.O_PATH)
    (profile / "new").write_text("swapped in")
    os.replace(profile / "new", profile / "History")
    assert locked(Rules(read=(granted,)), answer, (profile / "History").read_text) == "EACCES"
    os.close(granted)


@landlocked
def test_a_link_that_is_swapped_all_the_time_never_leads_outside(tmp_path: Path) -> None:
    for name in ("granted", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    link, new = tmp_path / "granted/link", tmp_path / "granted/new"
    link.symlink_to(tmp_path / "granted")
    swapper = os.fork()
    if swapper == 0:
        while True:
            for name in ("outside", "granted"):
                os.symlink(tmp_path / name, new)
                os.replace(new, link)

    def work() -> dict[str, int]:
        said: dict[str, int] = {}
        while sum(said.values()) < 5000 or len(said) < 2:
            try:
                text = (link / "file").read_text()
            except OSError as error:
                text = errno.errorcode[error.errno]
            said[text] = said.get(text, 0) + 1
        return said

    try:
        assert set(locked(Rules(read=(str(tmp_path / "granted"),)), work)) == {"granted", "EACCES"}
    finally:
        os.kill(swapper, signal.SIGKILL)
        os.waitpid(swapper, 0)


@landlocked
def test_what_does_not_exist_grants_nothing_and_is_no_error(tmp_path: Path) -> None:
    rules = Rules(read=(str(tmp_path / "absent"),), write=(str(tmp_path / "absent"),))
    assert locked(rules, answer, os.listdir, tmp_path) == "EACCES"


@landlocked
def test_open_descriptors_keep_working(profile: Path) -> None:
    with open(profile / "Cookies") as reading, open(profile / "made", "w") as writing:
        def work() -> list[str]:
            writing.write("late")
            writing.flush()
            reopened = answer(os.open, f"/proc/self/fd/{reading.fileno()}", os.O_RDONLY)
            return [reading.read(), reopened, answer(os.open, f"/dev/fd/{writing.fileno()}", os.O_WRONLY)]

        assert locked(Rules(), work) == ["secret of Cookies", "EACCES", "EACCES"]
    assert (profile / "made").read_text() == "late"


@landlocked
@pytest.mark.parametrize("path", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_a_pipe_can_be_opened_by_the_name_of_its_descriptor(path: str) -> None:
    """What bash's `<(...)` gives; before lock-down it is a file like any other."""
    reader, writer = os.pipe()
    os.write(writer, b"rows")

    def work() -> bytes:
        return os.read(os.open(path.format(reader), os.O_RDONLY | os.O_NONBLOCK), 9)

    assert locked(Rules(), work) == b"rows"
    os.close(reader)
    os.close(writer)


# --- writing -------------------------------------------------------------------------------------------------


@landlocked
def test_the_own_run_directory_is_fully_writable(run_dir: Path) -> None:
    def work() -> list[str]:
        (run_dir / "1.json.new").write_text("{}")
        (run_dir / "1.json.new").rename(run_dir / "1.json")
        (run_dir / "tmp/snapshot").write_text("x" * 100)
        os.truncate(fd := os.open(run_dir / "tmp/snapshot", os.O_RDWR), 10)
        os.close(fd)
        (run_dir / "tmp/deep/er").mkdir(parents=True)
        (run_dir / "tmp/snapshot").rename(run_dir / "tmp/deep/er/snapshot")
        (run_dir / "tmp/deep").rename(run_dir / "deep")
        found = [str(path.relative_to(run_dir)) for path in sorted(run_dir.rglob("*")) if path.is_file()]
        shutil.rmtree(run_dir / "deep")
        (run_dir / "1.json").unlink()
        (run_dir / "tmp").rmdir()
        return found + os.listdir(run_dir)

    rules = Rules(write=(str(run_dir),))
    assert locked(rules, work) == ["1.json", "deep/er/snapshot"]


@landlocked
def test_sqlite_works_in_the_own_run_directory(run_dir: Path) -> None:
    def work() -> list[Any]:
        with sqlite3.connect(run_dir / "tmp/file.db") as db:
            db.execute("create table t (a)")
            db.executemany("insert into t values (?)", [(n,) for n in range(5000)])
        db.execute("vacuum")
        return [db.execute("select count(*), sum(a) from t").fetchone(), os.listdir(run_dir / "tmp")]

    assert locked(Rules(write=(str(run_dir),)), work) == [(5000, 12497500), ["file.db"]]


@landlocked
def test_no_links_devices_fifos_or_sockets_are_made_even_there(run_dir: Path) -> None:
    def work() -> list[str]:
        return answers((os.symlink, "/", run_dir / "link"), (os.mkfifo, run_dir / "fifo"),
                       (os.mknod, run_dir / "device", 0o020600, os.makedev(1, 3)))

    assert set(locked(Rules(write=(str(run_dir),)), work)) <= {"EACCES", "EPERM"}
    assert os.listdir(run_dir) == ["tmp"]


@landlocked
def test_in_the_folder_of_runs_only_folders_come_and_go(run_dir: Path) -> None:
    runs, theirs = run_dir.parent, run_dir.parent / "2-b"

    def work() -> list[str]:
        said = answers(
            ((runs / "file").write_text, ""), (os.listdir, runs), ((theirs / "lock").read_text,),
            ((theirs / "lock").unlink,), ((theirs / "lock").write_text, ""), (shutil.rmtree, theirs),
            (os.rename, theirs / "lock", run_dir / "lock"), (os.rename, run_dir / "tmp", theirs / "tmp"))
        os.mkdir(runs / ".new-3-c")
        (run_dir / "tmp/left").write_text("")
        run_dir.rename(runs / ".old-1-a")
        (runs / ".old-1-a/tmp/left").unlink()
        (runs / ".old-1-a/tmp").rmdir()
        (runs / ".old-1-a").rmdir()
        return said

    said = locked(Rules(write=(str(run_dir),), entries=(str(runs),)), work)
    assert set(said) <= {"EACCES", "EXDEV"}, said
    assert sorted(os.listdir(runs)) == [".new-3-c", "2-b"]
    assert (theirs / "lock").read_text() == "theirs"


@landlocked
def test_a_run_leaves_the_ledger_from_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "state"))

    def work() -> list[str]:
        run = ledger.register("ls-x", [], "test")
        lock_down(Rules(read=sandbox.program_paths(), write=(run.path,), entries=(os.path.dirname(run.path),)))
        run.add("snapshot", "test").live()
        Path(run.tmp, "file").write_text("x")
        run.close()
        return []

    assert forked(work) == []
    assert os.listdir(tmp_path / "state/run") == []


@landlocked
def test_the_null_device_can_be_written_and_other_devices_cannot() -> None:
    def work() -> list[str]:
        with open("/dev/null", "r+b") as null:
            null.write(b"x")
        return [answer(os.open, name, os.O_RDWR | os.O_NONBLOCK) for name in ("/dev/zero", "/dev/tty", "/dev/ptmx")]

    assert set(locked(Rules(), work)) <= {"EACCES", "ENXIO"}


def change(path: Path) -> list[str]:
    """Everything that changes an own file without opening it for writing."""
    reading = os.open(path, os.O_RDONLY)
    said = answers(
        (os.chmod, path, 0o600), (os.fchmod, reading, 0o600), (os.utime, path, (1, 1)), (os.utime, reading, (1, 1)),
        (os.chown, path, os.getuid(), os.getgid()), (os.fchown, reading, os.getuid(), os.getgid()),
        (os.lchown, path, os.getuid(), os.getgid()), (os.truncate, path, 0))
    if hasattr(os, "setxattr"):
        said += answers((os.setxattr, path, "user.x", b"1"), (os.setxattr, reading, "user.x", b"1"),
                        (os.removexattr, path, "user.x"), (os.getxattr, path, "user.x"), (os.listxattr, path))
    os.close(reading)
    return said


@landlocked
@filtered
def test_mode_times_owner_size_and_attributes_of_a_readable_file_stay(profile: Path) -> None:
    path = profile / "History"
    path.chmod(0o640)
    before = path.stat()
    assert set(locked(Rules(read=(str(profile),)), change, path)) == {"EACCES"}
    after = path.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns, after.st_size) == (
        before.st_mode, before.st_mtime_ns, before.st_ctime_ns, before.st_size)


@landlocked
def test_landlock_alone_would_let_them_change(profile: Path) -> None:
    """Why the filter refuses them: if the kernel comes to do it, the filter may lose them."""
    said = locked(Rules(read=(str(profile),)), change, profile / "History", filtered=False)
    assert said[:4] == ["allowed"] * 4


@landlocked
@filtered
@pytest.mark.parametrize("abi", [1, 2, 3, 99])
def test_a_readable_file_is_not_truncated_by_opening_it(profile: Path, abi: int) -> None:
    def work() -> list[str]:
        history = profile / "History"
        return [*answers((os.open, history, os.O_RDONLY | os.O_TRUNC), (os.open, history, os.O_WRONLY),
                         (os.open, history, os.O_RDWR | os.O_TRUNC), (os.truncate, history, 0)),
                history.read_text()]

    assert locked(Rules(read=(str(profile),)), work, abi=abi) == ["EACCES"] * 4 + ["secret of History"]


@landlocked
@filtered
def test_names_of_files_that_come_and_go_elsewhere_cannot_be_watched(profile: Path) -> None:
    library = ctypes.CDLL(None, use_errno=True)

    def work() -> list[int]:
        fd = library.inotify_init1(os.O_CLOEXEC)
        return [library.inotify_add_watch(fd, os.fsencode(profile), 0x100), ctypes.get_errno()]

    assert locked(Rules(), work, filtered=False)[0] == 1, "Landlock guards it now: the filter may lose it"
    assert locked(Rules(), work) == [-1, errno.EACCES]


# --- sockets -------------------------------------------------------------------------------------------------

FAMILIES = [(name, getattr(socket, name)) for name in dir(socket) if re.fullmatch(r"[AP]F_[A-Z]\w+", name)]


@filtered
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET])
def test_no_new_socket_of_any_family(kind: int) -> None:
    assert len(FAMILIES) > 5
    assert set(locked(Rules(), answers, *((socket.socket, family, kind) for _, family in FAMILIES))) == {"EACCES"}


@filtered
@pytest.mark.parametrize("protocol", [0, 6, 132, 262], ids=["TCP", "TCP", "SCTP", "MPTCP"])
def test_no_new_stream_socket_of_any_protocol(protocol: int) -> None:
    assert locked(Rules(), answer, socket.socket, socket.AF_INET, socket.SOCK_STREAM, protocol) == "EACCES"


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[dict[str, socket.socket]]:
    """Somebody who would hear it: TCP, UDP, a Unix path and an abstract name."""
    found = {
        "tcp": socket.create_server(("127.0.0.1", 0)), "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "path": socket.socket(socket.AF_UNIX), "abstract": socket.socket(socket.AF_UNIX),
    }
    found["udp"].bind(("127.0.0.1", 0))
    os.chdir(tmp_path)  # A path of a socket may not be long.
    found["path"].bind("listener")
    found["abstract"].bind(f"\0lspipe-{os.urandom(8).hex()}")
    found["path"].listen()
    found["abstract"].listen()
    yield found
    for one in found.values():
        one.close()


@filtered
@pytest.mark.parametrize("abi", [0, 99])
def test_sockets_that_came_unconnected_reach_nobody(listeners: dict[str, socket.socket], abi: int) -> None:
    tcp, fast, udp, path, abstract, server = (
        socket.socket(), socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX), socket.create_server(("127.0.0.1", 0)))
    to = {name: one.getsockname() for name, one in listeners.items()}
    fast_open = getattr(socket, "MSG_FASTOPEN", 0x20000000)

    def work() -> list[str]:
        return answers(
            (tcp.connect, to["tcp"]), (fast.sendto, b"x", fast_open, to["tcp"]), (udp.sendto, b"x", to["udp"]),
            (udp.connect, to["udp"]), (udp.sendmsg, [b"x"], [], 0, to["udp"]), (path.connect, "listener"),
            (abstract.connect, to["abstract"]), (tcp.bind, ("127.0.0.1", 0)), (tcp.listen,), (server.accept,))

    assert set(locked(Rules(), work, abi=abi)) == {"EACCES"}
    ready, _, _ = select.select(list(listeners.values()), [], [], 0)
    assert not ready, "somebody heard it"
    for one in (tcp, fast, udp, path, abstract, server):
        one.close()


@filtered
def test_a_connected_socket_works_on_and_cannot_be_turned_elsewhere(listeners: dict[str, socket.socket]) -> None:
    client = socket.create_connection(listeners["tcp"].getsockname())
    peer, _ = listeners["tcp"].accept()
    library = ctypes.CDLL(None, use_errno=True)

    def work() -> list[Any]:
        client.sendall(b"question")
        said: list[Any] = [client.recv(9), client.getpeername() == listeners["tcp"].getsockname()]
        said.append(answer(client.connect, listeners["tcp"].getsockname()))
        said += [library.connect(client.fileno(), bytes(16), 16), errno.errorcode[ctypes.get_errno()]]
        return said

    peer.sendall(b"answer")
    assert locked(Rules(), work) == [b"answer", True, "EACCES", -1, "EACCES"]
    assert peer.recv(9) == b"question"
    client.close()
    peer.close()


@landlocked
@filtered
def test_socketpairs_threads_and_asyncio_work(tmp_path: Path) -> None:
    def work() -> list[Any]:
        one, other = socket.socketpair()
        one.sendall(b"x")
        thread = threading.Thread(target=other.recv, args=(1,))
        thread.start()
        thread.join()

        async def main() -> int:
            return await asyncio.get_running_loop().run_in_executor(None, lambda: 42)

        try:
            socket.getaddrinfo("localhost", 80)
        except OSError:
            return [asyncio.run(main())]
        return ["resolved"]

    assert locked(Rules(read=sandbox.program_paths()), work) == [42]


# --- processes -----------------------------------------------------------------------------------------------


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of ours that was there before."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def reach(pid: int) -> list[str]:
    fd = os.pidfd_open(pid)
    library = ctypes.CDLL(None, use_errno=True)

    def queue() -> None:
        if library.sigqueue(pid, signal.SIGKILL, None) < 0:
            raise OSError(ctypes.get_errno(), "")

    said = answers((os.kill, pid, 0), (os.kill, pid, signal.SIGTERM), (os.killpg, pid, signal.SIGKILL),
                   (signal.pidfd_send_signal, fd, signal.SIGKILL), (queue,), (os.kill, os.getppid(), 0))
    os.close(fd)
    return said


@scoped
def test_nothing_is_signalled_that_was_there_before(stranger: "subprocess.Popen[bytes]") -> None:
    assert locked(Rules(), reach, stranger.pid) == ["EPERM"] * 6
    assert stranger.poll() is None


@linux
def test_rules_may_allow_signals(stranger: "subprocess.Popen[bytes]") -> None:
    assert locked(Rules(may_signal=True), answer, os.kill, stranger.pid, signal.SIGKILL) == "allowed"
    assert stranger.wait() == -signal.SIGKILL


@linux
def test_what_it_started_can_be_signalled_and_so_can_it_itself() -> None:
    def work() -> list[int]:
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            signal.pause()
        with_group = answer(os.setpgid, pid, pid)
        os.killpg(pid, signal.SIGTERM)
        seen: list[int] = []
        signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
        os.kill(os.getpid(), signal.SIGUSR1)
        return [os.waitpid(pid, 0)[1], *seen, with_group == "allowed"]

    assert locked(Rules(), work) == [signal.SIGTERM, signal.SIGUSR1, True]


@linux
def test_it_can_end_itself_by_a_signal() -> None:
    assert locked(Rules(), lambda: os.kill(os.getpid(), signal.SIGTERM)) == ("signal", signal.SIGTERM)


@filtered
def test_other_processes_cannot_be_read_traced_or_limited(stranger: "subprocess.Popen[bytes]") -> None:
    library = ctypes.CDLL(None, use_errno=True)

    def work() -> list[Any]:
        said: list[Any] = answers(
            (resource.prlimit, stranger.pid, resource.RLIMIT_CPU, (1, 1)),
            (Path(f"/proc/{stranger.pid}/environ").read_bytes,), (Path(f"/proc/{stranger.pid}/cmdline").read_bytes,))
        for call in (lambda: library.ptrace(16, stranger.pid, None, None),
                     lambda: library.process_vm_readv(stranger.pid, None, 0, None, 0, 0)):
            call()
            said.append(errno.errorcode[ctypes.get_errno()])
        return said

    said = locked(Rules(), work)
    assert said == ["EACCES"] * 5
    assert resource.prlimit(stranger.pid, resource.RLIMIT_CPU)[0] != 1


@landlocked
def test_with_proc_granted_other_processes_show_their_state_and_not_their_environment(
    stranger: "subprocess.Popen[bytes]",
) -> None:
    """What a reaper can learn after lock-down: Landlock counts the environment as tracing."""
    folder = Path(f"/proc/{stranger.pid}")

    def work() -> list[str]:
        return answers(*((folder.joinpath(name).read_bytes,) for name in ("stat", "cmdline", "environ")))

    assert locked(Rules(read=("/proc",), may_signal=True), work) == ["allowed", "allowed", "EACCES"]


@filtered
def test_nothing_is_typed_into_the_terminal() -> None:
    """Where TIOCSTI works, the shell would run what is typed once we have ended, outside of any sandbox."""
    main, terminal = pty.openpty()

    def work() -> list[str]:
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        lock_down(Rules(read=("/",)))
        return answers((termios.tcgetattr, terminal), (os.get_terminal_size, terminal), (os.isatty, terminal),
                       (fcntl.ioctl, terminal, termios.TIOCSTI, b"x"), (fcntl.ioctl, terminal, 0x541C, b"\2"))

    assert forked(work) == ["allowed"] * 3 + ["EACCES"] * 2
    os.close(main)
    os.close(terminal)


@linux
def test_own_limits_can_be_set() -> None:
    def work() -> tuple[int, int]:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        return resource.getrlimit(resource.RLIMIT_CORE)

    assert locked(Rules(), work) == (0, 0)


@filtered
def test_calls_through_the_32_bit_table_are_refused() -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("no 32-bit table that this test knows")
    code = bytes.fromhex("b814000000 cd80 4898 c3")  # eax = 20, getpid of i386; int 0x80; sign; return

    def work() -> int:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        return int(ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())

    plain = locked(Rules(), work, filtered=False)
    if plain == ("signal", signal.SIGSEGV):
        pytest.skip("this kernel has no 32-bit system calls")
    assert plain > 0
    assert locked(Rules(), work) == -errno.EACCES


@filtered
def test_calls_through_the_x32_table_are_refused() -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("x32 is of x86-64")
    assert locked(Rules(), sandbox.library()[0], 0x40000000 + 39) == (-1, errno.EACCES)


@linux
@pytest.mark.root
def test_root_keeps_no_privilege_but_over_files() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has privileges")

    def capabilities() -> list[str]:
        with open(os.open("/proc/self/status", os.O_RDONLY)) as file:
            return re.findall(r"Cap(?:Inh|Prm|Eff|Amb):\t(\w+)", file.read())

    assert locked(Rules(read=("/proc",)), capabilities) == ["0" * 16] + ["0" * 15 + "6"] * 2 + ["0" * 16]


# --- children ------------------------------------------------------------------------------------------------


def output(*command: str, **options: Any) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    return done.returncode, done.stdout, done.stderr


def found(name: str) -> str:
    beside = os.path.join(os.path.dirname(sys.executable), name)
    path = beside if os.access(beside, os.X_OK) else shutil.which(name)
    return path or pytest.skip(f"there is no {name}")


@landlocked
@pytest.mark.parametrize("place", ["beside python", "system"])
def test_rg_finds_in_granted_folders_and_nowhere_else(tmp_path: Path, place: str) -> None:
    rg = found("rg") if place == "beside python" else shutil.which("rg", path="/usr/bin:/bin")
    if not rg:
        pytest.skip("the system has no rg")
    for name in ("granted", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("needle\n")
    rules = Rules(read=(*sandbox.program_paths(), str(tmp_path / "granted")), execute=(rg,))

    def work() -> list[Any]:
        return [output(rg, "--no-config", "--json", "-e", "needle", "--", str(tmp_path / name))
                for name in ("granted", "other")] + [answer(output, "/bin/sh", "-c", ":")]

    granted, other, shell = locked(rules, work)
    assert granted[0] == 0 and '"needle\\n"' in granted[1]
    assert other[0] == 2 and "needle" not in other[1] and "denied" in other[2]
    assert shell == "EACCES"


@landlocked
def test_node_runs_as_a_child_and_is_held_like_its_parent(tmp_path: Path) -> None:
    node = found("node")
    (tmp_path / "granted").write_text("granted")
    (tmp_path / "other").write_text("other")
    script = f"""
        const fs = require('fs'), net = require('net'), child = require('child_process');
        const said = [fs.readFileSync({str(tmp_path / 'granted')!r}, 'utf8')];
        try {{ fs.readFileSync({str(tmp_path / 'other')!r}) }} catch (e) {{ said.push(e.code) }}
        try {{ fs.watch({str(tmp_path)!r}) }} catch (e) {{ said.push(e.code) }}
        said.push(child.spawnSync(process.execPath, ['-e', 'console.log(6 * 7)']).stdout.toString().trim());
        require('crypto').randomBytes(8, () => net.connect(9, '127.0.0.1').on('error', e => {{
            said.push(e.code);
            const worker = new (require('worker_threads').Worker)(
                'require("worker_threads").parentPort.postMessage(1)', {{eval: true}});
            worker.on('message', m => {{ said.push(m); console.log(JSON.stringify(said)) }});
        }}));
    """
    rules = Rules(read=(*sandbox.program_paths(), str(tmp_path / "granted"), "/etc/ssl"), execute=(node,))
    code, out, err = locked(rules, lambda: output(node, "-e", script))
    assert (code, out, err) == (0, '["granted","EACCES","EACCES","42","EACCES",1]\n', "")


@landlocked
def test_python_runs_as_a_child(tmp_path: Path) -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(42)']); open('/etc/passwd')"
    rules = Rules(read=sandbox.program_paths(), execute=(sys.executable,))
    code, out, err = locked(rules, lambda: output(sys.executable, "-c", script))
    assert (code, out) == (1, "42\n") and err.endswith("PermissionError: [Errno 13] Permission denied: "
                                                       "'/etc/passwd'\n"), err


LATE = """
import sys
sys.path.insert(0, sys.argv[1])
import click, orjson
from lspipe import sandbox
state = sandbox.lock_down(sandbox.Rules(read=sandbox.program_paths()))
import sqlite3, encodings.idna, zoneinfo, datetime, ssl, jsonschema, jsonschema_rs, psutil, websockets.sync.client
import more_itertools, lspipe.schema
sqlite3.connect(":memory:").execute("select 1")
zoneinfo.ZoneInfo("Europe/Berlin")
lspipe.schema.checker("row")
datetime.datetime(2026, 7, 1).astimezone()
for path in sys.argv[2:]:
    try:
        open(path)
    except PermissionError:
        print("refused")
"""


@landlocked
def test_late_imports_work_and_the_home_of_the_interpreter_is_not_granted(tmp_path: Path) -> None:
    import click

    home = tmp_path / "home"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", home / ".venv"], check=True)
    (home / "secret").write_text("")
    (home / ".venv/secret").write_text("")
    site = os.path.dirname(os.path.dirname(os.path.abspath(click.__file__)))
    packages = next((home / ".venv").glob("lib/python*/site-packages"))
    (packages / "more.pth").write_text(site + "\n")
    root = str(Path(sandbox.__file__).parent.parent)
    done = subprocess.run(
        [home / ".venv/bin/python", "-c", LATE, root, home / "secret", home / ".venv/secret", "/etc/passwd"],
        env={"HOME": str(home), "TZ": "America/New_York", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused\n" * 3, "")


def test_program_paths_never_hold_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path, "", str(tmp_path), str(tmp_path / "site-packages")])
    monkeypatch.setenv("HOME", str(tmp_path))
    paths = sandbox.program_paths()
    assert str(tmp_path / "lib") in paths and str(tmp_path / "site-packages") in paths
    assert str(tmp_path) not in paths and "/" not in paths and os.getcwd() not in paths
    monkeypatch.setenv("HOME", str(tmp_path / "site-packages/home"))
    assert str(tmp_path / "site-packages") not in sandbox.program_paths()
    assert all(os.path.isabs(path) for path in paths)


# --- what the kernel offers ----------------------------------------------------------------------------------

LADDER = [
    (0, False, ("none", "none", "none")), (0, True, ("none", "enforced", "none")),
    (1, False, ("partial", "none", "none")), (3, False, ("partial", "none", "none")),
    (4, False, ("partial", "partial", "none")), (6, False, ("partial", "partial", "enforced")),
    (1, True, ("enforced", "enforced", "none")), (5, True, ("enforced", "enforced", "none")),
    (6, True, ("enforced", "enforced", "enforced")), (99, True, ("enforced", "enforced", "enforced")),
]


@filtered
@pytest.mark.parametrize(("abi", "use", "expected"), LADDER)
def test_the_state_says_what_is_in_force(abi: int, use: bool, expected: tuple[str, str, str]) -> None:
    if min(abi, 7) > ABI:
        pytest.skip(f"this kernel's Landlock is ABI {ABI}")

    state = forked(lambda: lock_down(Rules(), abi=abi, filtered=use))
    assert state[:3] == expected
    assert state.abi == min(abi, ABI)
    assert ("seccomp" in state.detail) and ("no seccomp" in state.detail) is not use
    assert f"ABI {state.abi}" in state.detail or state.abi == 0


@linux
def test_signals_by_the_rules_are_said() -> None:
    state = forked(lambda: lock_down(Rules(may_signal=True)))
    assert state.signal == "none" and "allowed by the rules" in state.detail


@landlocked
def test_lock_down_can_be_repeated_and_only_narrows(profile: Path) -> None:
    def work() -> list[str]:
        lock_down(Rules(read=(str(profile / "History"), "/etc")))
        return answers(((profile / "History").read_text,), ((profile / "Cookies").read_text,), (os.listdir, "/etc"))

    assert locked(Rules(read=(str(profile),)), work) == ["allowed", "EACCES", "EACCES"]


@landlocked
def test_more_layers_than_the_kernel_takes_are_reported_not_raised() -> None:
    said = forked(lambda: [lock_down(Rules(), filtered=False) for _ in range(20)][-1])
    assert said.fs == "none" and "landlock_restrict_self" in said.detail


@linux
def test_other_threads_are_a_bug() -> None:
    def work() -> str:
        wait = threading.Event()
        thread = threading.Thread(target=wait.wait)
        thread.start()
        try:
            lock_down(Rules(), abi=0, filtered=False)
        except Bug as error:
            return str(error)
        finally:
            wait.set()
            thread.join()
        return ""

    assert "2 threads" in forked(work)


def test_elsewhere_there_is_none_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert lock_down(Rules()) == State("none", "none", "none", 0, "no sandbox on darwin")


# --- the filter ----------------------------------------------------------------------------------------------

AUDIT = {0: 0xC000003E, 1: 0xC00000B7}
ALLOW, REFUSE, ABSENT = 0x7FFF0000, 0x0005000D, 0x00050026


def judge(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Run the filter as the kernel does."""
    data = struct.pack("<iIQ6Q", number, audit, 0, *arguments, *(0,) * (6 - len(arguments)))
    steps = list(struct.iter_unpack("<HBBI", program))
    place = accumulator = 0
    while True:
        code, then, otherwise, value = steps[place]
        place += 1
        if code == 0x20:
            accumulator, = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return int(value)
        else:
            true = {0x15: accumulator == value, 0x25: accumulator > value, 0x35: accumulator >= value,
                    0x45: bool(accumulator & value)}[code]
            place += then if true else otherwise


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("truncates", [False, True])
def test_the_filter_refuses_the_table_and_nothing_else(column: int, truncates: bool) -> None:
    program = seccomp.program(column, AUDIT[column], truncates)
    table = {seccomp.number(call, column): name for name, call in seccomp.REFUSED.items()}
    conditional = {seccomp.number(call, column): name for name, call in seccomp.CONDITIONAL.items()}
    for number in range(1024):
        said = judge(program, AUDIT[column], number)
        if number in table:
            assert said == REFUSE, table[number]
        elif conditional.get(number) == "clone3" or (truncates and conditional.get(number) == "openat2"):
            assert said == ABSENT
        elif conditional.get(number) == "ioctl":
            assert said == REFUSE
        else:
            assert said == ALLOW, number
    assert judge(program, AUDIT[1 - column], 39) == REFUSE
    assert judge(program, 0x40000003, 20) == REFUSE
    if column == 0:
        assert {judge(program, AUDIT[0], 0x40000000 + n) for n in range(600)} == {REFUSE}


CASES = [
    ("sendto", (5, 1, 1, 0, 0, 0), ALLOW), ("sendto", (5, 1, 1, 0, 1, 16), REFUSE),
    ("sendto", (5, 1, 1, 0, 1 << 32, 16), REFUSE), ("sendto", (5, 1, 1, 0x20000000, 0xFFFF << 33, 16), REFUSE),
    ("clone", (0x01200011,), ALLOW), ("clone", (0x3D0F00,), ALLOW), ("clone", (0x10000011,), REFUSE),
    ("clone", (0x40000011,), REFUSE), ("clone", (0x20011,), REFUSE), ("clone", (0x4000 | 17,), ALLOW),
    ("prlimit64", (0, 7), ALLOW), ("prlimit64", (1, 7), REFUSE), ("prlimit64", (0xFFFFFFFF, 7), REFUSE),
    ("ioctl", (0, 0x5401), ALLOW), ("ioctl", (0, 0x5413), ALLOW), ("ioctl", (0, 0x5421), ALLOW),
    ("ioctl", (0, 0x5451), ALLOW), ("ioctl", (0, 0x802C542A), ALLOW), ("ioctl", (0, 0x5412), REFUSE),
    ("ioctl", (0, (1 << 32) | 0x5412), REFUSE), ("ioctl", (0, 0x541C), REFUSE),
    ("ioctl", (0, 0x40086602), REFUSE), ("ioctl", (0, 0x401C5820), REFUSE), ("ioctl", (0, 0x8912), REFUSE),
    ("ioctl", (0, 0x40049409), REFUSE),
]


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize(("name", "arguments", "expected"), CASES)
def test_the_filter_looks_at_arguments(
    column: int, name: str, arguments: tuple[int, ...], expected: int
) -> None:
    number = seccomp.number(seccomp.CONDITIONAL[name], column)
    assert number is not None
    assert judge(seccomp.program(column, AUDIT[column], False), AUDIT[column], number, *arguments) == expected


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize(("flags", "expected"), [
    (os.O_RDONLY, ALLOW), (os.O_RDONLY | os.O_TRUNC, REFUSE), (os.O_RDONLY | os.O_TRUNC | os.O_CREAT, REFUSE),
    (os.O_WRONLY | os.O_TRUNC, ALLOW), (os.O_RDWR | os.O_TRUNC, ALLOW), (os.O_WRONLY, ALLOW),
])
def test_the_filter_refuses_truncation_by_opening(column: int, flags: int, expected: int) -> None:
    for name, place in (("open", 1), ("openat", 2)):
        number = seccomp.number(seccomp.CONDITIONAL[name], column)
        if number is not None:
            arguments = (0,) * place + (flags,)
            assert judge(seccomp.program(column, AUDIT[column], True), AUDIT[column], number, *arguments) == expected


@pytest.mark.parametrize(("column", "header"), [
    (0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")])
def test_the_numbers_are_those_of_the_systems_headers(column: int, header: str) -> None:
    places = [Path("/usr/include") / header, Path("/usr/include") / header.partition("/")[2]]
    text = next((place.read_text() for place in places if place.exists()), "")
    defined = {name.removeprefix("3264_"): int(number)
               for name, number in re.findall(r"#define __NR_?(\w+)\s+(\d+)\b", text)}
    defined = {name.lstrip("_"): number for name, number in defined.items()}
    if "socket" not in defined:
        pytest.skip(f"no header {header}")
    unknown = []
    for name, call in (seccomp.REFUSED | seccomp.CONDITIONAL).items():
        number = seccomp.number(call, column)
        if name not in defined:
            unknown.append(name)
            assert number is None or number > max(defined.values()), name
        else:
            assert number == defined[name], name
    assert len(unknown) < 30
