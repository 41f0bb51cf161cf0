"""Grants in words: what one would open, for the person who is asked; what is in force, for a list."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lspipe import consent, stream, when
from lspipe.narrow import DATA, Grant, within

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


def kinds(grant: Grant) -> str:
    """` (history, tabs)` of a profile, ` (public)` of a public grant, nothing of others."""
    return f" ({', '.join(grant.data)})" if grant.data else " (public)" if grant.public else ""


def until(grant: Grant) -> str:
    """The minute in which it ends, or `revoked`."""
    return "revoked" if grant.expires_at is None else when.rfc3339(grant.expires_at)[:16] + "Z"


def overview(found: Sequence[Found], current: Sequence[Grant], choice: Sequence[Grant] = ()) -> Iterator[str]:
    """The profiles on this machine and what of each is granted; those of `choice` with their number."""
    if found:
        yield "Browser profiles on this machine (nothing but their names was read):"
    numbers = {grant.path: str(number) for number, grant in enumerate(choice, 1)}
    for profile in found:
        have = {kind for grant in current if grant.path == profile.path for kind in grant.data}
        granted = ", ".join(kind for kind in DATA if kind in have) or "nothing"
        yield (f"{numbers.get(profile.path, ''):>3} {profile.browser}/{profile.profile} \"{profile.name}\","
               f" granted: {granted}")


def inside(path: str, names: Sequence[str], found: Sequence[Found]) -> Iterator[str]:
    """What a grant of the folder `path` opens, by the `names` of its entries."""
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    yield f"every file in it and below; it has {len(names)} entries" + (f": {shown}" if names else "")
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
    terms = grants[0]
    if "mcp" in terms.audience:
        yield "  mcp: an agent may read it too, and send it to its model, which no sandbox stops"
    yield f"  to {', '.join(terms.audience)}, until {until(terms)}; rows are marked {_mark(terms)}"
    yield f"  written to {file}"


def _mark(grant: Grant) -> str:
    return "public" if grant.public else "private"


def entry(number: int | None, state: str, detail: str | None, grant: Grant) -> Iterator[str]:
    """One grant in the list: a line, its path where the label is not the path, what is wrong with it."""
    terms = "" if number is None else f"  to {', '.join(grant.audience)}, until {until(grant)}"
    yield f"{number or '':>2}  {state:<11} {grant.label}{kinds(grant)}{terms}"
    if grant.family == "browser":
        yield f"{'':16}{grant.path}"
    if detail:
        yield f"{'':16}{detail}"


def by_hand(file: str, exists: bool, grants: Sequence[Grant]) -> str:
    """How a machine without a terminal gets these grants: one line."""
    shown = ",".join(
        stream.dumps(consent.as_json(replace(grant, granted_at=None)), newline=False).decode() for grant in grants
    )
    if exists:
        return f"by hand: in '{file}', add to \"grants\": {shown}"
    return f"by hand: write '{file}', mode 0600: {{\"v\":1,\"grants\":[{shown}]}}"
