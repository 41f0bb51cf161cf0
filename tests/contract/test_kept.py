"""What lspipe keeps, consent and settings: whole after a kill at any write, a full disk and several writers at once."""

import errno
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest
import support
from support import Home

from lspipe import consent

STRACE = shutil.which("strace")
strace = pytest.mark.skipif(STRACE is None or sys.platform != "linux", reason="strace is missing")
#: Whatever touches the file, its successor, their lock or their folder.
CALLS = ("openat", "write", "fsync", "?rename,renameat,renameat2", "?unlink,unlinkat", "flock", "close", "read")
SETTINGS = b"[query]\nlimit = 3\n\n[show]\nas = \"tsv\"\n"
NAMES = ("consent.json", "consent.json.new", "consent.lock", "config.toml")


@pytest.fixture
def kept(bare: Home) -> Home:
    """Three folders, two of them granted, and settings."""
    for name in ("one", "two", "three"):
        (bare.home / name).mkdir()
    (bare.config / "config.toml").write_bytes(SETTINGS)
    (bare.config / "config.toml").chmod(0o600)
    reset(bare)
    return bare


def reset(home: Home) -> None:
    for name in ("consent.json.new", "consent.lock"):
        (home.config / name).unlink(missing_ok=True)
    home.consent(*({"family": "files", "path": str(home.home / name)} for name in ("one", "two")))


def granted(home: Home) -> list[str]:
    """The names of the granted folders, as the file itself says and as every executable reads it."""
    file = orjson.loads((home.config / "consent.json").read_bytes())
    assert file["v"] == 1
    names = [os.path.basename(grant["path"]) for grant in file["grants"]]
    assert names == [os.path.basename(grant.path) for grant in consent.load(str(home.config)).grants]
    assert (home.config / "config.toml").read_bytes() == SETTINGS
    return names


def injected(home: Home, calls: str, fault: str) -> list[str]:
    """strace, with a fault at calls on what is kept."""
    places = [home.config, *(home.config / name for name in NAMES)]
    return [str(STRACE), "-f", "-qq", "-o", os.devnull, *(word for place in places for word in ("-P", str(place))),
            "-e", "signal=none", "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"]


def revoke(home: Home, prefix: Sequence[str]) -> tuple[int, bytes]:
    done = subprocess.run([*prefix, *support.command("ls-consent", "revoke", str(home.home / "two"))], env=home.env(),
                          cwd=home.home, stdin=subprocess.DEVNULL, capture_output=True, timeout=support.PATIENCE)
    return done.returncode, done.stdout + done.stderr


def grant(home: Home, prefix: Sequence[str]) -> tuple[int, bytes]:
    """A person at a terminal of their own says yes."""
    command = [*prefix, *map(str, support.command("ls-consent", "grant", "files", str(home.home / "three")))]
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(home.home)
            os.execve(command[0], command, home.env())
        finally:
            os._exit(127)
    said, answered = b"", False
    until = time.monotonic() + support.PATIENCE
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            data = os.read(terminal, 1 << 16)
        except OSError as error:  # Its other end is closed.
            assert error.errno == errno.EIO
            break
        if not data:
            break
        said += data
        if b"[y/N]" in said and not answered:
            answered = True
            os.write(terminal, b"y\n")
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


CHANGES = {"revoke": (revoke, ["one"]), "grant": (grant, ["one", "two", "three"])}
changes = pytest.mark.parametrize(("change", "after"), CHANGES.values(), ids=CHANGES)
Change = Callable[[Home, Sequence[str]], tuple[int, bytes]]


@strace
@changes
def test_killed_at_any_call_it_is_the_old_or_the_new(
    change: Change, after: list[str], kept: Home, record_property: Callable[[str, object], None]
) -> None:
    deaths, survived = 0, []
    for calls in CALLS:
        for number in range(1, 30):
            reset(kept)
            code, said = change(kept, injected(kept, calls, f"signal=KILL:when={number}"))
            if code == 0:
                break
            assert code in (-signal.SIGKILL, 128 + signal.SIGKILL), said
            deaths += 1
            found = granted(kept)
            assert found in (["one", "two"], after), (calls, number)
            survived.append(found == after)
            # The next one goes through, whatever was left in its way, and leaves nothing more.
            assert change(kept, ())[0] == 0 or found == after
            assert granted(kept) == after
            assert set(os.listdir(kept.config)) == {"consent.json", "consent.lock", "config.toml"}
        else:
            raise AssertionError(f"{calls}: it never ended")
    assert kept.run("ls-clean", "--apply").code == 0 and kept.runs == []
    record_property("count", f"consent killed at {deaths} calls: {survived.count(False)} times the old file was there,"
                             f" {survived.count(True)} times the new one")
    assert deaths > 10 and True in survived and False in survived


@strace
@changes
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_leaves_the_old_file(change: Change, after: list[str], number: int, kept: Home) -> None:
    for calls in ("write", "fsync", "?rename,renameat,renameat2"):
        reset(kept)
        code, said = change(kept, injected(kept, calls, f"error={errno.errorcode[number]}:when=1"))
        assert code == 74, said
        assert re.search(rb"ls-consent: cannot write '.*consent\.json': ", said) and b"Traceback" not in said
        assert granted(kept) == ["one", "two"]
        assert set(os.listdir(kept.config)) == {"consent.json", "consent.lock", "config.toml"}
    assert change(kept, ())[0] == 0 and granted(kept) == after


def test_many_writers_lose_nothing(kept: Home) -> None:
    """Half of them take back, half of them give, all at once."""
    for number in range(10):
        (kept.home / f"n{number}").mkdir()
    kept.consent(*({"family": "files", "path": str(kept.home / f"n{number}")} for number in range(5)))
    env = kept.env()
    started = [subprocess.Popen(support.command("ls-consent", "revoke", str(kept.home / f"n{number}")), env=env,
                                cwd=kept.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE) for number in range(5)]
    body = ("import sys; from lspipe import consent, narrow\n"
            "new = narrow.Grant('files', path=sys.argv[2])\n"
            "consent.update(sys.argv[1], lambda grants: consent.add(grants, new))\n")
    started += [subprocess.Popen([sys.executable, "-c", body, str(kept.config), str(kept.home / f"n{number}")],
                                 env=env, cwd=support.ROOT, stderr=subprocess.PIPE) for number in range(5, 10)]
    for one in started:
        _, said = one.communicate(timeout=support.PATIENCE)
        assert one.returncode == 0, said
    assert sorted(granted(kept)) == [f"n{number}" for number in range(5, 10)]


@pytest.mark.parametrize("one", support.executables(), ids=str)
def test_settings_are_read_and_never_written(one: support.Executable, home: Home) -> None:
    file = home.config / "config.toml"
    file.write_bytes(SETTINGS)
    file.chmod(0o600)
    grants = (home.config / "consent.json").stat()
    before = file.stat()
    assert home.typical(one.name).code == 0
    found = file.stat()
    assert file.read_bytes() == SETTINGS
    assert (found.st_ino, found.st_mtime_ns, found.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)
    assert (home.config / "consent.json").stat().st_mtime_ns == grants.st_mtime_ns
    assert not Path(home.config / "consent.lock").exists()
