"""A conversation with a running Chromium by the Chrome DevTools Protocol, over one socket, that changes nothing.

What is sent is `Target.getTargets` and `Target.getBrowserContexts` for a list, and for what a page holds a session of
its own per page, attached and detached again. No domain is enabled, nothing is navigated, activated or closed.
The protocol: https://chromedevtools.github.io/devtools-protocol/ (domains Target, Page).
"""

import contextlib
import select
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson

from lspipe.browsers import endpoint, jsonfile
from lspipe.browsers.endpoint import Limit, Wires
from lspipe.live import Unusable
from lspipe.stream import DEPTH_CAP, depth

T = TypeVar("T")
Params = dict[str, Any]

#: No answer is larger, in bytes: that of a thousand tabs has half a mebibyte. All of them together are counted too.
ANSWER_MOST, MOST = 16 << 20, 64 << 20
#: Characters of a title that are searched; a browser keeps 4096.
_TITLE = 1 << 16
#: Seconds for one page, from when it was attached to.
EACH = 3.0
_GOODBYE = 0.1


class Page(NamedTuple):
    """A tab as the browser tells it."""

    id: str
    url: str
    title: str


class Listed(NamedTuple):
    """The pages of the default context, and how many there are in others: private windows, other profiles."""

    pages: list[Page]
    elsewhere: int


class Entry(NamedTuple):
    """A page in the back and forward list of a tab; `current` is the one that it shows."""

    url: str
    title: str
    current: bool


class Outcome(NamedTuple):
    """What a page gave: `status` is ok, timeout, crashed, gone or failed; `value` is there only with ok."""

    status: str
    value: Any = None


#: What is asked of one attached page: yields (method, params), gets the result, returns what it found or an Outcome.
Script = Callable[[Page], Generator[tuple[str, Params], Params, Any]]


class Refusal(Exception):
    """An answer that is an error: raised in a script at the question."""


