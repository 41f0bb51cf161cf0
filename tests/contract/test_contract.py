"""What holds for every executable: streams, ends, folders, reports, the sandbox's own word.

The cases run over the registry, so a new command joins by itself; its typical golden pair is its ordinary use.
"""

import fcntl
import os
import pty
import signal
import stat
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import support

from lspipe import schema

ALL = support.executables()
each = pytest.mark.parametrize("one", ALL, ids=str)
reader = pytest.mark.parametrize("one", support.of("transform", "sink"), ids=str)
no_reader = pytest.mark.parametrize("one", support.of("source", "porcelain"), ids=str)
user_alone = pytest.mark.skipif(os.geteuid() == 0, reason="root writes into read-only folders")
needs_clean = pytest.mark.skipif(not support.exists("ls-clean"), reason="no ls-clean yet")

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def rows(count: int) -> bytes:
    return b"".join(
        orjson.dumps({"source": "mine", "url": f"https://example.org/{number}", "title": f"row {number}",
                      "query": "row", "query_id": "ls_0000000000000000", "rank": number}) + b"\n"
        for number in range(1, count + 1)
    )


@each
def test_the_typical_use_ends_well_and_leaves_nothing(one: support.Executable, home: support.Home) -> None:
    """The ground on which the other cases stand."""
    done = home.typical(one.name)
    assert (done.code, done.err) == (support.typical(one.name).code, support.typical(one.name).err)
    assert done.code == 0 and done.out
    assert not home.runs


@each
def test_two_runs_give_equal_bytes(one: support.Executable, home: support.Home) -> None:
    first = home.typical(one.name)
    assert home.typical(one.name) == first


# stdin


@reader
def test_no_input_is_no_output(one: support.Executable, home: support.Home) -> None:
    for stdin in (b"", b"\n \n", None):
        assert home.run(one.name, stdin=stdin) == support.Done(0, b"", b"")
    assert home.run(one.name, "--exit-status", stdin=b"").code == 1
    assert not home.runs


@reader
def test_a_closed_stdin_is_said(one: support.Executable, home: support.Home) -> None:
    done = home.run(one.name, before=lambda: os.close(0))
    assert (done.code, done.out) == (2, b"")
    support.assert_one_line(done.err, one.name)
    assert not home.runs


@no_reader
def test_a_closed_stdin_does_not_matter(one: support.Executable, home: support.Home) -> None:
    assert home.typical(one.name, before=lambda: os.close(0)).code == 0


@no_reader
def test_stdin_is_never_read(one: support.Executable, home: support.Home) -> None:
    """A pipe that stays open neither stops it nor loses a byte: it works inside `while read` and under cron."""
    into, out_of = os.pipe()
    os.write(out_of, b"untouched\n")
    done = home.typical(one.name, stdin=into)
    assert done.code == 0
    os.close(out_of)
    assert support.drain(into) == b"untouched\n"
    os.close(into)


@reader
def test_a_reader_on_a_terminal_does_not_wait_in_silence(one: support.Executable, home: support.Home) -> None:
    master, slave = pty.openpty()
    done = home.run(one.name, stdin=slave)
    assert (done.code, done.out) == (2, b"")
    text = done.err.decode()
    assert text.startswith(f"Usage: {one.name}") and one.cli.summary in text and "--help" in text
    assert len(text.splitlines()) < 12
    os.close(master)
    os.close(slave)


@reader
def test_a_terminal_does_not_matter_where_files_are_named(one: support.Executable, home: support.Home) -> None:
    master, slave = pty.openpty()
    file = home.root / "rows.jsonl"
    file.write_bytes(rows(1))
    done = home.run(one.name, str(file), stdin=slave)
    assert done.code == 0 and done.out
    os.close(master)
    os.close(slave)


@reader
def test_an_operand_that_looks_like_an_option(one: support.Executable, home: support.Home) -> None:
    (home.home / "-n").write_bytes(rows(1))
    done = home.run(one.name, "--", "-n")
    assert done.code == 0 and done.out


# stdout


@each
def test_a_reader_that_is_gone_is_an_ordinary_end(one: support.Executable, home: support.Home) -> None:
    into, out_of = os.pipe()
    os.close(into)
    done = home.typical(one.name, stdout=out_of)
    os.close(out_of)
    assert (done.code, done.err) == (0, b"")
    assert not home.runs


