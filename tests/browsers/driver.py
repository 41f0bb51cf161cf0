"""Real browsers for the tests: started headless on a profile of their own, visiting pages of a local server only."""

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marionette
import support

_PAGE = b"<!doctype html><meta charset=utf-8><title>%s</title><p>A page of the local server."

CHROMIUM = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--remote-debugging-port=0", "--password-store=basic",
]
FIREFOX_PREFS = {
    "browser.aboutwelcome.enabled": False, "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False, "toolkit.telemetry.enabled": False,
    "app.update.enabled": False, "browser.startup.homepage_override.mstone": "ignore",
    "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
    "services.settings.server": "http://127.0.0.1:9/none", "extensions.getAddons.cache.enabled": False,
}


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        title = f"Lspipe page {self.path}".encode()
        body = _PAGE % title
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A server on the loopback; gives its base url."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_address[1]}"
        finally:
            found.shutdown()


class Browser:
    """One started browser in a process group of its own."""

    def __init__(self, command: list[str], home: Path, profile: Path) -> None:
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "MOZ_HEADLESS": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        self.profile = profile
        self.log = open(home / "browser.log", "wb")  # noqa: SIM115
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True)

    def signal(self, number: int) -> None:
        """To every process of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stopped, so that whatever changes meanwhile was changed by somebody else."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to all of it, and wait."""
        self.signal(signal.SIGKILL)
        self.process.wait(support.PATIENCE)

    def quit(self) -> None:
        """Ask it to end, and wait until it has."""
        self.process.terminate()
        self.process.wait(support.PATIENCE)

    def close(self) -> None:
        """Whatever happened."""
        if self.process.poll() is None:
            self.kill()
        self.signal(signal.SIGKILL)
        self.log.close()


@contextlib.contextmanager
def chromium(home: Path, *urls: str, hand: bool = False) -> Iterator[Browser]:
    """Chromium with its user data in the ordinary place below `home`.

    With a `hand`, an extension that can do what a person does: see Devtools.hand.
    """
    root = home / ".config/chromium"
    root.mkdir(parents=True, exist_ok=True)
    options = CHROMIUM
    if hand:
        folder = home / "hand"
        folder.mkdir(exist_ok=True)
        (folder / "manifest.json").write_text(json.dumps({
            "manifest_version": 3, "name": "hand", "version": "1", "permissions": ["tabs", "tabGroups"],
            "background": {"service_worker": "hand.js"}}))
        (folder / "hand.js").write_text("")
        options = [*(one for one in CHROMIUM if one != "--disable-extensions"), f"--load-extension={folder}",
                   "--disable-features=DisableLoadExtensionCommandLineSwitch"]
    (root / "DevToolsActivePort").unlink(missing_ok=True)
    found = Browser([shutil.which("chromium") or "chromium", *options, f"--user-data-dir={root}", *urls], home,
                    root / "Default")
    try:
        yield found
    finally:
        found.close()


class Devtools:
    """A conversation of the test's own with a running Chromium: what it does, ls-tabs never does."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._last = socket, 0

    def call(self, method: str, params: dict[str, object] | None = None, session: str | None = None) -> Any:
        """The result of a method."""
        self._last += 1
        more = {"sessionId": session} if session else {}
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": params or {}, **more}))
        return _answer(self._socket, self._last)

    def targets(self, kind: str = "page") -> list[dict[str, Any]]:
        """The targets of a kind, in one order."""
        found = self.call("Target.getTargets")["targetInfos"]
        return sorted((one for one in found if one["type"] == kind), key=lambda one: str(one["url"]))

    def run(self, target: str, script: str) -> Any:
        """What `script` gives in a page or worker."""
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        found = self.call("Runtime.evaluate", {"expression": script, "awaitPromise": True, "returnByValue": True},
                          session)
        self.call("Target.detachFromTarget", {"sessionId": session})
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def crash(self, session: str) -> None:
        """End the process of an attached page as a crash does, and wait until the browser says so."""
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": "Page.crash", "sessionId": session}))
        while json.loads(self._socket.recv(support.PATIENCE)).get("method") != "Inspector.targetCrashed":
            pass

    def hand(self, script: str) -> Any:
        """What `script` gives in the extension: it may use chrome.tabs, tabGroups and windows."""
        support.until(lambda: self.targets("service_worker"), "the extension is there")
        worker = self.targets("service_worker")[0]["targetId"]
        support.until(lambda: self.run(worker, "typeof chrome === 'object' && !!chrome.tabs"), "it has begun")
        return self.run(worker, script)


@contextlib.contextmanager
def devtools(root: Path) -> Iterator[Devtools]:
    """A connection to the Chromium whose user data is `root`, as soon as it listens."""
    from websockets.sync.client import connect

    file = root / "DevToolsActivePort"
    support.until(lambda: file.exists() and len(file.read_text().split()) == 2, "the port is told")
    port, path = file.read_text().split()
    with connect(f"ws://127.0.0.1:{port}{path}", proxy=None, max_size=None) as socket:
        yield Devtools(socket)


#: It tells the server whatever it can notice. `tell` is for the test, which so knows that all before it has come.
_WITNESS = """<!doctype html><meta charset=utf-8><title>Lspipe page %s</title><link rel=icon href="data:,"><script>
const tell = what => fetch('/saw?' + encodeURIComponent(location.pathname + ' ' + what), {method: 'POST'});
for (const name of ['visibilitychange', 'freeze', 'resume', 'selectionchange', 'fullscreenchange', 'focusin'])
  document.addEventListener(name, () => tell(name));
