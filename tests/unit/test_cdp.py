"""Live tabs over ports that listen for real: a browser's, another program's, a hostile one's; through ls-tabs."""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cdpserver
import orjson
import pytest
import support
from cdpserver import DEFAULT, GUID, PRIVATE, Browser, frame, page
from sessions import simple_window
from support import Done, Home, assert_one_line
from test_browser_commands import chromium, reported
from test_tabs_command import NOW, session
from test_tabs_command import grant as granted

from lspipe.browsers import cdp, endpoint, livetabs, ports
from lspipe.browsers.endpoint import Limit
from lspipe.browsers.granted import Granted
from lspipe.live import Unusable

ON_DISK = "http://disk.test/"
A, B = "http://a.test/", "http://b.test/x"


@pytest.fixture
def profile(bare: Home) -> Path:
    """A granted profile whose session file has one tab."""
    found = chromium(bare)
    session(found, *simple_window(1, [(11, ON_DISK, "On disk")]))
    bare.consent(granted(found, data=("tabs", "tab-text")))
    return found


def live(home: Home, *more: str, **how: Any) -> Done:
    return home.run("ls-tabs", *NOW, "--from=live", *more, **how)


def urls(done: Done) -> list[str]:
    return [row["url"] for row in done.rows]


def assert_fails(home: Home, why: str) -> None:
    """Nothing can be had from the port: a clear error with --from live, the files without."""
    done = live(home)
    assert done.code == 4 and done.out == b"", done
    assert why in done.err.decode()
    assert_one_line(done.err, "ls-tabs")
    done, report = reported(home, "ls-tabs", *NOW)
    assert done.code == 0 and urls(done) == [ON_DISK] and done.err == b"", done
    assert any(why in note for note in report["notes"]), report["notes"]
    assert home.runs == []


def test_the_tabs_of_a_browser_that_listens(bare: Home, profile: Path) -> None:
    targets = [page(1, B, "Berta"), page(2, A, "Anton \x1b[2J\u202e <b>&amp;"), page(3, ON_DISK, "Still open"),
               page(4, "http://secret.test/", "Secret", PRIVATE), page(5, "chrome://settings/", "Settings"),
               page(6, "http://worker.test/", type="service_worker"), page(7, "http://soon.test/", subtype="prerender"),
               page(8, "http://ui.test/", type="browser_ui")]
    with Browser(profile, *targets) as browser:
        done, report = reported(bare, "ls-tabs", *NOW)
    assert done.code == 0 and done.err == b"", done
    rows = {row["url"]: row for row in done.rows}
    assert set(rows) == {A, B, ON_DISK}
    assert rows[ON_DISK]["title"] == "Still open" and rows[ON_DISK]["meta"]["window"] == 1
    assert rows[A]["title"] == "Anton \x1b[2J\u202e <b>&amp;" and "window" not in rows[A]["meta"]
    assert b"\x1b" not in done.out and "\u202e".encode() not in done.out
    assert {row["provenance"]["method"] for row in done.rows} == {"cdp"}
    assert [note for note in report["notes"] if "1 tab of a private window" in note]
    assert browser.methods == ["Target.getBrowserContexts", "Target.getTargets"]
    assert [head.splitlines()[0] for head in sorted(browser.heads)] == [
        f"GET {GUID} HTTP/1.1", "GET /json/version HTTP/1.1"]
    assert browser.connections == 2 and "Origin" not in "".join(browser.heads)
    assert bare.run("ls-tabs", *NOW, "--from=disk").rows[0]["id"] == rows[ON_DISK]["id"]


def test_tabs_alike_find_their_windows_one_to_one(bare: Home, profile: Path) -> None:
    session(profile, *simple_window(1, [(11, A, "one"), (12, A, "two"), (13, A, ""), (14, B, "gone")]))
    targets = [page(1, A, "two"), page(2, A, "new"), page(3, A, "one"), page(4, A, "fourth")]
    with Browser(profile, *targets):
        rows = live(bare).rows
    places = {row["title"]: row["meta"].get("index") for row in rows}
    assert places["one"] == 0 and places["two"] == 1 and len(rows) == 4
    assert sorted([places["new"], places["fourth"]], key=str) == [2, None]
    assert len({row["id"] for row in rows}) == 4


def test_the_order_does_not_depend_on_the_browser(bare: Home, profile: Path) -> None:
    targets = [page(number, f"http://{number % 7}.test/", str(number)) for number in range(200)]
    outs = []
    for order in (targets, targets[::-1]):
        with Browser(profile, *order):
            outs.append(live(bare).out)
    assert outs[0] == outs[1] and outs[0].count(b"\n") == 200


