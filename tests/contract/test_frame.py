"""The frame around every executable, seen from a command that misbehaves."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
import support

from lspipe import landlock, sandbox, schema
from lspipe.run import Clock

#: A command of its own; `BODY` is its generator. Descriptors 3 and 4 are there for events.
_TOOL = '''"""Made for a test.

    $ ls-made
    $ ls-made -n 1
"""
import os, signal, sys, time
from lspipe import exits, options, runner

READS, EMITS, ZONE = {reads!r}, {emits!r}, "local"

@options.command("ls-made", kind={kind!r}, reads=READS, emits=EMITS)
def cli(**given):
    return options.namespace(**given)

def rows(opts, upstream, run):
{body}

sys.exit(runner.Tool(cli, rows)())
'''


def tool(home: support.Home, body: str, kind: str = "source", reads: str | None = None,
         emits: str | None = "row") -> list[str]:
    """The command line of a command whose generator is `body`."""
    file = home.root / "ls-made"
    indented = "\n".join("    " + line for line in body.strip("\n").splitlines())
    file.write_text(_TOOL.format(kind=kind, reads=reads, emits=emits, body=indented))
    return [sys.executable, str(file)]


def run(home: support.Home, body: str, *args: str, stdin: bytes = b"", **how: Any) -> support.Done:
    done = subprocess.run([*tool(home, body, **how), *args], env=home.env(PYTHONPATH=str(support.ROOT)), input=stdin,
                          capture_output=True, timeout=support.PATIENCE)
    return support.Done(done.returncode, done.stdout, done.stderr)


ROW = '{"source": "mine", "url": "x:%d"}'
TWO = f"yield {ROW % 1}\nyield {ROW % 2}"


def test_a_bug_is_one_line_and_70(bare: support.Home) -> None:
    body = "yield from ()\nraise ValueError('odd\\x1b[31m\\nthing')"
    done = run(bare, body)
    assert (done.code, done.out) == (70, b"")
    assert done.err == (b"ls-made: internal error: ValueError: odd\\u001b[31m\\u000athing\n"
                        b"run it with --debug for the traceback\n")
    debug = run(bare, body, "--debug")
    assert debug.code == 70 and b"Traceback" in debug.err
    assert not bare.runs


def test_a_row_that_is_none_never_leaves(bare: support.Home) -> None:
    for bad in ('{"source": "mine"}', '{"source": "mine", "url": "x:3", "score": float("nan")}',
                '{"source": "mine", "url": "x:3", "rank": "1"}'):
        done = run(bare, f"{TWO}\nyield {bad}\nyield {ROW % 4}")
        assert done.code == 70
        assert [row["url"] for row in done.rows] == ["x:1", "x:2"], "what was found before is not lost"
        assert b"made a row that is none" in done.err


def test_a_limit_ends_the_search_and_closes_it(bare: support.Home) -> None:
    report = bare.root / "report.json"
    body = f"try:\n    yield {ROW % 1}\n    yield {ROW % 2}\nfinally:\n    run.report.note('closed')"
    for limit, truncated in ((1, True), (2, False), (3, False)):
        done = run(bare, body, "-n", str(limit), "--report", str(report))
        facts = orjson.loads(report.read_bytes())
        assert len(done.rows) == facts["rows_out"] == min(limit, 2)
        assert facts["truncated"] is truncated
        assert facts["notes"].count("closed") == 1


def test_what_is_locked_down_before_any_input_is_read(bare: support.Home) -> None:
    body = """
try:
    open('/etc/passwd').close()
    state = 'open'
except PermissionError:
    state = 'denied'
