"""A client of Firefox's Marionette, just large enough to drive a test's own browser as a person would.

The protocol is that of remote/doc/marionette/Protocol.md in Firefox: packets of a length, a colon and JSON.
"""

import json
import socket
from pathlib import Path
from typing import Any

import support

#: What Firefox is started with. Without the second argument a script may not touch the browser's own windows.
ARGUMENTS = ("--marionette", "--remote-allow-system-access")
#: A port of its own, and no other preference than a person's: those for automation change what is saved.
PREFERENCES = {"marionette.port": 0, "remote.prefs.recommended": False}


class Marionette:
    """One session, in the privileged context."""

    def __init__(self, profile: Path, process: Any) -> None:
        """Wait until Firefox has said in its profile which port it listens on."""
        file = profile / "MarionetteActivePort"
        support.until(lambda: file.exists() and file.read_text().strip(), "Marionette listens", process)
        self._socket = socket.create_connection(("127.0.0.1", int(file.read_text())), support.PATIENCE)
        self._rest = b""
        self._number = 0
        self._receive()  # Its greeting.
        self.send("WebDriver:NewSession", {})
        self.send("Marionette:SetContext", {"value": "chrome"})

    def send(self, command: str, parameters: dict[str, Any]) -> Any:
        """The answer to a command."""
        self._number += 1
        data = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(data), data))
        _, number, error, result = self._receive()
        assert number == self._number and error is None, error
        return result

    def run(self, script: str, *arguments: Any) -> Any:
        """What an asynchronous script in a browser window returns."""
        found = self.send("WebDriver:ExecuteAsyncScript", {
            "script": "const [...given] = arguments; const done = given.pop();"
                      f"(async (...args) => {{ {script} }})(...given).then(done, e => done('failed: ' + e));",
            "args": list(arguments), "scriptTimeout": int(support.PATIENCE * 1000)})["value"]
        assert not str(found).startswith("failed: "), found
        return found

    def close(self) -> None:
        """Let go of the connection; Firefox goes on."""
        self._socket.close()

    def _receive(self) -> Any:
        while b":" not in self._rest:
            self._rest += self._more()
        size, _, rest = self._rest.partition(b":")
        while len(rest) < int(size):
            rest += self._more()
        self._rest = rest[int(size):]
        return json.loads(rest[:int(size)])

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 16)
        assert data, "Firefox hung up"
        return data