def test_a_large_answer(bare: Home, profile: Path) -> None:
    with Browser(profile, *[page(number, A, "x" * 10_000) for number in range(300)]):
        assert len(live(bare, "-n", "1000").rows) == 300


@pytest.mark.parametrize("contexts", [
    {"browserContextIds": []}, {"browserContextIds": [DEFAULT], "defaultBrowserContextId": DEFAULT},
    {"defaultBrowserContextId": ""}, {"defaultBrowserContextId": 7}], ids=str)
def test_a_browser_that_does_not_say_what_is_private(bare: Home, profile: Path, contexts: dict[str, Any]) -> None:
    with Browser(profile, page(1, A)) as browser:
        browser.answers["Target.getBrowserContexts"] = contexts
        assert_fails(bare, "does not say which tabs are private")


def test_what_a_browser_says_is_cut_here_too(bare: Home, profile: Path) -> None:
    long = "x " * 250_000 + "needle"
    text = {"state": "complete", "url": A, "text": long, "selection": long}
    with Browser(profile, page(1, A, "y " * 32_768 + "needle")) as browser:
        browser.answers |= {
            "Target.attachToTarget": {"sessionId": "S"}, "Page.createIsolatedWorld": {"executionContextId": 1},
            "Runtime.evaluate": {"result": {"value": text}}}
        assert live(bare, "--text", "needle").rows == []
        assert len(live(bare, "--text", "x").rows) == 1


# Who listens


def test_a_stale_file(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A)) as browser:
        pass
    done = bare.run("ls-tabs", *NOW)
    assert urls(done) == [ON_DISK] and done.code == 0
    done = live(bare)
    assert done.code == 5 and f"listens on {browser.address}" in done.err.decode()
    assert_one_line(done.err, "ls-tabs")


def test_a_port_of_another_program_is_not_connected_to(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A), loaded=[]) as other:
        assert live(bare).code == 5
        assert live(bare, "--cdp", other.address).code == 5
        assert urls(bare.run("ls-tabs", *NOW)) == [ON_DISK]
    assert other.connections == 0


def test_a_browser_of_another_folder_is_not_asked(bare: Home, profile: Path) -> None:
    other = bare.home / "elsewhere/Default"
    session(other, *simple_window(1, [(11, A, "x")]))
    with Browser(other, page(1, A)) as browser:
        (profile.parent / "DevToolsActivePort").write_text(f"{browser.port}\n{GUID}")
        assert live(bare).code == 5
    assert browser.connections == 0