@reader
def test_a_reader_that_leaves_after_one_row(one: support.Executable, home: support.Home) -> None:
    # More than all pipes hold: it is still writing when its reader leaves.
    file = home.root / "rows.jsonl"
    file.write_bytes(rows(5000))
    with open(file, "rb") as stdin, home.start(one.name, stdin=stdin.fileno()) as process:
        assert process.stdout and process.stderr
        with os.fdopen(os.dup(process.stdout.fileno()), "rb") as out:
            assert out.readline()
            process.stdout.close()
        assert process.wait(support.PATIENCE) == 0
        assert process.stderr.read() == b""
    assert home.run(one.name, str(file)).out.count(b"\n") >= 5000, "it could have ended by itself"
    assert not home.runs


@each
def test_a_full_device_is_one_line_and_74(one: support.Executable, home: support.Home) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    full = os.open("/dev/full", os.O_WRONLY)
    for args in ([], ["--help"], ["--version"]):
        done = home.typical(one.name, stdout=full) if not args else home.run(one.name, *args, stdout=full)
        assert done.code == 74, args
        support.assert_one_line(done.err, one.name)
        assert b"no space" in done.err
    os.close(full)
    assert not home.runs


@each
def test_a_closed_stdout_is_an_error_and_never_another_file(one: support.Executable, home: support.Home) -> None:
    report = home.root / "report.json"
    done = home.typical(one.name, "--report", str(report), before=lambda: os.close(1))
    assert done.code == 74
    support.assert_one_line(done.err, one.name)
    assert orjson.loads(report.read_bytes())["exit"] == 74
    assert home.run(one.name, "--help", before=lambda: os.close(1)).code == 74
    assert not home.runs


@each
def test_a_closed_stderr_changes_nothing(one: support.Executable, home: support.Home) -> None:
    done = home.typical(one.name, "--stats", before=lambda: os.close(2))
    assert done.out == home.typical(one.name).out
    assert done.code == 0


@each
def test_a_terminal_gets_the_same_bytes_as_a_pipe(one: support.Executable, home: support.Home) -> None:
    """Width and colour are for tables alone, and a terminal of 80 columns without colour is what a pipe gets."""
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    settings[1] &= ~termios.OPOST  # A terminal would make CR LF of LF.
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = home.env(TERM="xterm-256color", NO_COLOR="1" if one.kind in ("sink", "porcelain") else None)
    pair = support.typical(one.name)
    piped = home.typical(one.name, env=home.env()).out
    stdin = home.root / "in"
    stdin.write_bytes(pair.stdin or b"")
    with open(stdin, "rb") as file, home.start(
        one.name, *pair.args(home), stdin=file.fileno(), stdout=slave, env=env
    ) as process:
        os.close(slave)
        on_terminal = support.drain(master)
        assert process.wait(support.PATIENCE) == 0
    os.close(master)
    assert on_terminal == piped


@pytest.mark.parametrize("one", support.of("source", "transform", "porcelain"), ids=str)
def test_stdout_is_rows_and_nothing_else(one: support.Executable, home: support.Home) -> None:
    done = home.typical(one.name)
    assert done.out.endswith(b"\n")
    # What ls-query promises by name is its envelope; by default and line by line it prints rows.
    name = "row" if one.name == "ls-query" else one.cli.emits
    for line in done.lines:
        assert isinstance(orjson.loads(line), dict)
        assert not schema.explain(name, orjson.loads(line))


@each
def test_a_limit_is_kept(one: support.Executable, home: support.Home) -> None:
    done = home.typical(one.name, "-n", "1")
    assert done.code == 0
    if one.emits_rows:
        assert len(done.lines) == 1
        assert home.typical(one.name, "--limit", "0").out == b""


# Folders and the environment


@each
def test_a_deleted_working_directory(one: support.Executable, home: support.Home) -> None:
    gone = home.root / "gone"
    gone.mkdir()
    done = home.typical(one.name, cwd=gone, before=lambda: os.rmdir(gone))
    assert done.code == 0 and done.out
    assert not home.runs


@each
def test_an_unset_home_where_the_folders_are_named(one: support.Executable, home: support.Home) -> None:
    done = home.typical(one.name, env=home.env(HOME=None))
    assert done.code == 0 and done.out


