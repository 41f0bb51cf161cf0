"""Grants in words: which ones a word means, what one would open, what is in force and what is no more."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lspipe import consent, paths, stream, when
from lspipe.exits import Precondition, Usage
from lspipe.narrow import DATA, FAMILIES, Grant, readable, selects, within

_NOT_KEPT = "no file of this browser"


@dataclass(frozen=True)
class Found:
    """A browser profile that could be granted, by names alone. `path` is free of symbolic links; `files` names
    what each kind of data is read from (databases with their journals)."""

    browser: str
    profile: str
    name: str
    path: str
    files: Mapping[str, Sequence[str]]


def kinds_of_source(name: str | None) -> tuple[str, ...]:
    """The kinds of data that `--source NAME` means; none: whatever a grant is for."""
    return ("tabs", "tab-text") if name == "tabs" else (name,) if name in DATA else ()


def of_source(name: str | None) -> Callable[[Grant], bool]:
    """Whether `--source NAME`, a source or a family, is about a grant. Raises Usage."""
    data = set(kinds_of_source(name))
    if not data and name not in (*FAMILIES, "all", None):
        raise Usage(f"unknown source '{name}'", f"sources and families: {', '.join([*DATA, *FAMILIES, 'all'])}")

    def concerns(grant: Grant) -> bool:
        return bool(data & set(grant.data)) if data else name in (grant.family, "all", None)

    return concerns


def means(word: str, number: int, grant: Grant, name: str | None) -> bool:
    """Whether a word of `revoke` names this grant, which has this number in the list; `name` is the shown name
    of a profile."""
    if word.isascii() and word.isdigit():
        return int(word) == number
    if word in (grant.family, grant.label, grant.collection):
        return True
    if grant.family == "browser":
        return selects(word, grant.browser, grant.profile, name)
    return grant.family == "files" and grant.path in (os.path.abspath(word), paths.real(word))


def difference(before: Sequence[Grant], after: Sequence[Grant]) -> Iterator[Grant]:
    """What is granted no more, each grant with the kinds of data that it lost."""
    for grant in before:
        left = [one for one in after if replace(one, data=()) == replace(grant, data=())]
        lost = tuple(kind for kind in grant.data if not any(kind in one.data for one in left))
        if lost or not left:
            yield replace(grant, data=lost)


def kinds(grant: Grant) -> str:
    """` (history, tabs)` of a profile, ` (public)` of a public grant, nothing of others."""
    return f" ({', '.join(grant.data)})" if grant.data else " (public)" if grant.public else ""


def until(grant: Grant) -> str:
    """The minute in which it ends, or `revoked`."""
    return "revoked" if grant.expires_at is None else when.rfc3339(grant.expires_at)[:16] + "Z"


def overview(
    family: str, found: Sequence[Found], current: Sequence[Grant], choice: Sequence[Grant] = ()
) -> Iterator[str]:
    """What is granted of the family so far: of browsers the profiles on this machine and what of each is, those of
    `choice` with their number."""
    if family != "browser":
        granted_already = [grant for grant in current if grant.family == family]
        if granted_already:
            yield f"Granted of {family} so far:"
        for grant in granted_already:
            yield f"    {grant.label}{kinds(grant)}, until {until(grant)}"
        return
    if found:
        yield "Browser profiles on this machine (nothing but their names was read):"
    numbers = {grant.path: str(number) for number, grant in enumerate(choice, 1)}
    for profile in found:
        have = {kind for grant in current if grant.path == profile.path for kind in grant.data}
        granted = ", ".join(kind for kind in DATA if kind in have) or "nothing"
        yield (f"{numbers.get(profile.path, ''):>3} {profile.browser}/{profile.profile} \"{profile.name}\","
               f" granted: {granted}")


def chosen(grants: Sequence[Grant], answer: str) -> list[Grant]:
    """The grants whose numbers in the overview were typed. Raises Precondition where there is none."""
    numbers = [word for word in answer.replace(",", " ").split() if word.isascii() and word.isdigit()]
    found = [grants[int(word) - 1] for word in dict.fromkeys(numbers) if 1 <= int(word) <= len(grants)]
    if not found:
        raise Precondition("nothing granted: no number of the list was chosen")
    return found


def inside(path: str, names: Sequence[str], found: Sequence[Found]) -> Iterator[str]:
    """What a grant of the folder `path` opens, by the `names` of its entries."""
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    entries = stream.counted(len(names), "entry", "entries")
    yield f"every file in it and below; it has {entries}" + (f": {shown}" if names else "")
    for profile in found:
        if within(profile.path, path):
            yield f"with it a whole browser profile, cookies and passwords too: {profile.path}"


def question(
    grants: Sequence[Grant], found: Sequence[Found], entries: Mapping[str, Sequence[str]], file: str
) -> Iterator[str]:
    """What the grants, all of the same terms, open, to whom, until when."""
    profiles = {profile.path: profile for profile in found}
    yield "The grant opens:"
    for grant in grants:
        yield f"  {grant.label}"
        if grant.family == "browser":
            yield f"    \"{profiles[grant.path].name}\" in {grant.path}"
            for kind in grant.data:
                yield f"    {kind}: {', '.join(profiles[grant.path].files[kind]) or _NOT_KEPT}"
        elif grant.family == "files":
            yield from (f"    {line}" for line in inside(grant.path, entries[grant.path], found))
        else:
            yield "    what qmd has indexed" + (" in this collection" if grant.collection else "")
            if grant.index:
                yield f"    in {grant.index}"
    terms = grants[0]
    if "serve" in terms.audience:
        yield "  serve: whoever may ask the local server reads it"
    if "mcp" in terms.audience:
        yield "  mcp: an agent may read it too, and send it to its model, which no sandbox stops"
    yield f"  to {', '.join(terms.audience)}, until {until(terms)}; rows are marked {_mark(terms)}"
    yield f"  written to {file}"


def _mark(grant: Grant) -> str:
    return "public" if grant.public else "private"


class Listed(NamedTuple):
    """A grant as the list shows it; `number` is what revoke takes."""

    number: int
    state: str
    detail: str | None
    grant: Grant


def listing(file: str, listed: Sequence[Listed], others: Sequence[Found]) -> Iterator[str]:
    """The list for people: the file; each grant, its path where the label is not the path, what is wrong with
    it; the profiles that are not granted."""
    yield file if listed else f"{file}: no grants (ls-consent grant --help)"
    for number, state, detail, grant in listed:
        yield (f"{number:>2}  {state:<11} {grant.label}{kinds(grant)}"
               f"  to {', '.join(grant.audience)}, until {until(grant)}")
        if grant.family == "browser":
            yield f"{'':16}{grant.path}"
        if detail and state != "not pinned":
            yield f"{'':16}{detail}"
    for profile in others:
        yield f"{'':4}not granted {profile.browser}/{profile.profile} \"{profile.name}\""
        yield f"{'':16}{profile.path}"
    if any(one.state == "not pinned" for one in listed):
        yield "not pinned: whatever folder is at the path is read; ls-consent grant pins it"


def as_object(file: str, listed: Sequence[Listed], others: Sequence[Found] | None) -> dict[str, Any]:
    """The list for programs: a consent file that also says its place, and of each grant how it is."""
    grants = [{"n": number, "state": state, "detail": detail, **consent.as_json(grant)}
              for number, state, detail, grant in listed]
    whole: dict[str, Any] = {"v": consent.VERSION, "file": readable(file), "grants": grants}
    if others is not None:
        whole["found"] = [{"browser": profile.browser, "profile": profile.profile, "name": profile.name,
                           **consent.path_json(profile.path)} for profile in others]
    return whole


def by_hand(file: str, exists: bool, grants: Sequence[Grant]) -> str:
    """How a machine without a terminal gets these grants: one line."""
    shown = ",".join(
        stream.dumps(consent.as_json(replace(grant, granted_at=None)), newline=False).decode() for grant in grants
    )
    if exists:
        return f"by hand: in '{file}', add to \"grants\": {shown}"
    return f"by hand: write '{file}', mode 0600: {{\"v\":1,\"grants\":[{shown}]}}"
