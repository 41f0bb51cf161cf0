"""A Chromium as its debugging port shows it, played by a real listening socket, well behaved or not.

As a program, `cdpserver.py PROFILE URL`, it shows one tab until its standard input ends, and then says what was asked.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

GUID = "/devtools/browser/0d1f3a52-6c1f-4b9c-9b5e-3f0a2b1c4d5e"
DEFAULT, PRIVATE = "D" * 32, "F" * 32
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

#: What is sent back for one message of the client: any number of messages, or bytes as they are.
Reply = Callable[["Browser", dict[str, Any]], list[Any]]


def page(number: int, url: str, title: str = "", context: str = DEFAULT, **more: Any) -> dict[str, Any]:
    """A target as `Target.getTargets` lists it."""
    return {"targetId": f"{number:032X}", "type": "page", "title": title, "url": url, "attached": False,
            "canAccessOpener": False, "browserContextId": context, **more}


class Browser:
    """Listens on the loopback with files open in a profile, as the browser that has it loaded does.

    `version` and `socket` are what it does with a connection that asks for /json/version, or for a websocket: they
    get the connection and the head of the request. `answers` has results by method. `root` is where its file is,
    `held` which file of each profile in `loaded` it has open.
    """

    def __init__(self, profile: Path, *targets: dict[str, Any], loaded: list[Path] | None = None, file: bool = True,
                 host: str = "127.0.0.1", root: Path | None = None, held: str = "Sessions/held") -> None:
        self.profile, self.targets = profile, list(targets)
        self.heads: list[str] = []
        self.methods: list[str] = []
        self.connections = 0
        self.gone = threading.Event()
        self.version: Callable[[socket.socket, str], None] = self.tell_version
        self.socket: Callable[[socket.socket, str], None] = self.converse
        self.answers: dict[str, Any] = {
            "Target.getBrowserContexts": {"browserContextIds": [], "defaultBrowserContextId": DEFAULT},
            "Target.detachFromTarget": {}}
        self.reply: Reply = Browser.usual
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family)
        self.port = self.listener.getsockname()[1]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._held = []
        for folder in [profile] if loaded is None else loaded:
            (folder / held).parent.mkdir(parents=True, exist_ok=True)
            self._held.append(os.open(folder / held, os.O_RDWR | os.O_CREAT, 0o600))
        if file:
            ((root or profile.parent) / "DevToolsActivePort").write_text(f"{self.port}\n{GUID}")
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.gone.set()
        self.listener.close()
        for fd in self._held:
            os.close(fd)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                more = connection.recv(4096)
                if not more:
                    return
                head += more
            text = head.decode()
            self.heads.append(text)
            (self.version if text.startswith("GET /json/version ") else self.socket)(connection, text)

    # What a browser does

    def tell_version(self, connection: socket.socket, _head: str) -> None:
        self.send_json(connection, {"Browser": "Chrome/156.0", "webSocketDebuggerUrl":
                                    f"ws://{self.address}{GUID}"})

    def send_json(self, connection: socket.socket, value: Any) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type:application/json\r\nContent-Length:%d\r\n\r\n%s"
                           % (len(body), body))

    def shake(self, connection: socket.socket, head: str) -> None:
        found = re.search(r"(?i)sec-websocket-key: *(\S+)", head)
        assert found is not None
        accept = base64.b64encode(hashlib.sha1((found[1] + _MAGIC).encode()).digest()).decode()
        connection.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Accept: {accept}\r\n\r\n").encode())

    def converse(self, connection: socket.socket, head: str) -> None:
        self.shake(connection, head)
        stream = connection.makefile("rb")
        while (message := _message(stream)) is not None:
            self.methods.append(message["method"])
            for answer in self.reply(self, message):
                connection.sendall(answer if isinstance(answer, bytes) else frame(answer))

    def usual(self, message: dict[str, Any]) -> list[Any]:
        result = self.answers.get(message["method"])
        if message["method"] == "Target.getTargets" and result is None:
            result = {"targetInfos": self.targets}
        found = {"id": message["id"], "result": result} if result is not None else {
            "id": message["id"], "error": {"code": -32601, "message": "no such method"}}
        return [found | ({"sessionId": message["sessionId"]} if "sessionId" in message else {})]

    # What no browser does

    def refuse(self, status: str, *headers: str) -> Callable[[socket.socket, str], None]:
        """Answer with nothing but this."""
        text = "\r\n".join([f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "", ""])
        return lambda connection, _head: connection.sendall(text.encode())

    def hang(self, connection: socket.socket, _head: str) -> None:
        """Say nothing, and do not go away."""
        self.gone.wait()

    def drip(self, connection: socket.socket, _head: str) -> None:
        """One byte every half second."""
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b" " * 1000:
            connection.sendall(bytes([byte]))
            if self.gone.wait(0.5):
                return

    def flood(self, connection: socket.socket, _head: str) -> None:
        """A hundred megabytes of headers."""
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(100_000):
            connection.sendall(b"X-Padding: " + b"x" * 1000 + b"\r\n")


def frame(value: Any, opcode: int = 1) -> bytes:
    """A websocket frame of a server."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    if len(data) < 126:
        return bytes([0x80 | opcode, len(data)]) + data
    if len(data) < 1 << 16:
        return bytes([0x80 | opcode, 126]) + struct.pack(">H", len(data)) + data
    return bytes([0x80 | opcode, 127]) + struct.pack(">Q", len(data)) + data


def _message(stream: Any) -> dict[str, Any] | None:
    """The next message of the client, who masks them; None at its goodbye."""
    while True:
        head = stream.read(2)
        if len(head) < 2:
            return None
        length = head[1] & 127
        if length == 126:
            length, = struct.unpack(">H", stream.read(2))
        elif length == 127:
            length, = struct.unpack(">Q", stream.read(8))
        mask, data = stream.read(4), stream.read(length)
        if head[0] & 15 == 8:
            return None
        if head[0] & 15 == 1:
            found: dict[str, Any] = json.loads(bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)))
            return found


if __name__ == "__main__":
    with Browser(Path(sys.argv[1]), page(1, sys.argv[2], "Open")) as shown:
        print(shown.port, flush=True)
        sys.stdin.read()
        print(json.dumps(shown.methods), flush=True)