@each
def test_no_home_at_all(one: support.Executable, home: support.Home) -> None:
    """A reader needs none; what reads the user's state says what is missing."""
    env = home.env(HOME=None, LSPIPE_CONFIG_HOME=None, LSPIPE_STATE_HOME=None, LSPIPE_CACHE_HOME=None)
    report = home.root / "report.json"
    done = home.typical(one.name, "--report", str(report), env=env)
    if one.reader:
        assert done.code == 0 and done.out == home.typical(one.name).out
        facts = orjson.loads(report.read_bytes())
        assert facts["registered"] is False
        assert any("HOME is not set" in note for note in facts["notes"])
    elif done.code != 0:
        assert (done.code, done.out) == (5, b"")
        support.assert_one_line(done.err, one.name)


Spoil = Callable[[support.Home], None]


def _not_a_folder(home: support.Home) -> None:
    home.state.write_bytes(b"")


def _below_a_file(home: support.Home) -> None:
    (home.root / "file").write_bytes(b"")
    home.state = home.root / "file" / "state"


def _writable_by_all(home: support.Home) -> None:
    home.state.mkdir()
    home.state.chmod(0o777)


def _of_another(home: support.Home) -> None:
    if os.geteuid() != 0:
        home.state = Path("/usr")
        return
    home.state.mkdir(mode=0o700)
    os.chown(home.state, 12345, 12345)


def _read_only(home: support.Home) -> None:
    home.state.mkdir(mode=0o500)


@reader
@pytest.mark.parametrize("spoil", [
    _not_a_folder, _below_a_file, _writable_by_all, _of_another, pytest.param(_read_only, marks=user_alone),
])
def test_a_reader_goes_on_unregistered_and_says_so(
    one: support.Executable, spoil: Spoil, home: support.Home
) -> None:
    spoil(home)
    before = sorted(home.root.rglob("*"))
    report = home.root / "report.json"
    done = home.typical(one.name, "--report", str(report))
    assert (done.code, done.err) == (0, b"") and done.out
    facts = orjson.loads(report.read_bytes())
    assert facts["registered"] is False
    assert any("not registered" in note for note in facts["notes"])
    assert sorted(home.root.rglob("*")) == sorted([*before, report]), "something was made"
    stats = home.typical(one.name, "--stats").err.decode()
    assert "not registered" in stats


@no_reader
@pytest.mark.parametrize("spoil", [_below_a_file, _writable_by_all])
def test_without_a_ledger_nothing_is_started_and_nothing_breaks(
    one: support.Executable, spoil: Spoil, home: support.Home
) -> None:
    """What owns nothing goes on; what would own something ends with 5 before it makes it."""
    spoil(home)
    done = home.run(one.name, *support.typical(one.name).args(home))
    assert done.code in (0, 5), done
    if done.code:
        support.assert_one_line(done.err, one.name)
        assert done.out == b""


@pytest.mark.parametrize("one", support.of("source"), ids=str)
def test_a_spoilt_consent_file_is_never_read_around(one: support.Executable, home: support.Home) -> None:
    file = home.config / "consent.json"
    good = file.read_bytes()
    for spoil in (lambda: file.chmod(0o666), lambda: file.write_bytes(b"{"), lambda: file.write_bytes(b'{"v":1}'),
                  lambda: (file.unlink(), file.mkdir()), lambda: (file.rmdir(), os.mkfifo(file)),
                  lambda: (file.unlink(), os.symlink("/dev/zero", file)),
                  lambda: (file.unlink(), file.write_bytes(good), home.config.chmod(0o777))):
        spoil()
        done = home.typical(one.name)
        assert (done.code, done.out) == (5, b"")
        support.assert_one_line(done.err, one.name)


@pytest.mark.parametrize("one", support.of("source"), ids=str)
def test_without_a_grant_the_command_to_run_is_named(one: support.Executable, home: support.Home) -> None:
    for spoil in (lambda: home.consent(), lambda: (home.config / "consent.json").unlink()):
        spoil()
        done = home.typical(one.name)
        assert (done.code, done.out) == (5, b"")
        support.assert_one_line(done.err, one.name)
        assert "ls-consent" in done.err.decode().splitlines()[-1]


@each
def test_bytes_that_are_no_text(one: support.Executable, home: support.Home) -> None:
    """Anywhere on the command line; what is printed about them is text."""
    strange = os.fsencode(home.root) + b"/\xff\x1b[31m\n"
    for args in ([b"--report", strange + b"/none/x"], [b"--now", b"\xff"], [b"--\xff\x1b"]):
        done = home.run(one.name, *args, stdin=b"")
        assert done.code in (2, 74), args
        text = done.err.decode()
        assert "Traceback" not in text and "\x1b" not in text and len(text.splitlines()) <= 2, text
    done = home.typical(one.name, b"--report", strange)
    assert done.code == 0
    assert orjson.loads(Path(os.fsdecode(strange)).read_bytes())["exit"] == 0


