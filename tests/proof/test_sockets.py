"""Every socket() and connect() of every executable, and of what it starts, is on the list in the repository: none."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sockets
import support
from support import Home

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="strace is of Linux")


@pytest.mark.parametrize("one", support.executables(), ids=str)
def test_no_socket_but_those_on_the_list(
    one: support.Executable, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """In ordinary use; of ls-query with all sources, the wiki among them."""
    home = Home(tmp_path, sample=True, wiki=one.name in ("ls-qmd", "ls-query"))
    if one.name in support.LEDGER:
        home.orphan()
    pair = support.typical(one.name)
    log = tmp_path / "strace"
    done = sockets.watched(home, log, one.name, *pair.args(home), stdin=pair.stdin)
    assert done.code == 0 and done.out, done
    assert sockets.strangers(one.name, sockets.attempts(log)) == []
    record_property("count: executables watched for sockets", 1)


def test_an_attempt_is_seen_and_judged(tmp_path: Path) -> None:
    log = tmp_path / "strace"
    body = ("import socket\n"
            "one = socket.socket()\n"
            "one.connect_ex(('127.0.0.1', 9))\n"
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))\n")
    subprocess.run([*sockets.wrapped(log), sys.executable, "-c", body], check=True)
    seen = sockets.attempts(log)
    assert len(seen) == 4
    some = ("# a comment\n"
            r"x 1 socket\(AF_INET, SOCK_STREAM\|SOCK_CLOEXEC, IPPROTO_IP\) = \d+" "\n"
            r'x 1 connect\(\d+, \{sa_family=AF_INET, sin_port=htons\(9\), sin_addr=inet_addr\("127.0.0.1"\)\}, 16\).*')
    assert sockets.strangers("x", seen, some) == seen[2:]
    assert sockets.strangers("y", seen, some) == sockets.strangers("x", seen) == seen