yield from ({**row, 'title': state} for row in upstream)
"""
    # By the kernel's word, not by the report's: it says "none" as well where nothing was tried.
    if not sys.platform.startswith("linux") or landlock.version(sandbox.library()[0]) == 0:
        pytest.skip("this kernel has no Landlock")
    row = b'{"source":"m","url":"x:1"}\n'
    done = run(bare, body, kind="transform", reads="row", stdin=row)
    assert [row["title"] for row in done.rows] == ["denied"]


def test_one_that_must_own_something_ends_with_5_before_it_does(bare: support.Home) -> None:
    bare.state.write_bytes(b"")
    done = run(bare, "run.need_ledger()\nopen('made', 'w')\nyield from ()")
    assert (done.code, done.out) == (5, b"")
    support.assert_one_line(done.err, "ls-made")


@pytest.mark.parametrize(("found", "code", "count"), [(0, 6, 0), (1, 7, 1)])
def test_time_that_is_over(found: int, code: int, count: int, bare: support.Home) -> None:
    body = f"""
for number in range({found}):
    yield {{"source": "mine", "url": "x:1"}}
while not run.clock.expired():
    time.sleep(0.001)
"""
    report = bare.root / "report.json"
    done = run(bare, body, "--timeout", "10ms", "--report", str(report))
    assert (done.code, len(done.rows)) == (code, count)
    support.assert_one_line(done.err, "ls-made")
    assert orjson.loads(report.read_bytes())["truncated"] is True


def test_the_clock_stands_still_for_a_slow_reader() -> None:
    waited = 0.0
    began = time.monotonic()
    clock = Clock(0.05, lambda: waited)
    while not clock.expired():
        assert time.monotonic() - began < support.PATIENCE
    assert time.monotonic() - began >= 0.05
    waited = 1000.0
    slow = Clock(0.05, lambda: waited)
    assert slow.left() and not slow.expired() and slow.left(0.01) == 0.01
    assert Clock(None, lambda: 0.0).left() is None
    assert Clock(None, lambda: 0.0).left(3) == 3
    assert not Clock(None, lambda: 0.0).expired()


@contextmanager
def working(home: support.Home, body: str) -> Iterator[tuple["subprocess.Popen[bytes]", int, int]]:
    """The command in the middle of `body`; what it says on descriptor 3, and where it listens as 4."""
    says, three = os.pipe()
    four, tell = os.pipe()
    argv = tool(home, f"SAY, HEAR = {three}, {four}\n" + body)
    process = subprocess.Popen(argv, env=home.env(PYTHONPATH=str(support.ROOT)), stdin=subprocess.DEVNULL, bufsize=0,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(three, four))
    os.close(three)
    os.close(four)
    try:
        yield process, says, tell
    finally:
        process.kill()
        process.communicate()
        os.close(says)
        os.close(tell)


_SLOW_END = """
yield {"source": "mine", "url": "x:1"}
try:
    os.write(SAY, b"w")
    signal.pause()
finally:
    os.write(SAY, b"c")
    os.read(HEAR, 1)
"""


def test_a_second_interrupt_does_not_wait_for_the_end_of_cleaning(bare: support.Home) -> None:
    with working(bare, _SLOW_END) as (process, says, _tell):
        assert os.read(says, 1) == b"w"
        process.send_signal(signal.SIGINT)
        assert os.read(says, 1) == b"c"
        assert bare.runs
        process.send_signal(signal.SIGINT)
        assert process.wait(support.PATIENCE) == -signal.SIGINT
        assert process.stderr and process.stderr.read() == b""
    assert bare.runs, "it could not clean up any more"
    support.until(lambda: bare.run("ls-check", stdin=b"").code == 0 and not bare.runs, "the next run's sweep")


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda one: one.name)
def test_other_signals_let_cleaning_end(first: signal.Signals, bare: support.Home) -> None:
    later = [number for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
             if number != first and number != signal.SIGINT] + ([signal.SIGINT] if first != signal.SIGINT else [])
    with working(bare, _SLOW_END) as (process, says, tell):
        assert os.read(says, 1) == b"w"
        process.send_signal(first)
        assert os.read(says, 1) == b"c"
        for number in later:
            process.send_signal(number)
        os.write(tell, b"!")
        assert process.wait(support.PATIENCE) == -first
        assert process.stderr and process.stderr.read() == b""
    assert not bare.runs


def test_a_library_that_swallows_the_signal_does_not_swallow_the_end(bare: support.Home) -> None:
    body = """
