"""Two TCP connections to one loopback port, and the one HTTP request that says how to speak with a browser there.

Both are opened before lock-down, and nothing is sent or read before it. Whatever answers is not trusted: one deadline
and one count of bytes hold for all that is read from it.
"""

import contextlib
import re
import socket
import time

import orjson

from lspipe.browsers import ports
from lspipe.browsers.ports import Address
from lspipe.exits import strerror
from lspipe.live import Unusable

_CONNECT = 2.0
_HEADERS, _BODY = 16 << 10, 256 << 10
_SOCKET = re.compile(r"wss?://[^/?#\s]*(/[^?#\s]*)\Z")
_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([0-9]{1,12})[ \t]*\r?$")


class Limit:
    """What an endpoint may take: seconds from now, and bytes. Raises Unusable where it is over."""

    def __init__(self, seconds: float, most: int) -> None:
        self.until = time.monotonic() + seconds
        self.bytes_left = most

    def left(self) -> float:
        """Seconds left, more than none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise Unusable("late", "its debugging port did not answer in time")
        return left

    def took(self, count: int) -> None:
        """Count what was read."""
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise Unusable("failed", "its debugging port sends more than any browser does")


class Wires:
    """The two connections: one for a request, one for the websocket."""

    def __init__(self, address: Address, seconds: float) -> None:
        """Connect. Raises Unusable where nobody listens."""
        self.address = address
        self._open = contextlib.ExitStack()
        try:
            self.request = self._connect(seconds)
            self.socket = self._connect(seconds)
        except OSError as error:
            self.close()
            raise Unusable("failed", f"nothing answers on {address}: {why(error)}") from None

    def _connect(self, seconds: float) -> socket.socket:
        """A connection to exactly this address, never by way of a proxy or a name."""
        family = socket.AF_INET6 if ":" in self.address.host else socket.AF_INET
        found = self._open.enter_context(socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC))
        found.settimeout(min(seconds, _CONNECT))
        found.connect(self.address)
        if found.getpeername()[:2] != self.address:
            raise OSError(f"the connection leads to {found.getpeername()[0]}")
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def close(self) -> None:
        """Let go of both; more than once is fine."""
        self._open.close()


def why(error: OSError) -> str:
    """What went wrong with a connection, in a few words."""
    return "no answer in time" if isinstance(error, TimeoutError) else strerror(error)


def read(found: socket.socket, limit: Limit, most: int = 1 << 16) -> bytes:
    """What comes next, b"" at the end. Raises Unusable."""
    try:
        found.settimeout(limit.left())
        data = found.recv(most)
    except TimeoutError:
        raise Unusable("late", "its debugging port did not answer in time") from None
    except OSError as error:
        raise Unusable("failed", f"its debugging port broke off: {why(error)}") from None
    limit.took(len(data))
    return data


def send(found: socket.socket, data: bytes, limit: Limit) -> None:
    """Send all of it. Raises Unusable."""
    try:
        found.settimeout(limit.left())
        found.sendall(data)
    except TimeoutError:
        raise Unusable("late", "its debugging port did not answer in time") from None
    except OSError as error:
        raise Unusable("failed", f"its debugging port broke off: {why(error)}") from None


def socket_path(wires: Wires, limit: Limit) -> str | None:
    """The path of the browser's websocket, from GET /json/version; None where it answers 404.

    That is the answer of a browser whose debugging was turned on in chrome://inspect: it asks a person at each
    connection. Of the websocket's url only the path is taken: its host is what the browser was asked by, or what
    somebody wants us to connect to. Raises Unusable for whatever is no browser's answer.
    """
    send(wires.request, f"GET /json/version HTTP/1.1\r\nHost: {wires.address}\r\nConnection: close\r\n\r\n".encode(),
         limit)
    status, body = _answer(wires.request, limit)
    if status == 404:
        return None
    if status == 200:
        with contextlib.suppress(orjson.JSONDecodeError, KeyError, TypeError):
            facts = orjson.loads(body)
            found = _SOCKET.match(facts["webSocketDebuggerUrl"])
            if found and ports.is_path(found[1]) and isinstance(facts["Browser"], str):
                return found[1]
    raise Unusable("failed", f"what answers on {wires.address} is no Chromium browser")


def _answer(found: socket.socket, limit: Limit) -> tuple[int, bytes]:
    """(status, body) of an HTTP answer. A redirect is an answer like any other, and never followed."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = read(found, limit)
        data += more
        if not more or (len(data) > _HEADERS and b"\r\n\r\n" not in data[:_HEADERS]):
            raise Unusable("failed", "its debugging port gives no HTTP answer")
    head, _, body = data.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r]", head + b"\r")
    if status is None:
        raise Unusable("failed", "its debugging port gives no HTTP answer")
    told = _LENGTH.search(head)
    length = int(told[1]) if told else None
    while length is None or len(body) < length:
        if len(body) > _BODY or (length or 0) > _BODY:
            raise Unusable("failed", "its debugging port sends more than any browser does")
        more = read(found, limit)
        if not more:
            break
        body += more
    return int(status[1]), body if length is None else body[:length]
