"""--report: where it goes, and that it costs nobody a file."""

import os
import signal
import stat
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
import support

from lspipe import reportfile
from lspipe.exits import Usage

ROW = b'{"source":"mine","url":"x:1"}\n'


def facts(path: Path) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(path.read_bytes())
    return found


def test_an_earlier_report_is_replaced(bare: support.Home) -> None:
    report = bare.root / "report.json"
    for rows in (3, 1):
        assert bare.run("ls-redact", "--report", str(report), stdin=ROW * rows).code == 0
        assert facts(report)["rows_out"] == rows
    report.write_bytes(report.read_bytes()[:100])  # The disk was full.
    assert bare.run("ls-redact", "--report", str(report), stdin=ROW).code == 0
    assert facts(report)["rows_out"] == 1


@pytest.mark.parametrize("args", [[], ["--since", "nonsense"], ["--no-such-option"]], ids=str)
def test_a_file_that_is_no_report_is_left_as_it_is(args: list[str], home: support.Home) -> None:
    """The consent file above all: an argument that somebody slipped in must not cost every grant."""
    mine = home.root / "mine"
    mine.write_bytes(b"mine\n")
    link = home.root / "link"
    link.symlink_to(mine)
    log = home.root / "log"
    log.write_bytes(home.run("ls-history", "--log", "json", "--profile", "nosuch").err)
    assert log.read_bytes().startswith(b'{"command":"ls-history"')
    many = home.root / "many"
    many.write_bytes(2 * home.run("ls-history", "--report", "/dev/fd/1", "nonesuch").out)
    assert many.read_bytes().startswith(b'{"command":"ls-history","version":"')
    for path in (mine, link, log, many):
        before = path.read_bytes()
        done = home.run("ls-history", "--report", str(path), *args, "rust")
        assert (done.code, done.out, path.read_bytes()) == (2, b"", before)
        if not args:
            assert f"'{path}' is no earlier report: it is left as it is".encode() in done.err


@pytest.mark.parametrize("name", ["consent.json", "config.toml", "new/report"])
def test_no_report_among_lspipes_own_files(name: str, home: support.Home) -> None:
    """An empty consent file would be one that nothing can be understood of."""
    for folder in (home.config, home.state):
        path = folder / name
        before = path.read_bytes() if path.exists() else None
        done = home.run("ls-history", "--report", str(path), "rust")
        assert (done.code, done.out) == (2, b"") and b"lspipe keeps its own files in" in done.err
        assert (path.read_bytes() if path.exists() else None) == before


def test_a_dash_is_no_file(bare: support.Home) -> None:
    done = bare.run("ls-check", "--report", "-", stdin=b"")
    assert done.code == 2 and done.err.splitlines()[1:] == [b"the open descriptor 3: --report /dev/fd/3"]
    assert not (bare.home / "-").exists()


def test_a_disk_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"a partition table")
    kind = SimpleNamespace(st_mode=stat.S_IFBLK | 0o660)
    seen = {"stat": lambda _path: kind, "fstat": lambda _fd: kind}
    monkeypatch.setattr(reportfile, "os", SimpleNamespace(**vars(os) | seen))
    with pytest.raises(Usage, match="is a disk"):
        reportfile.open_file(str(disk), None)
    assert disk.read_bytes() == b"a partition table"


@pytest.mark.parametrize("what", ["file", "report", "fifo"])
def test_what_comes_there_meanwhile_is_looked_at(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the opening: somebody's file is left as it is, another run's report replaced."""
    path, looks, look = tmp_path / "report", [], os.stat
    report = b'{"command":"ls-check","version":"0.1.0","exit":0}\n'

    def late(name: str) -> os.stat_result:
        looks.append(name)
        if len(looks) > 1:
            return look(name)
        if what == "fifo":
            os.mkfifo(path)
        else:
            path.write_bytes(report if what == "report" else b"mine\n")
        raise FileNotFoundError

    monkeypatch.setattr(reportfile, "os", SimpleNamespace(**vars(os) | {"stat": late}))
    if what == "report":
        os.close(reportfile.open_file(str(path), 0.0))
        assert path.read_bytes() == b""
    else:
        with pytest.raises(Usage if what == "file" else reportfile.Deadline):
            reportfile.open_file(str(path), 0.0)
        assert what == "fifo" or path.read_bytes() == b"mine\n"


@pytest.mark.parametrize(
    "args", [["--stats"], ["--profile", "nosuch"], ["--no-such-option"], ["--report", "{}"]], ids=str)
def test_a_reader_that_is_stuck_does_not_keep_it_alive(args: list[str], home: support.Home) -> None:
    """Neither of the messages nor of the report: nothing is left to be cleaned up by then."""
    reader, writer = support.full_pipe()
    to_report = "{}" in args
    args = [word.replace("{}", f"/dev/fd/{writer}") for word in args]
    with subprocess.Popen(support.command("ls-history", *args, "rust"), env=home.env(), cwd=home.home,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
                          stderr=subprocess.DEVNULL if to_report else writer, pass_fds=[writer]) as process:
        def ended() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        support.until(ended, "TERM ends it")
        assert process.returncode == -signal.SIGTERM
    for fd in (reader, writer):
        os.close(fd)
    assert home.runs == []


def test_an_input_is_not_emptied(bare: support.Home) -> None:
    rows = bare.root / "rows.jsonl"
    rows.write_bytes(ROW)
    done = bare.run("ls-fuse", "--report", str(rows), str(rows))
    assert (done.code, done.out, rows.read_bytes()) == (2, b"", ROW)


def test_rows_and_report_in_one_file(bare: support.Home) -> None:
    """By its name they would be written over each other; by the descriptor one comes after the other."""
    place = bare.root / "out"
    for name, code in ((str(place), 2), ("/dev/fd/1", 0), ("/dev/stdout", 0)):
        with place.open("wb") as out:
            done = subprocess.run(support.command("ls-redact", "--report", name), env=bare.env(), input=ROW, stdout=out,
                                  stderr=subprocess.PIPE, timeout=support.PATIENCE)
        assert done.returncode == code, done.stderr
        if code:
            assert place.read_bytes() == b"" and b"is where the rows go" in done.stderr
        else:
            first, second = place.read_bytes().splitlines()
            assert orjson.loads(first)["url"] == "x:1" and orjson.loads(second)["command"] == "ls-redact"


def test_a_fifo_is_waited_for_as_long_as_there_is_time(bare: support.Home) -> None:
    fifo = bare.root / "fifo"
    os.mkfifo(fifo)
    done = bare.run("ls-redact", "--report", str(fifo), "--timeout", "200ms", stdin=ROW)
    assert done.code == 6 and b"nobody reads the report" in done.err
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    assert bare.run("ls-redact", "--report", str(fifo), "--timeout", "60s", stdin=ROW).code == 0
    reader.join(support.PATIENCE)
    assert orjson.loads(read[0])["rows_out"] == 1


@pytest.mark.parametrize("name", ["/dev/fd/99", "/dev/fd/999999999", ".", "no/such/folder", "a\udc80b/c"])
def test_what_cannot_be_written_is_said_in_one_line(name: str, bare: support.Home) -> None:
    done = bare.run("ls-redact", "--report", name, stdin=ROW)
    assert done.code == 74 and done.out == b""
    assert done.err.startswith(b"ls-redact: cannot write the report '") and done.err.count(b"\n") == 1