@reader
def test_files_whose_names_are_no_text(one: support.Executable, home: support.Home) -> None:
    name = os.fsencode(home.root) + b"/\xff\n.jsonl"
    Path(os.fsdecode(name)).write_bytes(rows(2) + b"x\n")
    done = home.run(one.name, *(["--as", "jsonl"] if one.kind == "sink" else []), name)
    assert (done.code, len(done.lines)) == (7, 2)
    assert "line 3" in done.err.decode() and len(done.err.splitlines()) == 1


@pytest.mark.parametrize("one", support.of("source"), ids=str)
def test_words_that_are_no_text_find_nothing_and_break_nothing(one: support.Executable, home: support.Home) -> None:
    pair = support.typical(one.name)
    args: list[str | bytes] = [b"\xff\xfe" if number == 0 and not arg.startswith("-") else arg
                               for number, arg in enumerate(pair.args(home))]
    done = home.run(one.name, *args)
    assert done.code in (0, 2), done
    assert "Traceback" not in done.err.decode()


def walk(folder: Path) -> list[Path]:
    """All below `folder`; what goes away meanwhile is left out."""
    return [Path(at, name) for at, folders, files in os.walk(folder) for name in (*folders, *files)]


@each
def test_everything_that_is_made_is_private(one: support.Executable, home: support.Home) -> None:
    report = home.root / "report.json"
    with support.at_work(home, one, "--report", str(report), before=lambda: os.umask(0)):
        assert home.runs
        seen = 0
        for path in [home.state, *walk(home.state), report]:
            try:
                found = path.lstat().st_mode
            except FileNotFoundError:
                continue  # A stage of ls-query that ended just now.
            seen += 1
            assert stat.S_IMODE(found) == (0o700 if stat.S_ISDIR(found) else 0o600), f"{path} {found:o}"
        assert seen > 4


@each
def test_the_users_files_stay_as_they_are(one: support.Executable, home: support.Home) -> None:
    def look() -> dict[str, tuple[int, int, int]]:
        return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size, path.lstat().st_ino)
                for folder in (home.home, home.config) for path in sorted([folder, *folder.rglob("*")])}

    before = look()
    home.typical(one.name)
    assert look() == before
    assert not home.cache.exists()


# The ends


@each
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_ends_it_as_a_signal_and_leaves_nothing(
    one: support.Executable, number: signal.Signals, home: support.Home
) -> None:
    with support.at_work(home, one) as process:
        assert home.runs, "it is not registered"
        done = support.end_by(process, number, what=one.name)
    assert (done.code, done.err) == (-number, b"")
    assert not home.runs


@each
def test_a_burst_of_signals_is_one_clean_end(one: support.Executable, home: support.Home) -> None:
    with support.at_work(home, one) as process:
        # Stopped first, so that all of them are there at once when it goes on.
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        done = support.end_by(process, *SIGNALS, signal.SIGCONT, what=one.name)
    assert -done.code in SIGNALS
    assert done.err == b""
    assert not home.runs


