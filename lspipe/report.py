"""What a run has to say beside its rows: errors, warnings, counts, and the report object."""

import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from lspipe import __version__, stream
from lspipe.exits import Exit, LspipeError, Refused

_KEPT = 100
_SHOWN = 5


class Report:
    """Facts about one run. Collects exit codes; prints each trouble as one line on stderr when it happens."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.began = time.monotonic()
        self.log_json = False
        #: Whether what would be skipped ends the run (--strict).
        self.strict = False
        self.rows_in = 0
        self.rows_out = 0
        self.skipped: list[dict[str, Any]] = []
        self.skipped_count = 0
        self.truncated = False
        self.registered = False
        self.sandbox = {"fs": "none", "net": "none", "signal": "none"}
        self.consent_file: str | None = None
        self.query_id: str | None = None
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self.codes: set[int] = set()

    def say(self, level: str, message: str, hint: str | None = None, code: int | None = None) -> None:
        """One line on stderr, and one that says what to do; or one JSON object. What a row holds may be in it."""
        message, hint = _hidden(message), hint and _hidden(hint)
        if self.log_json:
            data = stream.dumps({"command": self.command, "level": level, "code": code, "message": _text(message),
                                 "hint": hint and _text(hint)})
        else:
            text = f"{self.command}: {stream.plain(message)}\n"
            if hint:
                text += f"{stream.plain(hint)}\n"
            data = text.encode("utf-8", "replace")
        with contextlib.suppress(OSError):  # Nobody is there to read it, and there is no other place to say so.
            os.write(2, data)

    def error(self, error: LspipeError) -> None:
        """An error that counts for the exit code."""
        self.codes.add(error.code)
        self.say("error", error.message, error.hint, int(error.code))

    def skip(
        self, message: str, reason: str, hint: str | None = None, code: int = Exit.SKIPPED, **facts: Any
    ) -> None:
        """Something was passed over: `message` for stderr, `reason` and `facts` for the report.

        Raises Refused instead, with --strict.
        """
        if self.strict:
            self.exclude(reason, **facts)
            raise Refused(message, hint)
        self.codes.add(code)
        self.exclude(reason, **facts)
        if self.skipped_count <= _SHOWN:
            self.say("warning", message, hint, int(code))

    def exclude(self, reason: str, **facts: Any) -> None:
        """The same without a line on stderr and without an exit code: it was not asked for by name."""
        self.skipped_count += 1
        if len(self.skipped) < _KEPT:
            reason = _hidden(reason)
            self.skipped.append({"reason": reason, **{key: value for key, value in facts.items() if value}})

    def note(self, text: str) -> None:
        """A fact for the report and for --stats, once."""
        if text not in self.notes:
            self.notes.append(text)

    def strangers(self, verb: str, names: Iterable[str]) -> None:
        """`no row has 'titel'`, for the report and as one line: names that were asked for and that no row has."""
        said = ", ".join([f"'{_text(name)}'" for name in names])
        if said and (self.rows_in or self.rows_out):
            self.note(f"no row {verb} {said}")
            self.say("note", f"no row {verb} {said}")

    def finish(self) -> None:
        """Say how many skipped things were not shown one by one."""
        if self.skipped_count > _SHOWN and Exit.SKIPPED in self.codes:
            more = stream.counted(self.skipped_count - _SHOWN, "more was", "more were")
            self.say("warning", f"{more} skipped (--report FILE lists them)")

    def as_dict(self, code: int) -> dict[str, Any]:
        """The report object of `schemas/report.schema.json`."""
        facts = {
            "command": self.command, "version": __version__, "exit": code, "query_id": self.query_id,
            "rows_in": self.rows_in, "rows_out": self.rows_out,
            "skipped_count": self.skipped_count, "skipped": self.skipped, "truncated": self.truncated,
            "timing_ms": round((time.monotonic() - self.began) * 1000, 1),
            "sandbox": self.sandbox, "consent_file": self.consent_file, "registered": self.registered,
            "counts": dict(sorted(self.counts.items())), "notes": self.notes,
        }
        return {key: _each(value, _text) for key, value in {**facts, **self.quoted()}.items()}

    def quoted(self) -> dict[str, Any]:
        """`skipped` and `notes` without secrets: they may quote an argument, or a name in a folder."""
        return {"skipped": _each(self.skipped, _hidden), "notes": _each(self.notes, _hidden)}

    def stats_line(self, code: int) -> str:
        """The report in one line."""
        facts = self.as_dict(code)
        parts = [f"in {self.rows_in}"] if self.rows_in else []
        parts += [f"out {self.rows_out}", f"skipped {self.skipped_count}"]
        parts += [f"{name.replace('_', ' ')} {count}" for name, count in facts["counts"].items()]
        if self.truncated:
            parts.append("truncated")
        box = self.sandbox
        parts.append(f"sandbox fs {box['fs']}, net {box['net']}, signal {box['signal']}")
        if not self.registered:
            parts.append("not registered")
        return "; ".join([*parts, *self.notes, f"{facts['timing_ms']} ms"])


def _hidden(text: str) -> str:
    """A message without secrets: it may quote what a row, a file or an argument holds."""
    try:
        from lspipe import redact

        return redact.text(text)[0]
    except (OSError, ImportError):  # Too few descriptors to load it: what the message quotes stays unsaid.
        return re.sub("'[^']*'|\"[^\"]*\"", "'…'", text)


def _text(text: str) -> str:
    """Text that JSON can hold: bytes of an argument or a path that are not UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _each(value: Any, change: Callable[[str], str]) -> Any:
    """A value with every text in it changed: a folder's name, say, that is part of a note."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each(item, change) for item in value]
    return {key: _each(item, change) for key, item in value.items()} if isinstance(value, dict) else value
