"""A running browser that may be asked: found and connected to before lock-down, spoken with afterwards."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lspipe import stream
from lspipe.browsers.granted import Granted
from lspipe.exits import LspipeError
from lspipe.run import Run

if TYPE_CHECKING:
    from lspipe.browsers.cdp import Page, Session
    from lspipe.browsers.livetabs import Line
    from lspipe.browsers.ports import Address
    from lspipe.browsers.tab import Tab

#: Seconds that a browser gets to answer; where files are there instead; and where a person has to say yes.
ANSWER, TRY, PERSON = 10.0, 3.0, 120.0


class Live(NamedTuple):
    """The answer of a running browser: whose tabs these are."""

    session: "Session"
    profile: Granted
    pages: "list[Page]"


def connect(run: Run, asked: Sequence[Granted], address: "Address | None" = None) -> "Line":
    """A line to a browser of profiles that are all `asked`, at `address` or where it says. Nothing is sent yet.

    Raises Unusable with the reason why there is none.
    """
    from lspipe.browsers import livetabs

    line = livetabs.connect(asked, address, run.clock.left(TRY) or TRY, run.closing)
    if run.ledger is not None:  # A note of what is attached to; it is not ours, and nothing depends on the note.
        with contextlib.suppress(LspipeError):
            run.ledger.add("attach", "debugging port of a browser that runs", port=line.address.port,
                           owned=False).live()
    return line


def speak(run: Run, line: "Line", known: "Mapping[str, Sequence[Tab]]", must: bool, person: bool) -> Live:
    """The tabs that the browser shows. `known` are those of session files, by the labels of their profiles.

    It gets all the time that there is if it `must` be this way, else leaves half of it for files. With `person` a
    browser that asks a person first may do so. Raises Unusable.
    """
    from lspipe.browsers import cdp, livetabs
    from lspipe.browsers.endpoint import Limit

    left = run.clock.left()
    seconds = min(ANSWER, left or ANSWER) if must else min(TRY, left / 2 if left else TRY)
    try:
        session = livetabs.speak(line, Limit(seconds, cdp.MOST))
    except livetabs.Dialog:
        if not person:
            raise
        run.report.say("note", f"waiting for you: the browser on {line.address} asks whether to allow debugging")
        session = livetabs.speak_with_leave(line, Limit(PERSON if left is None else left, cdp.MOST))
    run.closing.callback(session.close)
    found = cdp.listed(session)
    profile = livetabs.whose(line, found.pages, known)
    if found.elsewhere:
        tabs = stream.counted(found.elsewhere, "tab of a private window or another profile is",
                              "tabs of private windows or other profiles are")
        run.report.note(f"{profile.label}: {tabs} not shown")
    return Live(session, profile, found.pages)


def renew(run: Run, live: Live) -> None:
    """Let the session have the time that is left, for more than a list."""
    from lspipe.browsers import cdp
    from lspipe.browsers.endpoint import Limit

    live.session.limit = Limit(run.clock.left(ANSWER) or ANSWER, cdp.MOST)

