"""The visible and the selected text of open pages, read so that no page can notice and nothing is loaded again.

Each page is asked once, in a world of its own (`Page.createIsolatedWorld`), where no function that the page has
replaced runs, and with `throwOnSideEffect`, so that the browser refuses whatever would change something. Visible is
what innerText gives: neither hidden text nor values of form fields, passwords least of all; frames and shadow trees
are left out. A selection inside a form field is none. The protocol: domains Page and Runtime.
"""

from collections.abc import Generator, Sequence
from typing import NamedTuple

from lspipe.browsers.cdp import Outcome, Page, Params, Session, sweep

#: UTF-16 units of a page that are searched; and of its selection.
SEARCHED, SELECTED = 500_000, 20_000

#: A selection within a form field is, seen from the document, a collapsed range beside it.
_ASK = """(() => {
  const selection = document.getSelection();
  const chosen = selection && selection.rangeCount && !selection.isCollapsed ? selection.toString() : "";
  return {
    url: location.href, state: document.readyState, selection: chosen.slice(0, SELECTED),
    text: document.body ? document.body.innerText.slice(0, SEARCHED) : "",
  };
})()""".replace("SELECTED", str(SELECTED)).replace("SEARCHED", str(SEARCHED))


class PageText(NamedTuple):
    """The text of a page. `status` is ok, or why there is none: timeout (it hangs, shows a dialog, or is not loaded),
    crashed, loading, gone, failed."""

    status: str
    text: str = ""
    selection: str = ""


def texts(session: Session, pages: Sequence[Page]) -> dict[str, PageText]:
    """The text of each page by its id, all asked at once."""
    found = sweep(session, pages, _read)
    return {number: outcome.value if outcome.status == "ok" else PageText(outcome.status)
            for number, outcome in found.items()}


def _read(page: Page) -> Generator[tuple[str, Params], Params, PageText | Outcome]:
    world = yield "Page.createIsolatedWorld", {"frameId": page.id, "worldName": "lspipe"}
    answer = yield "Runtime.evaluate", {
        "expression": _ASK, "contextId": world["executionContextId"], "throwOnSideEffect": True,
        "returnByValue": True, "silent": True, "timeout": 2000, "userGesture": False, "awaitPromise": False}
    if "exceptionDetails" in answer:
        return Outcome("failed")
    value = answer["result"]["value"]
    if value["state"] == "loading" or (value["url"] == "about:blank" != page.url):
        return Outcome("loading")
    # The script cuts them, but it is the browser that says so.
    return PageText("ok", str(value["text"])[:SEARCHED], str(value["selection"])[:SELECTED])