@each
def test_a_hang_up_that_the_parent_ignores_is_ignored(one: support.Executable, home: support.Home) -> None:
    """nohup means it."""
    with support.at_work(home, one, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
        process.send_signal(signal.SIGHUP)
        done = support.end_by(process, signal.SIGTERM, what=one.name)
    assert done.code == -signal.SIGTERM
    assert not home.runs


@needs_clean
@each
def test_after_a_kill_the_ledger_knows_and_clean_removes_it(one: support.Executable, home: support.Home) -> None:
    with support.at_work(home, one) as process:
        done = support.end_by(process, signal.SIGKILL, what=one.name)
        assert done.code == -signal.SIGKILL
    assert home.runs, "it was not registered"
    dry = home.run("ls-clean")
    assert dry.code in (0, 7) and home.runs, "a dry run must not remove anything"
    assert home.run("ls-clean", "--apply").code == 0
    assert not home.runs


@each
def test_the_next_run_sweeps_what_a_kill_left(one: support.Executable, home: support.Home) -> None:
    with support.at_work(home, one) as process:
        process.kill()
        process.wait()
    left = home.runs
    assert left
    # ls-ps and ls-clean sweep nothing: the one shows it, and the other may be a dry run.
    name = "ls-check" if one.name in support.LEDGER else one.name
    support.until(lambda: home.typical(name).code == 0 and not home.runs, "the sweep")


# Reports


@each
def test_the_report_is_true(one: support.Executable, home: support.Home) -> None:
    report = home.root / "report.json"
    done = home.typical(one.name, "--report", str(report))
    (line,) = report.read_bytes().splitlines()
    facts = orjson.loads(line)
    assert schema.explain("report", facts) == []
    assert list(support.strangers(schema.load("report"), facts)) == []
    assert (facts["command"], facts["exit"], facts["registered"]) == (one.name, done.code, True)
    if one.emits_rows:
        assert facts["rows_out"] == len(done.lines)
    pair = support.typical(one.name)
    if one.reader and pair.stdin is not None:
        assert facts["rows_in"] == len(pair.stdin.splitlines())
    if one.kind == "source":
        assert facts["consent_file"] == str(home.config / "consent.json")


@each
def test_the_report_goes_to_any_descriptor(one: support.Executable, home: support.Home) -> None:
    into, out_of = os.pipe()
    pair = support.typical(one.name)
    done = subprocess.run(
        support.command(one.name, *support.with_options(pair.args(home), ["--report", f"/dev/fd/{out_of}"])),
        env=home.env(), cwd=home.home, input=pair.stdin or b"", capture_output=True, pass_fds=[out_of],
        timeout=support.PATIENCE)
    os.close(out_of)
    assert done.returncode == 0
    assert orjson.loads(support.drain(into))["command"] == one.name
    os.close(into)


@each
def test_a_report_that_cannot_be_written_is_74_before_anything_is_done(
    one: support.Executable, home: support.Home
) -> None:
    done = home.typical(one.name, "--report", str(home.root / "none" / "report.json"))
    assert (done.code, done.out) == (74, b"")
    support.assert_one_line(done.err, one.name)
    assert not home.runs


@each
def test_the_statistics_are_one_line_on_stderr(one: support.Executable, home: support.Home) -> None:
    done = home.typical(one.name, "--stats")
    (line,) = done.err.decode().splitlines()
    assert line.startswith(f"{one.name}: ") and "sandbox fs" in line and line.endswith(" ms")
    assert done.out == home.typical(one.name).out


@each
def test_errors_are_json_where_that_is_asked_for(one: support.Executable, home: support.Home) -> None:
    done = home.run(one.name, "--log", "json", "--now", "then", stdin=b"")
    assert (done.code, done.out) == (2, b"")
    if one.reader:
        more = home.run(one.name, "--log", "json", stdin=rows(1) + b"x\n" * 50)
        assert more.code == 7
        assert len(more.err.splitlines()) >= 5
        done = support.Done(2, b"", done.err + more.err)
    for line in done.err.splitlines():
        error = orjson.loads(line)
        assert schema.explain("error", error) == []
        assert list(support.strangers(schema.load("error"), error)) == []
        assert error["command"] == one.name


@each
def test_now_is_what_it_is_told(one: support.Executable, home: support.Home) -> None:
    done = home.typical(one.name, "--now", "2026-07-21T12:00:00Z", "--now", support.NOW)
    assert done.out == home.typical(one.name, "--now", support.NOW).out
    assert done.code == 0


# The sandbox, by its own word; `tests/unit` and the browser tests look from outside.


@each
def test_the_sandbox_tries_its_own_denials(one: support.Executable, home: support.Home) -> None:
    report = home.root / "report.json"
    done = home.typical(one.name, "--sandbox-report", "--report", str(report))
    assert (done.code, done.err) == (0, b"")
    facts = orjson.loads(report.read_bytes())["sandbox"]
    answers = [orjson.loads(line) for line in done.lines]
    assert len(answers) >= 5
    for answer in answers:
        assert {"attempt", "expected", "kernel"} <= set(answer)
        if set(facts.values()) == {"enforced"}:
            assert answer["kernel"] == answer["expected"], answer
    assert not home.runs


@each
def test_a_required_sandbox_is_whole_or_the_run_fails(one: support.Executable, home: support.Home) -> None:
    report = home.root / "report.json"
    done = home.typical(one.name, "--require-sandbox", "--report", str(report))
    facts = orjson.loads(report.read_bytes())["sandbox"]
    if one.name == "ls-clean":
        facts.pop("signal")  # It is there to signal.
    if one.name == "ls-query":
        facts.pop("signal")  # It stops its own stages.
    if set(facts.values()) == {"enforced"}:
        assert done.code == 0 and done.out
    else:
        assert (done.code, done.out) == (5, b"")
        support.assert_one_line(done.err, one.name)