yield {"source": "mine", "url": "x:1"}
os.write(SAY, b"w")
try:
    signal.pause()
except BaseException:
    pass
"""
    with working(bare, body) as (process, says, _tell):
        assert os.read(says, 1) == b"w"
        process.send_signal(signal.SIGTERM)
        assert process.wait(support.PATIENCE) == -signal.SIGTERM
        assert process.stderr and process.stderr.read() == b""
    assert not bare.runs


def test_rows_come_at_once_where_that_is_asked_for(bare: support.Home) -> None:
    with support.small_input(bare, "ls-check", "--line-buffered") as (process, writer):
        assert process.stdout
        for number in range(3):
            line = orjson.dumps({"source": "mine", "url": f"x:{number}"}) + b"\n"
            os.write(writer, line)
            assert os.read(process.stdout.fileno(), 1 << 16) == line
        os.close(writer)
        assert process.wait(support.PATIENCE) == 0


def test_an_interrupt_while_it_starts_is_quiet(bare: support.Home) -> None:
    """It comes while packages are imported, before there is a handler."""
    folder = bare.root / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "def hook(event, args):\n"
        "    if event == 'import' and args[0] == 'orjson':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.addaudithook(hook)\n"
    )
    done = bare.run("ls-check", env=bare.env(PYTHONPATH=str(folder)))
    assert (done.code, done.out, done.err) == (-signal.SIGINT, b"", b"")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no limit of data that is heeded")
def test_a_source_has_a_limit_of_memory(bare: support.Home) -> None:
    """What it reads may be made by others. What a transform reads is the business of whoever pipes it there."""
    body = f"big = bytes(1 << 30)\nyield {ROW % 1}"
    done = run(bare, body)
    assert (done.code, done.out) == (5, b"") and b"not enough memory" in done.err
    assert run(bare, body, kind="transform", reads="row").rows == [{"source": "mine", "url": "x:1"}]


def test_a_row_that_is_too_long_is_cut(bare: support.Home) -> None:
    """No reader takes it as it is: a row has a longest length."""
    body = """yield {"source": "mine", "url": "x:1", "title": "t" * 2_000_000, "text": "\\x01" * 200_000,
       "meta": {"folder": ["f" * 5000] * 500}}"""
    report = bare.root / "report.json"
    done = run(bare, body, "--report", str(report))
    row, = done.rows
    assert len(done.out) < 1 << 20 and row["title"] == "t" * 4096 and row["meta"]["folder"] == ["f" * 4096] * 100
    assert "a row was cut: it was longer than a row may be" in orjson.loads(report.read_bytes())["notes"]
    assert bare.run("ls-fuse", stdin=done.out).code == 0


def test_a_report_says_the_code_of_a_signal(bare: support.Home) -> None:
    report = bare.root / "report.json"
    one = next(one for one in support.executables() if one.name == "ls-check")
    with support.at_work(bare, one, "--report", str(report)) as process:
        support.end_by(process, signal.SIGTERM, what="report")
    facts = orjson.loads(report.read_bytes())
    assert facts["exit"] == 143 and schema.explain("report", facts) == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
@pytest.mark.parametrize("call", ["flock", "rename", "unlink", "rmdir"])
def test_a_signal_at_a_birth_or_a_death_leaves_nothing(call: str, bare: support.Home) -> None:
    """It comes with each of the calls that make the run's directory, or take it away, in turn."""
    calls = {"rename": "?rename,?renameat,?renameat2", "unlink": "?unlink,?unlinkat",
             "rmdir": "?rmdir,?unlinkat"}.get(call, call)
    ends = set()
    for number in range(1, 9):
        log = bare.root / "trace"
        done = subprocess.run(
            ["strace", "-qq", "-o", log, "-e", f"trace={calls}", "-e", f"inject={calls}:signal=TERM:when={number}",
             *support.command("ls-check")],
            env=bare.env(), stdin=subprocess.DEVNULL, capture_output=True, timeout=support.PATIENCE)
        if done.stderr.startswith(b"strace: "):
            pytest.skip(f"strace cannot: {done.stderr.decode()}")
        sent = b"SIGTERM" in log.read_bytes()
        assert (done.returncode in (0, -signal.SIGTERM), done.stdout, done.stderr) == (True, b"", b"")
        assert not bare.runs, f"{call} {number}"
        if not sent:
            break
        ends.add(done.returncode)
    assert ends, "no signal was sent"