def test_a_port_that_its_browser_does_not_hold(bare: Home, profile: Path) -> None:
    """The browser of the profile is at work, but it is another program that listens where its file says."""
    folder = bare.home / "elsewhere/Default"
    with Browser(profile, page(1, A), file=False) as browser, subprocess.Popen(
            [sys.executable, cdpserver.__file__, str(folder), B], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        (profile.parent / "DevToolsActivePort").write_text(f"{port}\n{GUID}")
        assert live(bare).code == 5
        assert live(bare, f"--cdp=127.0.0.1:{port}").code == 5
        assert urls(bare.run("ls-tabs", *NOW)) == [ON_DISK]
        out, _ = other.communicate(timeout=support.PATIENCE)
    assert orjson.loads(out) == [] and browser.connections == 0


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_port_of_another_user_is_not_connected_to(bare: Home, profile: Path) -> None:
    """Whatever files he has open, and whatever the lock of the profile says."""
    (profile / "Sessions/held").touch()
    listens = ("import socket, sys\nwith socket.create_server(('127.0.0.1', 0)) as one:\n"
               "    print(one.getsockname()[1], flush=True)\n    sys.stdin.read()\n    one.setblocking(False)\n"
               "    try:\n        one.accept()\n    except BlockingIOError:\n        print('nobody came')\n")
    with open(profile / "Sessions/held") as held, subprocess.Popen(
            [shutil.which("python3", path=os.defpath) or sys.executable, "-c", listens], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, user=65534, group=65534, extra_groups=[], pass_fds=[held.fileno()],
            cwd="/") as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        (profile.parent / "DevToolsActivePort").write_text(f"{port}\n{GUID}")
        (profile.parent / "SingletonLock").symlink_to(f"host-{other.pid}")
        assert live(bare).code == 5
        assert other.communicate(timeout=support.PATIENCE)[0] == b"nobody came\n"


def test_a_connection_that_leads_elsewhere(monkeypatch: pytest.MonkeyPatch, recorder: tuple[str, list[Any]]) -> None:
    """As where something between us and the port bends it: nothing is said to whoever is there."""
    class Bent(socket.socket):
        def connect(self, _address: Any) -> None:
            super().connect(target)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = listener.getsockname()
        monkeypatch.setattr(endpoint.socket, "socket", Bent)
        with pytest.raises(Unusable, match="leads to"):
            endpoint.Wires(ports.parse(recorder[0]), 5.0)
        monkeypatch.undo()
        assert listener.accept()[0].recv(1) == b""


def test_a_profile_that_is_not_granted_is_never_shown(bare: Home, profile: Path) -> None:
    other = profile.parent / "Profile 1"
    session(other, *simple_window(1, [(11, A, "x")]))
    for loaded in ([other], [profile, other]):
        with Browser(profile, page(1, A), loaded=loaded) as browser:
            done, report = reported(bare, "ls-tabs", *NOW)
            assert urls(done) == [ON_DISK] and any("other profiles open" in note for note in report["notes"])
            done = live(bare)
            assert done.code == 5 and b"other profiles open" in done.err
        assert browser.connections == 0
    bare.consent(granted(profile), granted(other))
    with Browser(profile, page(1, A), page(2, B), loaded=[profile, other]) as browser:
        done = bare.run("ls-tabs", *NOW)
        assert {(row["url"], row["provenance"]["profile"], row["provenance"]["method"]) for row in done.rows} == {
            (A, "Profile 1", "cdp"), (B, "Profile 1", "cdp"), (ON_DISK, "Default", "session")}
        assert bare.run("ls-tabs", *NOW, "--profile", "Default").rows[0]["url"] == ON_DISK
        assert browser.connections == 2, "of two profiles only one was asked for, and the browser has both"
        browser.targets = [page(1, "http://neither.test/")]
        done, report = reported(bare, "ls-tabs", *NOW)
        assert set(urls(done)) == {A, ON_DISK} and any("whose tabs" in note for note in report["notes"])


def test_a_profile_behind_a_link_is_no_less_one_that_is_not_granted(bare: Home, profile: Path) -> None:
    elsewhere, link = bare.home / "elsewhere", profile.parent / "Profile 1"
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    with Browser(profile, page(1, A), loaded=[profile, link], held="History") as browser:
        for there in (True, False):
            assert urls(bare.run("ls-tabs", *NOW)) == [ON_DISK]
            done = live(bare)
            assert done.code == 5 and b"other profiles open" in done.err
            if there:
                link.unlink()  # The browser has it open all the same.
    assert browser.connections == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_user_at_a_more_exact_address_is_not_connected_to(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A), host="::") as browser:
        os.seteuid(65534)
        try:
            other = socket.create_server(("127.0.0.1", browser.port))
        finally:
            os.seteuid(0)
        with other:
            assert live(bare).code == 5
            assert urls(bare.run("ls-tabs", *NOW)) == [ON_DISK]
            other.setblocking(False)
            with pytest.raises(BlockingIOError):
                other.accept()


def test_a_profile_that_is_the_whole_folder_of_its_browser(bare: Home) -> None:
    opera = bare.home / ".config/opera"
    session(opera, *simple_window(1, [(11, ON_DISK, "On disk")]))
    (opera / "Local State").write_text("{}")
    bare.consent(granted(opera, "opera"))
    with Browser(opera, page(1, A), root=opera, held="History"):
        assert urls(live(bare)) == [A]
    with Browser(opera, page(1, A), root=opera, held="Default/History") as browser:
        assert live(bare).code == 5 and browser.connections == 0


def test_an_address_given(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A), file=False) as browser:
        assert urls(live(bare, "--cdp", browser.address)) == [A]
        assert urls(live(bare, env=bare.env(LSPIPE_CDP=browser.address))) == [A]
        assert live(bare).code == 5, "nothing says where it is"
    with Browser(profile, page(1, A), file=False, host="::1") as browser:
        assert urls(live(bare, "--cdp", browser.address)) == [A]
    with Browser(profile, page(1, A)) as browser:
        assert urls(bare.run("ls-tabs", *NOW, "--cdp", "127.0.0.1:1")) == [ON_DISK]
        assert browser.connections == 0, "another address was named"


@pytest.mark.parametrize("address", ["localhost:9222", "10.0.0.1:9222", "127.0.0.1", "127.0.0.2:9222", "[::2]:1",
                                     "127.0.0.1:0", "127.0.0.1:70000", "http://127.0.0.1:9222", "127.0.0.1:9222\n"])
