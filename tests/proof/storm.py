"""Owners of every kind that start and die at random, beside reapers that do so as well: python storm.py SECONDS ROOT.

Half of the owners are executables as people run them, half are forks that hold more than any executable does: a file,
children, grandchildren of other sessions, the lock of a dead parent, what was only attached to. In the end a last
ls-clean runs, and what is then still there is printed, with all counts, as one JSON object.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import injection  # noqa: E402
import support  # noqa: E402

from lspipe import child, ledger  # noqa: E402

SH, SLEEP = (child.find_program(name, "/bin:/usr/bin") for name in ("sh", "sleep"))
AT_ONCE = 24
#: What people run; a reader waits for its input, all others for room in their stdout.
TYPED = (["ls-history", "async"], ["ls-rg", "async", "notes"], ["ls-query", "async"], ["ls-bookmarks", "rust"],
         ["ls-tabs"], ["ls-check"], ["ls-fuse"], ["ls-ps"], ["ls-clean", "--apply"], ["ls-consent", "list"])
#: Signals that end an owner, as often as they are here; 0: he may end by himself.
ENDS = (signal.SIGKILL,) * 6 + (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, 0)


def owner(number: int, attached: int) -> None:
    """A fork that holds much; it is ended from outside."""
    if number % 2:
        ledger._death_signal = lambda: None  # As where the system has no parent-death signal.
    run = ledger.register("ls-test", [], "source")
    with open(os.path.join(run.tmp, "snapshot"), "wb") as file:
        file.write(b"x" * 10_000)
    row = run.add("browser", "storm", owned=False)
    row.live(attached)
    kind = number % 6
    if kind == 0:
        child.spawn(run, [SLEEP, "600"], env={}, stdin=None, purpose="test")
    elif kind == 1:
        child.spawn(run, [SH, "-c", f"setsid {SLEEP} 600 & exec {SLEEP} 600"], env={}, stdin=None, purpose="test")
    elif kind == 2:
        child.spawn(run, [SH, "-c", f"trap '' TERM; setsid {SH} -c '{SLEEP} 600; :' & while :; do {SLEEP} 600; done"],
                    env={}, stdin=b"", purpose="test")
    elif kind == 3:
        os.fork()  # Holds the lock.
    elif kind == 4:
        run.add("child", "storm")  # Dies between the fork and the row.
        subprocess.Popen([SLEEP, "600"], env={"LSPIPE_RUN": run.token})
    time.sleep(600)


def start(number: int, home: support.Home, attached: int) -> "subprocess.Popen[bytes] | int":
    if number % 2:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(name, signal.SIG_DFL)
                owner(number // 2, attached)
            os._exit(1)
        return pid
    words = random.choice(TYPED)
    return subprocess.Popen(support.command(*words), stdin=subprocess.PIPE, stdout=full(), stderr=subprocess.DEVNULL,
                            env=home.env(), cwd=home.home, start_new_session=True)


_PIPES: list[int] = []


def full() -> int:
    """The write end of a pipe that holds all it can, or the null device: one in four ends by itself."""
    if not _PIPES:
        _PIPES.extend(support.full_pipe())
        _PIPES.append(os.open(os.devnull, os.O_WRONLY))
    return _PIPES[random.choice((1, 1, 1, 2))]


def storm(seconds: float, home: support.Home) -> dict[str, object]:
    """Let it rage; what came of it."""
    counts: Counter[str] = Counter()
    said: list[str] = []
    tokens = ("", "nonsense", f"{'0' * 16}:1-0123456789abcdef")
    decoys = [subprocess.Popen([SLEEP, "900"], env={"LSPIPE_RUN": token}) for token in tokens for _ in range(2)]
    steady = subprocess.Popen(support.command("ls-check"), stdin=subprocess.PIPE, env=home.env(), cwd=home.home)
    decoys.append(steady)
    support.until(lambda: home.runs, "a steady run is there")
    kept = set(home.runs)
    signalled = home.root / "signalled"
    alive: list[tuple[subprocess.Popen[bytes] | int, float, int]] = []
    reapers: list[tuple[subprocess.Popen[bytes], float]] = []
    began = time.monotonic()
    number = 0
    while (now := time.monotonic()) < began + seconds or alive or reapers:
        raging = now < began + seconds
        while raging and len(alive) < AT_ONCE:
            number += 1
            alive.append((start(number, home, decoys[0].pid), now + random.random() ** 2 * 1.5, random.choice(ENDS)))
        while raging and len(reapers) < 2:
            with open(signalled, "ab") as out:
                one = subprocess.Popen(support.command("ls-clean", "--apply", "--grace", "0.1s"), stdout=out,
                                       stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=home.env())
            reapers.append((one, now + (random.random() if random.random() < 0.3 else 1e9)))
        for entry in list(alive):
            if ended(entry, counts, raging):
                alive.remove(entry)
        for one, until in list(reapers):
            if now >= until:
                one.kill()
                counts["reapers killed"] += one.wait() == -signal.SIGKILL
            if one.poll() is not None:
                counts["reapers"] += 1
                assert one.stderr is not None
                words = one.stderr.read().decode()
                if words or one.returncode not in (0, -signal.SIGKILL):
                    said.append(f"{one.returncode} {words}")
                one.stderr.close()
                reapers.remove((one, until))
        time.sleep(0.002)
    last = home.run("ls-clean", "--apply")
    rows = [json.loads(line) for line in signalled.read_bytes().splitlines() if line.startswith(b"{")]
    counts["processes ended by reapers"] = sum(row["action"] == "signal" and row["done"] for row in (*rows, *last.rows))
    counts["directories removed by reapers"] = sum(row["action"] == "remove" and row["done"]
                                                   for row in (*rows, *last.rows))
    found = {"owners": number, **counts, "complaints": said, "undone": [
        row for row in last.rows if not row["done"] and row["action"] != "keep"], "last": last.err.decode(),
        "folders": sorted(set(os.listdir(home.state / "run")) - kept),
        "processes": injection.carriers(home, [one.pid for one in decoys]),
        "decoys": [one.poll() for one in decoys]}
    for one in decoys:
        one.kill()
        one.wait()
    return found


def ended(entry: "tuple[subprocess.Popen[bytes] | int, float, int]", counts: Counter[str], raging: bool) -> bool:
    """Whether an owner is over; where it is time he is sent his signal."""
    one, until, number = entry
    pid = one if isinstance(one, int) else one.pid
    if time.monotonic() >= until or not raging:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number if number and raging else signal.SIGKILL)
    if isinstance(one, int):
        done, status = os.waitpid(one, os.WNOHANG)
        if not done:
            return False
        code = os.waitstatus_to_exitcode(status)
    else:
        if one.poll() is None:
            return False
        code = one.returncode
        if one.stdin is not None:
            one.stdin.close()
    counts["killed" if code == -signal.SIGKILL else "ended by a signal" if code < 0 else "ended by themselves"] += 1
    return True


def main() -> None:
    seconds, root = float(sys.argv[1]), Path(sys.argv[2])
    random.seed(int(os.environ.get("LSPIPE_SEED", "7")))
    home = support.Home(root, sample=True)
    os.environ["LSPIPE_STATE_HOME"] = str(home.state)
    ledger.register("ls-test", [], "source").close()
    print(json.dumps(storm(seconds, home)))


if __name__ == "__main__":
    main()
