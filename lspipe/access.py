"""From consent to descriptors: loads the grants, narrows a request, holds what is left, says what is refused."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lspipe import consent, options, paths, pinned
from lspipe.exits import LspipeError, NotFound, Precondition
from lspipe.narrow import Narrowed, Refusal, Request, Scope, narrow
from lspipe.runner import Run


@dataclass(frozen=True)
class Held:
    """A scope that may be read, and a descriptor for each of its paths, reached without any symbolic link."""

    scope: Scope
    fds: tuple[int, ...]

    @property
    def rules(self) -> list[str | int]:
        """For the kernel rules: these very descriptors, whatever their names point to by now."""
        return list(self.fds)

    def close(self) -> None:
        """Let go of the descriptors; the kernel rules stay."""
        for fd in self.fds:
            os.close(fd)


def ask(run: Run, request: Request) -> Narrowed:
    """What of `request` is granted, by the consent file in force. Raises Precondition where the file is unusable."""
    granted = consent.load(paths.config_home())
    run.report.consent_file = granted.file
    return narrow(granted.grants, request)


def warn_of_foreign_home(run: Run) -> None:
    """Say it where profiles are looked for in the home of somebody else: an empty answer would not be the truth."""
    home = paths.foreign_home()
    if home is not None:
        run.report.say("warning", f"HOME is '{options.printable(home)}', which belongs to another user",
                       "browser profiles are looked for there: run it as their owner, or set HOME")


def obtain(run: Run, request: Request, exists: Callable[[Refusal], bool] = lambda _refusal: True) -> list[Held]:
    """The scopes of `request` that may be read, held open until the run ends.

    What was named and is not granted is reported (exit 7), what does not exist (`exists` says so) too (exit 3).
    Raises Precondition, with the command to run, where nothing is left, NotFound where nothing of it exists.
    """
    if request.family == "browser":
        warn_of_foreign_home(run)
    narrowed = ask(run, request)
    named = bool(request.profiles or request.paths or request.collections)
    held: list[Held] = []
    refused = list(narrowed.refused)
    for scope in narrowed.allowed:
        got = pinned.hold(scope)
        if isinstance(got, Refusal):
            refused.append(got)
        else:
            mine = Held(scope, got)
            held.append(mine)
            run.closing.callback(mine.close)
    # What cannot be read is there, whether or not it is where profiles are looked for.
    missing = [refusal for refusal in refused if refusal.reason == "not-found"
               or refusal.reason != "not-readable" and not exists(refusal)]
    others = [refusal for refusal in refused if refusal not in missing]
    if not held:
        for refusal in refused:
            run.report.exclude(refusal.reason, **facts(refusal))
        raise _nothing(missing, others)
    for refusal in missing:
        if named:
            run.report.error(NotFound(f"cannot read {label(refusal)}: not found"))
        else:
            _skip(run, refusal)
    for refusal in others:
        # What was never granted, or to others, is passed over in silence where it was not asked for by name.
        if named or refusal.reason != "no-consent" or refusal.lapsed:
            _skip(run, refusal)
        else:
            run.report.exclude(refusal.reason, **facts(refusal))
    for refusal in narrowed.partial:
        if request.paths:
            run.report.say("note", f"{label(refusal)}: {refusal.detail}")
            run.report.exclude("no-consent", **facts(refusal))
        else:
            run.report.note(f"{label(refusal)}: {refusal.detail}")
    return held


def _skip(run: Run, refusal: Refusal) -> None:
    run.report.skip(message(refusal), refusal.reason, refusal.command, **facts(refusal))


def _nothing(missing: list[Refusal], others: list[Refusal]) -> LspipeError:
    first = (others or missing)[0]
    if not others:
        return NotFound(f"cannot read {label(first)}: {first.detail if first.reason == 'not-found' else 'not found'}",
                        "ls-consent list --found shows the profiles that there are" if first.profile else None)
    more = len(others) - 1
    tail = f" (and {more} more)" if more else ""
    return Precondition(message(first) + tail, first.command or "ls-consent list shows what is granted")


def label(refusal: Refusal) -> str:
    """What was refused, for a message."""
    if refusal.browser or refusal.profile:
        return f"profile '{'/'.join(part for part in (refusal.browser, refusal.profile) if part)}'"
    if refusal.path:
        return f"'{options.printable(refusal.path)}'"
    return f"collection '{refusal.collection}'" if refusal.collection else refusal.source


def message(refusal: Refusal) -> str:
    """One line: what cannot be read and why."""
    why = "no consent" if refusal.reason == "no-consent" else refusal.reason.replace("-", " ")
    detail = "" if refusal.detail in ("no grant", why) else f": {refusal.detail}"
    return f"cannot read {label(refusal)}: {why}{detail}"


def facts(refusal: Refusal) -> dict[str, Any]:
    """The same for the report."""
    return {"what": label(refusal), "source": refusal.source, "browser": refusal.browser,
            "profile": refusal.profile, "detail": refusal.command or refusal.detail}


def read_rules(held: Iterable[Held]) -> list[str | int]:
    """The kernel rules of several held scopes."""
    return [rule for one in held for rule in one.rules]