def test_no_other_address(bare: Home, profile: Path, address: str) -> None:
    for done in (live(bare, f"--cdp={address}"), bare.run("ls-tabs", *NOW, env=bare.env(LSPIPE_CDP=address))):
        assert done.code == 2 and b"127.0.0.1:PORT" in done.err
        assert_one_line(done.err, "ls-tabs")


def test_options_that_contradict_each_other(bare: Home, profile: Path) -> None:
    for args in (("--closed", "--from=live"), ("--closed", "--text"), ("--text", "--from=disk"),
                 ("--device=all", "--text"), ("--device=all", "--from=live"), ("--device=all", "--closed")):
        done = bare.run("ls-tabs", *args)
        assert done.code == 2
        assert_one_line(done.err, "ls-tabs")


def test_a_profile_without_live_mode(bare: Home, profile: Path) -> None:
    firefox = bare.home / ".mozilla/firefox/x.default"
    firefox.mkdir(parents=True)
    bare.consent(granted(profile), granted(firefox, "firefox"))
    with Browser(profile, page(1, A)):
        done, report = reported(bare, "ls-tabs", *NOW, "--from=live")
        assert done.code == 0 and urls(done) == [A]
        assert [one["profile"] for one in report["skipped"]] == ["x.default"]
        assert live(bare, "--profile=firefox").code == 5
        assert live(bare, "--profile=firefox", "--profile=chromium").code == 7


def test_live_needs_no_session_file(bare: Home) -> None:
    found = chromium(bare)
    found.mkdir(parents=True, exist_ok=True)
    (found / "History").write_bytes(b"")
    bare.consent(granted(found))
    with Browser(found, page(1, A)):
        done = bare.run("ls-tabs", *NOW)
        assert urls(done) == [A] and "saved_at" not in done.rows[0]["meta"] and done.err == b""


# Hostile


@pytest.mark.parametrize("way", ["hang", "drip"])
@pytest.mark.parametrize("where", ["version", "socket"])
def test_a_port_that_takes_its_time(bare: Home, profile: Path, way: str, where: str) -> None:
    with Browser(profile, page(1, A)) as browser:
        setattr(browser, where, getattr(browser, way))
        done, report = reported(bare, "ls-tabs", *NOW)
        assert done.code == 0 and urls(done) == [ON_DISK], done
        assert any("did not answer in time" in note for note in report["notes"])
        done = live(bare, "--timeout=1")
        assert done.code == 6 and done.out == b"", done
        assert_one_line(done.err, "ls-tabs")


def test_one_deadline_for_all_that_is_read(bare: Home, profile: Path) -> None:
    """However often a little comes."""
    def drip(connection: socket.socket, _head: str) -> None:
        for _ in range(100):
            connection.sendall(b"HTTP/1.1 ")
            if browser.gone.wait(0.05):
                return

    with Browser(profile, page(1, A)) as browser:
        browser.version = drip
        wires = endpoint.Wires(ports.parse(browser.address), 5.0)
        with contextlib.closing(wires), pytest.raises(Unusable) as raised:
            endpoint.socket_path(wires, Limit(0.5, 1 << 20))
        assert raised.value.reason == "late"


def test_one_count_of_bytes_for_all_that_is_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x" * 1000)
        limit = Limit(5.0, 999)
        assert endpoint.read(ours, limit, 500) == b"x" * 500
        with pytest.raises(Unusable, match="more than any browser"):
            endpoint.read(ours, limit, 500)


def test_a_deadline_of_its_own(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A)) as browser:
        browser.socket = browser.hang
        done = live(bare)
        assert done.code == 4 and b"did not answer in time" in done.err


@pytest.mark.parametrize("where", ["version", "socket"])
def test_endless_headers(bare: Home, profile: Path, where: str) -> None:
    with Browser(profile, page(1, A)) as browser:
        setattr(browser, where, browser.flood)
        assert_fails(bare, "no HTTP answer" if where == "version" else "its debugging port refuses")


@pytest.mark.parametrize("body", [
    b"", b"{", b"null", b"[]", b"7", b'"ws://x"', b"{}", b'{"Browser": "x"}', b'{"webSocketDebuggerUrl": 7}',
    b'{"Browser":"x","webSocketDebuggerUrl":"ws://127.0.0.1:1/devtools/page/1"}',
    b'{"Browser":"x","webSocketDebuggerUrl":"ws://127.0.0.1:1/devtools/browser/a/../../page"}',
    b'{"Browser":"x","webSocketDebuggerUrl":"ws://127.0.0.1:1/devtools/browser/a\\r\\nX: y"}',
    b'{"Browser":7,"webSocketDebuggerUrl":"ws://127.0.0.1:1' + GUID.encode() + b'"}',
    b"[" * 100_000, b"\xff\xfe"], ids=lambda body: body[:40].decode("latin-1"))