@pytest.mark.parametrize("args", [("--now", b"\xff\x1b"), ("--timeout", b"\xff"), ("--since", b"\xff")], ids=repr)
def test_what_is_no_text_in_an_error_as_json(bare: support.Home, args: tuple[str | bytes, ...]) -> None:
    done = subprocess.run([*support.command("ls-history"), "--log", "json", *args], env=bare.env(),
                          capture_output=True, timeout=support.PATIENCE)
    said = [orjson.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout, len(said)) == (2, b"", 1)
    assert schema.explain("error", said[0]) == []


@pytest.mark.parametrize("name", ["ls-fuse", "ls-history", "ls-query"])
def test_folders_whose_names_are_no_text(home: support.Home, name: str) -> None:
    """The report names the consent file, and says where the ledger could not be."""
    report = home.root / "report.json"
    odd = os.fsencode(home.root) + b"/\xff"
    os.symlink(home.env()["LSPIPE_CONFIG_HOME"], odd)
    words = ["async"] if name != "ls-fuse" else []
    env = home.env(LSPIPE_CONFIG_HOME=os.fsdecode(odd))
    for place in (env["LSPIPE_STATE_HOME"], "/proc/\udcff"):
        done = home.run(name, "--report", str(report), *words, env={**env, "LSPIPE_STATE_HOME": place})
        assert done.code in (0, 5) and b"Traceback" not in done.err
        facts = orjson.loads(report.read_bytes())
        assert schema.explain("report", facts) == [] and facts["exit"] == done.code


def test_a_traceback_only_where_it_is_asked_for(home: support.Home) -> None:
    """Also for a bug before there are options."""
    folder = home.root / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "sys.addaudithook(lambda event, args: 1 / 0 if event == 'open' and str(args[0]).endswith('config.toml')"
        " else None)\n")
    config = home.root / "config.toml"
    config.touch(mode=0o600)
    env = home.env(PYTHONPATH=str(folder))
    os.rename(config, os.path.join(env["LSPIPE_CONFIG_HOME"], "config.toml"))
    done = home.run("ls-query", "async", env=env)
    assert done.code == 70 and done.err.count(b"\n") == 2, done.err
    assert b"Traceback" in home.run("ls-query", "--debug", "async", env=env).err


@pytest.mark.parametrize("many", [7, 8, 9, 11, 12, 14, 16])
def test_too_few_descriptors_are_no_bug_and_leave_nothing(home: support.Home, many: int) -> None:
    for name in ("ls-query", "ls-history", "ls-bookmarks"):
        done = subprocess.run(
            ["sh", "-c", f'ulimit -n {many}; exec "$@"', "sh", *support.command(name), "async"], env=home.env(),
            capture_output=True, timeout=support.PATIENCE)
        assert done.returncode in (0, 4, 5, 7) and b"internal error" not in done.stderr, done.stderr
        assert home.runs == []


@pytest.mark.parametrize("name", support.LEDGER)
def test_a_file_in_the_place_of_the_ledger(bare: support.Home, name: str) -> None:
    folder = bare.root / "other"
    folder.mkdir(mode=0o700)
    (folder / "run").touch(mode=0o600)
    done = bare.run(name, env=bare.env(LSPIPE_STATE_HOME=str(folder)))
    assert (done.code, done.out) == (5, b"") and b"not a folder" in done.err
