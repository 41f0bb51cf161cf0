"""The empty network namespace that CI runs the suite in: what leaves is counted, whoever tries, and nothing else is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import support

NAMESPACE = str(support.ROOT / "tests" / "namespace.py")
pytestmark = pytest.mark.skipif(not Path("/proc/self/net/snmp").exists(), reason="namespaces are of Linux")

LOOPBACK = """
import socket
server = socket.create_server(("127.0.0.1", 0))
with socket.create_connection(server.getsockname()) as one, socket.socketpair()[0]:
    server.accept()[0].send(b"x")
    assert one.recv(1) == b"x"
"""
TRY = """
import socket
kinds = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
with socket.socket(socket.FAMILY, kinds["KIND"]) as one:
    try:
        one.connect(("ADDRESS", 9))
        one.send(b"x")
    except OSError as error:
        print(error.errno)
"""


def inside(*command: str) -> tuple[int, dict[str, int], str]:
    """How a command ended in a namespace of its own, the counters, and all that was printed."""
    done = subprocess.run([sys.executable, NAMESPACE, *command], capture_output=True, text=True)
    if done.returncode == 2 and done.stderr.startswith("no network namespace"):
        pytest.skip("needs the right to make a network namespace")
    found = {name: int(value) for name, value in re.findall(r"(\w+ \w+) (\d+)[, ]", done.stdout.splitlines()[-1])}
    return done.returncode, found, done.stdout + done.stderr


def test_the_loopback_works_and_is_not_counted() -> None:
    code, counted, said = inside(sys.executable, "-c", LOOPBACK)
    assert code == 0 and set(counted.values()) == {0} and len(counted) == 4, said


@pytest.mark.parametrize(("kind", "family", "address", "counter"), [
    ("tcp", "AF_INET", "192.0.2.1", "ip OutNoRoutes"), ("udp", "AF_INET", "192.0.2.1", "ip OutNoRoutes"),
    ("tcp", "AF_INET6", "2001:db8::1", "ip6 OutNoRoutes"), ("udp", "AF_INET6", "2001:db8::1", "ip6 OutNoRoutes"),
    ("udp", "AF_INET", "127.0.0.53", "udp OutDatagrams"), ("udp", "AF_INET6", "::1", "udp6 OutDatagrams")])
def test_each_attempt_to_leave_fails_the_run(kind: str, family: str, address: str, counter: str) -> None:
    body = TRY.replace("FAMILY", family).replace("KIND", kind).replace("ADDRESS", address)
    code, counted, said = inside(sys.executable, "-c", body)
    assert code == 1 and counted[counter] == 1, said


def test_a_name_that_is_asked_for_by_a_child_fails_the_run() -> None:
    body = "import subprocess; subprocess.run(['getent', 'hosts', 'example.org'])"
    code, counted, said = inside(sys.executable, "-c", body)
    assert code == 1 and sum(counted.values()) > 0, said


def test_the_commands_own_code_is_kept() -> None:
    assert inside("sh", "-c", "exit 7")[0] == 7
    assert inside("sh", "-c", "kill -9 $$")[0] == 137