def test_json_of_another_shape(bare: Home, profile: Path, body: bytes) -> None:
    with Browser(profile, page(1, A)) as browser:
        browser.version = lambda connection, _head: browser.send_json(connection, body)
        assert_fails(bare, "is no Chromium browser")
    assert not any("Upgrade" in head for head in browser.heads)


def test_a_body_without_end(bare: Home, profile: Path) -> None:
    def endless(connection: socket.socket, _head: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not browser.gone.is_set():
            connection.sendall(b" " * 65_536)

    with Browser(profile, page(1, A)) as browser:
        browser.version = endless
        assert_fails(bare, "more than any browser does")


@pytest.fixture
def recorder() -> Iterator[tuple[str, list[Any]]]:
    """A port that must not be connected to, and who did."""
    came: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield f"127.0.0.1:{listener.getsockname()[1]}", came
        with contextlib.suppress(BlockingIOError):
            came.append(listener.accept()[1])
    assert came == []


def test_a_websocket_on_another_host(bare: Home, profile: Path, recorder: tuple[str, list[Any]]) -> None:
    """Of the url that it tells only the path is taken."""
    with Browser(profile, page(1, A)) as browser:
        browser.version = lambda connection, _head: browser.send_json(
            connection, {"Browser": "x", "webSocketDebuggerUrl": f"ws://{recorder[0]}{GUID}"})
        assert urls(live(bare)) == [A]


def test_another_browser_than_the_file_says(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A)) as browser:
        browser.version = lambda connection, _head: browser.send_json(
            connection, {"Browser": "x", "webSocketDebuggerUrl": f"ws://{browser.address}/devtools/browser/other"})
        assert_fails(bare, "another browser answers")


@pytest.mark.parametrize("where", ["version", "socket"])
def test_a_redirect_is_not_followed(bare: Home, profile: Path, where: str, recorder: tuple[str, list[Any]]) -> None:
    with Browser(profile, page(1, A)) as browser:
        setattr(browser, where, browser.refuse("302 Found", f"Location: http://{recorder[0]}/json/version"))
        assert_fails(bare, "is no Chromium browser" if where == "version" else "refuses the connection")