for (const name of ['focus', 'blur', 'resize', 'pagehide', 'beforeunload', 'hashchange', 'popstate', 'scroll'])
  addEventListener(name, () => tell(name));
const getters = [[HTMLElement.prototype, 'innerText'], [HTMLElement.prototype, 'outerText'],
  [Node.prototype, 'textContent'], [Element.prototype, 'innerHTML'], [Document.prototype, 'body'],
  [Document.prototype, 'readyState'], [Selection.prototype, 'rangeCount'], [Selection.prototype, 'isCollapsed'],
  [Document.prototype, 'title'], [HTMLInputElement.prototype, 'value'], [HTMLTextAreaElement.prototype, 'value']];
const methods = [[Document.prototype, 'getSelection'], [window, 'getSelection'], [Selection.prototype, 'toString'],
  [Selection.prototype, 'getRangeAt'], [Range.prototype, 'toString'], [String.prototype, 'slice'],
  [Object.prototype, 'toString'], [Document.prototype, 'querySelectorAll']];
addEventListener('load', () => {
  %s;
  for (const [owner, name] of getters)
    Object.defineProperty(owner, name, {configurable: true, get() { tell('read ' + name); return 'forged'; }});
  for (const [owner, name] of methods)
    owner[name] = function () { tell('called ' + name); return 'forged'; };
  new MutationObserver(() => tell('mutation')).observe(document, {subtree: true, childList: true, attributes: true});
  console.debug(Object.defineProperty(new Error(), 'stack', {get() { tell('console'); return ''; }}));
  tell('ready').then(() => { %s });
});
</script>%s"""


class Witness:
    """What a server saw: (method, path) of every request, in order. `pages` has (script, last script, body)."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.pages: dict[str, tuple[str, str, str]] = {}
        self.base = ""

    def told(self, path: str, what: str) -> bool:
        """Whether a page said so."""
        return ("POST", f"/saw?{urllib.parse.quote(f'{path} {what}', safe='')}") in self.seen


@contextlib.contextmanager
def witness() -> Iterator[Witness]:
    """A server on the loopback whose pages tell it whatever happens to them."""
    found = Witness()

    class Handler(_Handler):
        def do_GET(self) -> None:
            found.seen.append(("GET", self.path))
            script, last, body = found.pages.get(self.path, ("", "", "<p>A page of the local server."))
            self._send((_WITNESS % (self.path, script, last, body)).encode())

        def do_POST(self) -> None:
            found.seen.append(("POST", self.path))
            self._send(b"")

        def _send(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.base = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield found
        finally:
            server.shutdown()


def open_tab(root: Path, url: str) -> None:
    """Visit `url` in the Chromium whose user data is `root`, as a person would open a tab."""
    port = int((root / "DevToolsActivePort").read_text().split()[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=support.PATIENCE)
    connection.request("PUT", f"/json/new?{url}")
    assert connection.getresponse().status == 200
    connection.close()


def open_window(root: Path, url: str) -> None:
    """Visit `url` in a window of its own."""
    _create(root, {"url": url, "newWindow": True})


def open_private(root: Path, url: str) -> None:
    """Visit `url` in a context of its own that keeps nothing, as a private window does."""
    _create(root, {"url": url, "newWindow": True}, private=True)


def _create(root: Path, params: dict[str, object], private: bool = False) -> None:
    from websockets.sync.client import connect

    port, path = (root / "DevToolsActivePort").read_text().split()
    with connect(f"ws://127.0.0.1:{port}{path}", proxy=None) as socket:
        if private:
            socket.send(json.dumps({"id": 1, "method": "Target.createBrowserContext"}))
            params = {**params, "browserContextId": _answer(socket, 1)["browserContextId"]}
        socket.send(json.dumps({"id": 2, "method": "Target.createTarget", "params": params}))
        _answer(socket, 2)


def _answer(socket: Any, number: int) -> Any:
    while True:
        found = json.loads(socket.recv(support.PATIENCE))
        if found.get("id") == number:
            assert "error" not in found, found
            return found["result"]


@contextlib.contextmanager
def firefox(home: Path, *urls: str, driven: bool = False) -> Iterator[Browser]:
    """Firefox with a profile that profiles.ini names; `driven`: `marionette` can be connected to it."""
    root = home / ".mozilla/firefox"
    profile = root / "k3x9f2ab.default-release"
    if not profile.exists():
        profile.mkdir(parents=True)
        (root / "profiles.ini").write_text(
            f"[Profile0]\nName=default-release\nIsRelative=1\nPath={profile.name}\nDefault=1\n")
        (profile / "user.js").write_text("".join(
            f'user_pref("{name}", {value!r});\n'.replace("True", "true").replace("False", "false").replace("'", '"')
            for name, value in (FIREFOX_PREFS | marionette.PREFERENCES).items()))
    found = Browser([shutil.which("firefox-esr") or "firefox", "--headless", "--no-remote",
                     *(marionette.ARGUMENTS if driven else ()), "--profile", str(profile), *urls], home, profile)
    try:
        yield found
    finally:
        found.close()


def state_of(folder: Path) -> dict[str, tuple[int, int, str]]:
    """(size, mtime in ns, hash) of every regular file below `folder`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            stat = path.stat()
            found[str(path.relative_to(folder))] = (
                stat.st_size, stat.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
    return found