class Session:
    """A websocket to the browser itself. Raises Unusable for whatever does not go by the protocol."""

    def __init__(self, wires: Wires, path: str, limit: Limit) -> None:
        """Shake hands. No name is looked up, no proxy asked, no redirect followed: the socket is there already."""
        from websockets.client import ClientProtocol
        from websockets.uri import parse_uri

        self._socket, self.limit = wires.socket, limit
        self._ws = ClientProtocol(parse_uri(f"ws://{wires.address}{path}"), max_size=ANSWER_MOST)
        self._ws.send_request(self._ws.connect())  # Without an Origin: a browser refuses foreign ones.
        self._parts: list[bytes] = []
        self._waiting: deque[bytes] = deque()
        self._last = 0
        self._flush()
        while self._ws.state.name == "CONNECTING":
            self._read(self.limit)

    def post(self, method: str, params: Params | None = None, session: str | None = None) -> int:
        """Ask, and go on; the number of the question. It is sent when answers are asked for, or at the goodbye."""
        if self._ws.state.name != "OPEN":
            raise Unusable("failed", "its browser ended the connection")
        self._last += 1
        message: Params = {"id": self._last, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        self._ws.send_text(orjson.dumps(message))
        return self._last

    def call(self, *questions: tuple[str, Params]) -> list[Params]:
        """The results of several questions, asked at once."""
        numbers = [self.post(method, params) for method, params in questions]
        results: dict[int, Params] = {}
        for message in self.messages(self.limit.until):
            if message.get("id") in numbers:
                if not isinstance(message.get("result"), dict):
                    raise Unusable("failed", f"its browser refuses {questions[numbers.index(message['id'])][0]}")
                results[message["id"]] = message["result"]
            if len(results) == len(numbers):
                return [results[number] for number in numbers]
        raise Unusable("late", "its debugging port did not answer in time")

    def messages(self, until: float | Callable[[], float]) -> Iterator[Params]:
        """What comes, one by one, until that moment of the monotonic clock, which may change. Raises Unusable where
        the connection ends before, or its limit."""
        while True:
            self._flush()
            while self._waiting:
                yield _parsed(self._waiting.popleft())
            self._flush()
            left = (until() if callable(until) else until) - time.monotonic()
            if left <= 0:
                return
            ready, _, _ = select.select([self._socket], [], [], min(left, self.limit.left()))
            if ready:
                self._read(self.limit)

    def close(self) -> None:
        """Say goodbye, which lets go of every page; wait a moment for the answer, so that it was heard."""
        with contextlib.suppress(Unusable, OSError):
            rest = Limit(_GOODBYE, 1 << 20)
            if self._ws.state.name == "OPEN":
                self._ws.send_close()
                self._flush(rest)
            while self._ws.state.name != "CLOSED" and self._read(rest):
                pass

    def _flush(self, limit: Limit | None = None) -> None:
        for data in self._ws.data_to_send():
            if data:  # b"" asks for the end of the stream, which close() brings.
                endpoint.send(self._socket, data, limit or self.limit)

    def _read(self, limit: Limit) -> bool:
        if self._ws.state.name == "CLOSED":
            raise Unusable("failed", "its browser ended the connection")
        data = endpoint.read(self._socket, limit)
        if data:
            self._ws.receive_data(data)
        else:
            self._ws.receive_eof()
        for event in self._ws.events_received():
            self._take(event)
        if self._ws.handshake_exc is not None:
            raise Unusable("failed", "its debugging port refuses the connection")
        return bool(data)

    def _take(self, event: Any) -> None:
        """Put frames together to messages; what is no data is the library's."""
        opcode = getattr(event, "opcode", None)
        if opcode is None or opcode > 2:
            return
        self._parts.append(bytes(event.data))
        if event.fin:
            self._waiting.append(b"".join(self._parts))
            self._parts = []


def _parsed(data: bytes) -> Params:
    """An answer or an event. The protocol nests a few levels; what is deeper no question may be made of."""
    try:
        found = jsonfile.loads(data, "the answer of its debugging port")
    except orjson.JSONDecodeError:
        found = _lenient(data)
    if not isinstance(found, dict) or depth(found) > DEPTH_CAP:
        raise Unusable("failed", "its debugging port does not speak the protocol")
    return found


def _lenient(data: bytes) -> Any:
    """With half of a surrogate pair in a title or a text, which is no text that orjson takes."""
    import json

    try:
        text = json.dumps(json.loads(data.decode("utf-8", "replace")), ensure_ascii=False)
        return orjson.loads(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def listed(session: Session) -> Listed:
    """The open tabs of the browser's default context.

    A private window, and every other profile, has a context of its own. A browser too old to say which one is the
    default is refused: nothing would tell its private tabs.
    """
    contexts, targets = session.call(("Target.getBrowserContexts", {}), ("Target.getTargets", {}))
    default, others = contexts.get("defaultBrowserContextId"), contexts.get("browserContextIds")
    if not isinstance(default, str) or not default or (isinstance(others, list) and default in others):
        raise Unusable("failed", "its browser does not say which tabs are private")
    pages, elsewhere = [], 0
    infos = targets.get("targetInfos")
    if not isinstance(infos, list):
        raise Unusable("failed", "its debugging port does not speak the protocol")
    for info in infos:
        if not isinstance(info, dict) or info.get("type") != "page" or info.get("subtype"):
            continue
        if info.get("browserContextId") != default:
            elsewhere += 1
            continue
        number, url, title = (info.get(key) for key in ("targetId", "url", "title"))
        if isinstance(number, str) and isinstance(url, str) and number and url:
            pages.append(Page(number, url, title[:_TITLE] if isinstance(title, str) else ""))
    return Listed(sorted(pages, key=lambda page: (page.url, page.title, page.id)), elsewhere)


def sweep(session: Session, pages: Sequence[Page], script: Script, each: float = EACH) -> dict[str, Outcome]:
    """Run `script` on every page at once, each in a session of its own that is left again; outcomes by page id.

    A page gets `each` seconds from when it was attached to, all of them what the session's limit leaves. What breaks
    the connection ends only what was not there yet.
    """
    return _Sweep(session, pages, script, each).run()


class _Sweep:
    def __init__(self, session: Session, pages: Sequence[Page], script: Script, each: float) -> None:
        self._session, self._pages, self._each = session, {page.id: page for page in pages}, each
        self._script = script
        self._scripts: dict[str, Generator[tuple[str, Params], Params, Any]] = {}
        self._asked: dict[int, str] = {}  # Question to page.
        self._sessions: dict[str, str] = {}  # Session to page, while attached.
        self._until: dict[str, float] = {}
        self._done: dict[str, Outcome] = {}

    def run(self) -> dict[str, Outcome]:
        for number in self._pages:
            question = self._session.post("Target.attachToTarget", {"targetId": number, "flatten": True})
            self._asked[question] = number
            self._until[number] = self._session.limit.until
        try:
            while len(self._done) < len(self._pages):
                for message in self._session.messages(self._next):
                    self._take(message)
                    if len(self._done) == len(self._pages):
                        break
                self._expire()
                self._session.limit.left()
        except Unusable as error:
            status = "timeout" if error.reason == "late" else "gone"
            for number in self._pages:
                self._done.setdefault(number, Outcome(status))
        with contextlib.suppress(Unusable):
            for own in list(self._sessions):
                self._detach(own)
        return self._done  # Whatever is said last goes before the goodbye; without one the end of the socket tells.

    def _next(self) -> float:
        return min((self._until[number] for number in self._pages if number not in self._done), default=0.0)

    def _expire(self) -> None:
        now = time.monotonic()
        for number in self._pages:
            if number not in self._done and self._until[number] <= now:
                self._finish(number, Outcome("timeout"))

    def _take(self, message: Params) -> None:
        number = self._asked.pop(message["id"], None) if isinstance(message.get("id"), int) else None
        if number is not None:
            self._answer(number, message)
        elif message.get("method") == "Inspector.targetCrashed":
            self._event(message.get("sessionId"), "crashed")
        elif message.get("method") == "Target.detachedFromTarget":
            params = message.get("params")
            self._event(params.get("sessionId") if isinstance(params, dict) else None, "gone")

    def _event(self, own: object, status: str) -> None:
        number = self._sessions.get(own) if isinstance(own, str) else None
        if number is not None:
            self._finish(number, Outcome(status))

    def _answer(self, number: str, message: Params) -> None:
        result = message.get("result")
        own = next((own for own, page in self._sessions.items() if page == number), None)
        if own is None and isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self._sessions[result["sessionId"]] = number
            self._until[number] = min(time.monotonic() + self._each, self._session.limit.until)
            self._scripts[number] = self._script(self._pages[number])
            if number in self._done:  # It came too late.
                self._detach(result["sessionId"])
            else:
                self._step(number, result["sessionId"], None)
        elif number in self._done:
            return
        elif own is None or not isinstance(result, dict):
            self._step(number, own, Refusal())
        else:
            self._step(number, own, result)

    def _step(self, number: str, own: str | None, result: Params | Refusal | None) -> None:
        script = self._scripts.get(number)
        if own is None or script is None:
            self._finish(number, Outcome("gone"))
            return
        try:
            if result is None:
                method, params = next(script)
            elif isinstance(result, Refusal):
                method, params = script.throw(result)
            else:
                method, params = script.send(result)
        except StopIteration as end:
            self._finish(number, end.value if isinstance(end.value, Outcome) else Outcome("ok", end.value))
        except (Refusal, KeyError, TypeError):
            self._finish(number, Outcome("failed"))
        else:
            self._asked[self._session.post(method, params, own)] = number

    def _finish(self, number: str, outcome: Outcome) -> None:
        self._done.setdefault(number, outcome)
        for own, page in list(self._sessions.items()):
            if page == number:
                self._detach(own)

    def _detach(self, own: str) -> None:
        del self._sessions[own]
        self._session.post("Target.detachFromTarget", {"sessionId": own})


def navigation(session: Session, pages: Sequence[Page]) -> dict[str, list[Entry]]:
    """The back and forward list of each page, by its id, from the first to the last; pages that did not answer are
    left out. The browser itself answers: a page that hangs, or was discarded, does not matter."""
    found = sweep(session, pages, _navigation)
    return {number: outcome.value for number, outcome in found.items() if outcome.status == "ok"}


def _navigation(_page: Page) -> Generator[tuple[str, Params], Params, list[Entry]]:
    history = yield "Page.getNavigationHistory", {}
    return [Entry(str(entry["url"]), str(entry["title"]), number == history["currentIndex"])
            for number, entry in enumerate(history["entries"])]