@pytest.mark.parametrize("status", ["201 Created", "302 Found", "500 Internal Server Error"])
def test_what_is_no_plain_answer_says_nothing(bare: Home, profile: Path, status: str) -> None:
    """Also where its body is one."""
    body = orjson.dumps({"Browser": "x", "webSocketDebuggerUrl": f"ws://127.0.0.1:1{GUID}"})
    with Browser(profile, page(1, A)) as browser:
        browser.version = lambda connection, _head: connection.sendall(
            f"HTTP/1.1 {status}\r\nLocation: /\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        assert_fails(bare, "is no Chromium browser")
    assert not any("Upgrade" in head for head in browser.heads)


def test_proxies_are_not_asked(bare: Home, profile: Path, recorder: tuple[str, list[Any]]) -> None:
    proxies = {f"{name}_proxy": f"http://{recorder[0]}" for name in ("http", "https", "all", "ws", "socks")}
    env = bare.env(**proxies, **{name.upper(): value for name, value in proxies.items()})
    with Browser(profile, page(1, A)):
        assert urls(live(bare, env=env)) == [A]


@pytest.mark.parametrize("status", ["403 Forbidden", "404 Not Found", "500 Internal Server Error", "200 OK"])
def test_a_handshake_refused(bare: Home, profile: Path, status: str) -> None:
    with Browser(profile, page(1, A)) as browser:
        browser.socket = browser.refuse(status)
        assert_fails(bare, "refuses the connection")


MESSAGES: dict[str, tuple[bytes, str]] = {
    "no JSON": (frame(b"\xff\xfe{"), "does not speak the protocol"),
    "a list": (frame(b"[1]"), "does not speak the protocol"),
    "deep": (frame(b"[" * 100_000), "does not speak the protocol"),
    "a deep list": (frame(b'{"id":1,"result":{"targetInfos":' + b"[" * 900 + b"]" * 900 + b"}}"),
                    "does not speak the protocol"),
    "many lists": (frame(b'{"id":1,"result":{"x":[' + b"[]," * 1_000_000 + b"[]]}}"), "more values than any browser"),
    "an error": (frame({"id": 1, "error": {"code": 1}}), "refuses Target.getBrowserContexts"),
    "a result of another shape": (frame({"id": 1, "result": []}), "refuses Target.getBrowserContexts"),
    "targets of another shape": (
        frame({"id": 1, "result": {"defaultBrowserContextId": DEFAULT}})
        + frame({"id": 2, "result": {"targetInfos": {"0": 1}}}), "does not speak the protocol"),
    "a gigabyte announced": (b"\x81\x7f" + struct.pack(">Q", 1 << 30), "ended the connection"),
    "a masked frame": (b"\x81\x80abcd", "ended the connection"),
    "reserved bits": (b"\xf1\x00", "ended the connection"),
    "goodbye": (frame(struct.pack(">H", 1001), 8), "ended the connection"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_of_another_kind(bare: Home, profile: Path, case: str) -> None:
    data, why = MESSAGES[case]
    with Browser(profile, page(1, A)) as browser:
        browser.reply = lambda _self, message: [data] if message["id"] == 1 else []
        assert_fails(bare, why)


def test_a_browser_that_dies_in_the_middle(bare: Home, profile: Path) -> None:
    def die(connection: socket.socket, head: str) -> None:
        browser.shake(connection, head)
        connection.sendall(frame({"id": 1, "result": {}})[:-3])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with Browser(profile, page(1, A)) as browser:
        browser.socket = die
        assert_fails(bare, "")
        assert live(bare).code == 4


def test_noise_before_the_answer(bare: Home, profile: Path) -> None:
    """Events, pings, answers to nobody, targets that are none, a message in pieces: all of it is passed over."""
    noise = [frame({"method": "Target.targetCreated", "params": {}}), frame(b"ping", 9), frame({"id": 99}),
             frame({"id": [], "result": {}}), frame({})]

    def answer(self: Browser, message: dict[str, Any]) -> list[Any]:
        whole = frame(*self.usual(message))
        return [*noise, whole]

    with Browser(profile, page(1, A), {"type": "page"}, page(2, "", "no url"), page(3, B, context="")) as browser:
        browser.targets += [None, 7, page(4, B) | {"title": None, "targetId": 7}]  # type: ignore[list-item]
        browser.reply = answer
        assert urls(live(bare)) == [A]


def test_half_of_a_surrogate_pair_in_a_title(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A, "broken \ud83d title")):
        assert live(bare).rows[0]["title"] == "broken ? title"


def test_endless_pings(bare: Home, profile: Path) -> None:
    def ping(connection: socket.socket, head: str) -> None:
        browser.shake(connection, head)
        while not browser.gone.is_set():
            connection.sendall(frame(b"x" * 100, 9) * 100)

    with Browser(profile, page(1, A)) as browser:
        browser.socket = ping
        done = live(bare, "--timeout=1")
        assert done.code in (4, 6) and done.out == b""


# The text of pages


WORLD = {"executionContextId": 1}
SHOWN = {"url": A, "state": "complete", "text": "Words on the page, a needle too", "selection": "needle"}


def told(value: Any) -> dict[str, Any]:
    return {"result": {"type": "object", "value": value}}


def with_text(browser: Browser, **answers: Any) -> None:
    """Let pages be attached to; of each what is evaluated in it, by the last digit of its number."""
    def reply(self: Browser, message: dict[str, Any]) -> list[Any]:
        number = message.get("params", {}).get("targetId") or message.get("sessionId", "")
        special = answers.get(f"{message['method'].rpartition('.')[2]}{number[-1:]}")
        if callable(special):
            return list(special(message))
        if special is not None:
            return [{"id": message["id"], "sessionId": message.get("sessionId"), "result": special}]
        if message["method"] == "Target.attachToTarget":
            assert message["params"]["flatten"] is True
            return [{"method": "Target.attachedToTarget", "params": {"sessionId": number}},
                    {"id": message["id"], "result": {"sessionId": number}}]
        return self.usual(message)

    browser.answers |= {"Page.createIsolatedWorld": WORLD, "Runtime.evaluate": told(SHOWN)}
    browser.reply = reply


def test_the_text_of_pages(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A, "Anton"), page(2, "chrome://settings/"), page(3, B, "", PRIVATE)) as browser:
        with_text(browser)
        done = bare.run("ls-tabs", *NOW, "--text", "needle")
    (row,) = done.rows
    assert row["snippet"] == SHOWN["text"] and row["matched_terms"] == ["needle"]
    assert row["meta"]["text_status"] == "ok" and row["meta"]["selection"] == "needle"
    assert row["provenance"]["method"] == "cdp" and row["provenance"]["private"] is True
    assert browser.methods == ["Target.getBrowserContexts", "Target.getTargets", "Target.attachToTarget",
                               "Page.createIsolatedWorld", "Runtime.evaluate", "Target.detachFromTarget"]


def test_a_page_is_asked_in_a_world_of_its_own_and_may_change_nothing(bare: Home, profile: Path) -> None:
    asked = []

    def keep(message: dict[str, Any]) -> list[Any]:
        asked.append(message["params"])
        return [{"id": message["id"], "sessionId": message["sessionId"], "result": told(SHOWN)}]

    with Browser(profile, page(1, A)) as browser:
        with_text(browser, evaluate1=keep)
        assert bare.run("ls-tabs", *NOW, "--text").rows[0]["meta"]["text_status"] == "ok"
    (one,) = asked
    assert one["contextId"] == WORLD["executionContextId"]
    assert one["throwOnSideEffect"] is True and one["userGesture"] is False


def test_pages_that_give_no_text(bare: Home, profile: Path) -> None:
    """Each says why, and hinders no other."""
    def nothing(_message: dict[str, Any]) -> list[Any]:
        return []

    def crash(message: dict[str, Any]) -> list[Any]:
        return [{"method": "Inspector.targetCrashed", "sessionId": message["sessionId"], "params": {}}]

    def leave(message: dict[str, Any]) -> list[Any]:
        return [{"method": "Target.detachedFromTarget", "params": {"sessionId": message["sessionId"]}}]

    def fail(message: dict[str, Any]) -> list[Any]:
        return [{"id": message["id"], "error": {"code": -32000, "message": "No target"}}]

    with Browser(profile, *[page(number, f"http://{number}.test/", f"T{number}") for number in range(10)]) as browser:
        with_text(browser, evaluate1=nothing, evaluate2=crash, createIsolatedWorld3=leave, attachToTarget4=fail,
                  createIsolatedWorld5=fail, evaluate6=told(None), evaluate7={"exceptionDetails": {}, **told(SHOWN)},
                  evaluate8=told(SHOWN | {"state": "loading"}), evaluate9=told(SHOWN | {"url": "about:blank"}))
        done = bare.run("ls-tabs", *NOW, "--text")
        assert {row["title"]: row["meta"]["text_status"] for row in done.rows} == {
            "T0": "ok", "T1": "timeout", "T2": "crashed", "T3": "gone", "T4": "gone", "T5": "failed", "T6": "failed",
            "T7": "failed", "T8": "loading", "T9": "loading"}
        assert [row["title"] for row in done.rows if "snippet" in row] == ["T0"]
        support.until(lambda: browser.methods.count("Target.detachFromTarget") == 9, "all are let go of")


def test_time_is_over_while_pages_are_read(bare: Home, profile: Path) -> None:
    """What is known by then comes out, and that it is not all."""
    with Browser(profile, page(1, A, "one"), page(2, B, "two")) as browser:
        with_text(browser, attachToTarget2=lambda _message: [])
        done = bare.run("ls-tabs", *NOW, "--text", "--timeout=8")
        assert done.code == 7 and b"time was over" in done.err
        assert {row["title"]: row["meta"]["text_status"] for row in done.rows} == {"one": "ok", "two": "timeout"}


def test_text_of_any_length_and_kind_fits_into_a_row(bare: Home, profile: Path) -> None:
    long = "\x01\u202e needle " * 30_000
    with Browser(profile, page(1, A, "one"), page(2, B, "two")) as browser:
        with_text(browser, evaluate2=told(SHOWN | {"text": long, "selection": long}))
        done = bare.run("ls-tabs", *NOW, "--text", "--max-chars", "1000000000", "title:two")
        assert done.code == 0 and done.err == b"" and len(done.rows) == 1
        assert len(done.rows[0]["text"]) > 50_000 and b"\x01" not in done.out
        assert bare.run("ls-check", stdin=done.out).code == 0
        short = bare.run("ls-tabs", *NOW, "--text", "--max-chars", "20", "title:two").rows[0]
        assert len(short["meta"]["selection"]) <= 20


def test_a_browser_that_dies_while_pages_are_read(bare: Home, profile: Path) -> None:
    def die(_message: dict[str, Any]) -> list[Any]:
        return [frame(struct.pack(">H", 1001), 8)]

    with Browser(profile, page(1, A, "one"), page(2, B, "two")) as browser:
        with_text(browser, createIsolatedWorld2=die)
        done = bare.run("ls-tabs", *NOW, "--text")
        assert {row["title"] for row in done.rows} == {"one", "two"}, done
        assert next(row for row in done.rows if row["title"] == "two")["meta"]["text_status"] == "gone"


def test_text_is_nothing_that_another_grant_implies(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A)) as browser:
        for data in (("tabs",), ("tabs", "history"), ("tab-text",)):
            bare.consent(granted(profile, data=data))
            done = bare.run("ls-tabs", "--text")
            assert done.code == 5 and done.out == b""
            assert_one_line(done.err, "ls-tabs")
    assert browser.connections == 0


# Where nobody says who listens


def test_without_proc_the_path_must_be_the_files(bare: Home, profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system without /proc: what only the browser of the file knows is asked for, and that of one profile."""
    monkeypatch.setattr(ports, "can_tell", lambda: False)
    fd = os.open(profile, os.O_RDONLY)
    one = Granted("chromium", "Default", "chromium", fd, None, str(profile))
    with contextlib.ExitStack() as stack, Browser(profile, page(1, A), loaded=[]) as browser:
        stack.callback(os.close, fd)
        line = livetabs.connect([one], None, 5.0, stack)
        session = livetabs.speak(line, Limit(5.0, 1 << 20))
        assert livetabs.whose(line, [], {}) == one and [found.url for found in cdp.listed(session).pages] == [A]
        with pytest.raises(Unusable, match="nothing says whose"):
            livetabs.connect([one], ports.parse("127.0.0.1:1"), 5.0, stack)
        browser.version = browser.refuse("404 Not Found")
        line = livetabs.connect([one], None, 5.0, stack)
        with pytest.raises(livetabs.Dialog):
            livetabs.speak(line, Limit(5.0, 1 << 20))
        with pytest.raises(Unusable, match="nothing says whose"):
            livetabs.speak_with_leave(line, Limit(5.0, 1 << 20))
        (profile.parent / "Profile 1/Sessions").mkdir(parents=True)
        with pytest.raises(Unusable, match="other profiles open"):
            livetabs.connect([one], None, 5.0, stack)


# A person is asked


def test_a_browser_that_asks_a_person_first(bare: Home, profile: Path) -> None:
    """What chrome://inspect turns on answers 404 to all but the websocket, and shows a dialog for each of these."""
    with Browser(profile, page(1, A)) as browser:
        browser.version = browser.refuse("404 Not Found")
        done, report = reported(bare, "ls-tabs", *NOW)
        assert urls(done) == [ON_DISK] and any("asks a person" in note for note in report["notes"])
        assert bare.run("ls-tabs", *NOW, "--text").code == 4
        assert not any("Upgrade" in head for head in browser.heads), "no dialog"
        done = live(bare)
        assert done.code == 0 and urls(done) == [A]
        assert_one_line(done.err, "ls-tabs")
        assert b"waiting for you" in done.err
        assert sum("Upgrade" in head for head in browser.heads) == 1, "one dialog"


def test_a_person_says_no(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A)) as browser:
        browser.version, browser.socket = browser.refuse("404 Not Found"), browser.refuse("403 Forbidden")
        done = live(bare)
        assert done.code == 4 and done.out == b""
        assert sum("Upgrade" in head for head in browser.heads) == 1, "no other try"


def test_dialogs_do_not_pile_up(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A)) as browser:
        browser.version, browser.socket = browser.refuse("404 Not Found"), browser.hang
        with bare.start("ls-tabs", *NOW, "--from=live") as first:
            assert first.stderr is not None and b"waiting for you" in first.stderr.readline()
            support.until(lambda: any("Upgrade" in head for head in browser.heads), "the first one asks", first)
            done = live(bare, "--timeout=20")
            assert done.code == 4 and b"waits for the answer" in done.err
            (row,) = [row for row in bare.run("ls-ps").rows if row["kind"] == "attach"]
            assert row["owned"] is False and row["port"] == browser.port
            assert sum("Upgrade" in head for head in browser.heads) == 1
            first.terminate()
            assert first.wait(support.PATIENCE) in (-15, 143)
    assert bare.runs == []


def test_no_dialog_where_no_file_says_that_it_is_a_browser(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, A), file=False) as browser:
        browser.version = browser.refuse("404 Not Found")
        assert live(bare, "--cdp", browser.address).code == 4
        assert not any("Upgrade" in head for head in browser.heads)

