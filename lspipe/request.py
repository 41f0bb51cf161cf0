"""What ls-query is asked, from flags or a query file, and the plan of stages that answers it (pure but for consent)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lspipe import fuse, when
from lspipe.exits import Usage
from lspipe.narrow import Grant, Narrowed, Refusal, Request, narrow, selects
from lspipe.pipeline import Plan, Stage
from lspipe.row import FAMILIES

PER_SOURCE = 100
DEPTH = 100
DEADLINE = 10.0
LIMIT = 10
FUSE_K = 60
#: A family may fill this share of the answer before the others have had their turn.
CAP_SHARE = 0.6
_NOT_PUBLIC = "no public grant"


@dataclass(frozen=True)
class SourceInfo:
    """A source that ls-query can ask: its executable, and what must be granted for it."""

    command: str
    family: str
    data: str | None


#: In the order in which they are started and listed.
SOURCES: Mapping[str, SourceInfo] = {
    "history": SourceInfo("ls-history", "browser", "history"),
    "bookmarks": SourceInfo("ls-bookmarks", "browser", "bookmarks"),
    "tabs": SourceInfo("ls-tabs", "browser", "tabs"),
    "downloads": SourceInfo("ls-downloads", "browser", "downloads"),
    "reading": SourceInfo("ls-reading", "browser", "reading"),
    "files": SourceInfo("ls-rg", "files", None),
    "wiki": SourceInfo("ls-qmd", "wiki", None),
}


@dataclass(frozen=True)
class Query:
    """One question. Times are microseconds since 1970, `until` is the first that is out; `timeout` is seconds."""

    text: str
    now: int
    #: Sources and families as they were named, and all the sources that this means.
    named: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    limit: int = LIMIT
    mode: str = "hybrid"
    rerank: bool = True
    fields: tuple[str, ...] = ()
    caps: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    public: bool = False
    raw: bool = False
    timeout: float = DEADLINE
    max_chars: int | None = None
    #: The shown names of granted profiles by their paths, which `profiles` may be.
    names: Mapping[str, str] = field(default_factory=dict)
    all_terms: bool = False
    require_sandbox: bool = False


def expand(names: Sequence[str]) -> tuple[str, ...]:
    """Sources from sources and families (`browser`, `files`, `wiki`, `all`), each once, in order. Raises Usage."""
    found: list[str] = []
    for name in names:
        if not name.strip():
            raise Usage("--source has an empty name in its list", "names with a comma between: history,files")
        members = [source for source, info in SOURCES.items() if name in (source, info.family, "all")]
        if not members:
            known = ", ".join([*SOURCES, "browser", "all"])
            raise Usage(f"unknown source '{name}'", f"sources and families: {known}")
        found += [source for source in members if source not in found]
    return tuple(found)


def pairs(values: Sequence[str], option: str, kind: type[int] | type[float]) -> dict[str, Any]:
    """`NAME=NUMBER` words as a mapping, by the rule of the stage that gets them. Raises Usage."""
    found = fuse.numbers(values, option, kind)
    for name in found:
        if name not in FAMILIES and name not in FAMILIES.values():
            raise Usage(f"{option}: unknown source or family '{name}'")
    return found


@dataclass(frozen=True)
class Planned:
    """The plan, and the sources that are not in it, with the reason; `lapsed` is what was granted once of those that
    are, where they are not told of it."""

    plan: Plan
    asked: tuple[str, ...]
    refused: tuple[Refusal, ...]
    caps: Mapping[str, int]
    lapsed: tuple[Refusal, ...] = ()


def default_caps(query: Query, asked: Sequence[str]) -> dict[str, int]:
    """The caps in force: those given, and a share of the limit for each other family that is asked."""
    caps = dict(query.caps)
    for name in asked:
        family = SOURCES[name].family
        caps.setdefault(family, max(1, math.ceil(query.limit * CAP_SHARE)))
    return dict(sorted(caps.items()))


def plan(query: Query, grants: Sequence[Grant], audience: str = "shell") -> Planned:
    """The stages that answer `query` with what is granted."""
    sources: list[Stage] = []
    asked: list[str] = []
    refused: list[Refusal] = []
    lapsed: list[Refusal] = []
    remarks: list[str] = []
    for name in query.sources or tuple(SOURCES):
        info = SOURCES[name]
        usable = [grant for grant in grants if grant.public] if query.public else grants
        profiles = _profiles(query, info, grants)
        asking = Request(info.family, info.data, audience=audience, names=query.names, profiles=profiles)
        granted = narrow(usable, asking)
        if not granted.allowed:
            refusal = replace(granted.refused[0], source=name)
            if query.public:
                refusal = _not_public(refusal, info.family, bool(narrow(grants, asking).allowed))
            refused.append(refusal)
            remarks.append(f"{name}: {why(refusal)}" + (f" ({refusal.command})" if refusal.command else ""))
            continue
        scope = _scope(query, info, usable, granted, profiles)
        sources.append(Stage(info.command, _source_argv(query, name, scope), name))
        asked.append(name)
        if info.family != "browser" and scope and not query.paths:  # It is told what is left of the grants.
            lapsed += [replace(refusal, source=name) for refusal in granted.refused if refusal.lapsed]
    caps = default_caps(query, asked)
    stages = Plan(tuple(sources), _transforms(query, caps), tuple(remarks))
    if query.require_sandbox:
        stages = replace(stages, sources=_demanding(stages.sources), transforms=_demanding(stages.transforms))
    return Planned(stages, tuple(asked), tuple(refused), caps, tuple(lapsed))


def unheard(query: Query, refused: Sequence[Refusal]) -> Iterator[tuple[str, Refusal]]:
    """(name, why not) of each source that was named and each named family of which nobody may be asked."""
    missing = {refusal.source: refusal for refusal in refused}
    for name in query.named:
        members = expand([name])
        if name != "all" and all(source in missing for source in members):
            yield name, missing[members[0]]


def unsaid(query: Query, refused: Sequence[Refusal]) -> list[Refusal]:
    """What is not asked, and is neither said by itself, as what was named or has lapsed is, nor was asked for."""
    said = {source for name, _refusal in unheard(query, refused) for source in expand([name])}
    return [refusal for refusal in refused if refusal.source not in said and not refusal.lapsed]


def why(refusal: Refusal) -> str:
    """Why a source is not asked, in two words."""
    return "not public" if refusal.detail == _NOT_PUBLIC else "no consent"


def _not_public(refusal: Refusal, family: str, granted: bool) -> Refusal:
    """With --public: what is granted is private, or only a public grant would help."""
    command = {"files": "ls-consent grant files FOLDER --public", "wiki": "ls-consent grant wiki --public"}.get(family)
    return replace(refusal, detail=_NOT_PUBLIC if granted else refusal.detail, command=command)


def _demanding(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages with --require-sandbox: each locks itself down alone, so each must know."""
    return tuple(replace(stage, argv=("--require-sandbox", *stage.argv)) for stage in stages)


def _profiles(query: Query, info: SourceInfo, grants: Sequence[Grant]) -> tuple[str, ...]:
    """The words of --profile that a source is told: a profile that is granted, and for other kinds of data alone, is
    asked for those. All of them where none is left."""
    def means(word: str, grant: Grant) -> bool:
        return grant.family == "browser" and selects(word, grant.browser, grant.profile, query.names.get(grant.path))

    if info.family != "browser":
        return ()
    kinds = {word: {kind for grant in grants if means(word, grant) for kind in grant.data} for word in query.profiles}
    return tuple(word for word in query.profiles if not kinds[word] or info.data in kinds[word]) or query.profiles


def _scope(
    query: Query, info: SourceInfo, usable: Sequence[Grant], granted: Narrowed, profiles: Sequence[str]
) -> Sequence[str]:
    """What a source is told to search: the files source what was named, as it was named, so that it can say what is
    refused, with --public only what is public of it; the others by options."""
    if info.family == "files":
        if query.paths and query.public:
            return narrow(usable, Request("files", paths=query.paths)).roots
        return query.paths or granted.roots
    if info.family == "browser":
        return [f"--profile={profile}" for profile in profiles]
    names = [name for scope in granted.allowed for name in scope.collections]
    if not query.public or any(not scope.collections for scope in granted.allowed):
        names = []
    return [*(f"--collection={name}" for name in dict.fromkeys(names)), *(f"--path={path}" for path in query.paths)]


def _source_argv(query: Query, name: str, scope: Sequence[str]) -> tuple[str, ...]:
    files = SOURCES[name].family == "files"
    argv = ["--words"] if files else ["--from=auto"] if name == "tabs" else []
    argv += ["--all-terms"] if query.all_terms else []
    argv += [f"--limit={max(PER_SOURCE, query.limit)}", *_clock(query)]
    if query.since is not None:
        argv.append(f"--since={when.rfc3339(query.since)}")
    if query.until is not None:
        argv.append(f"--until={when.rfc3339(query.until - 1)}")  # The last instant that is in.
    argv.append(f"--max-chars={2000 if query.max_chars is None else query.max_chars}")
    argv.append(f"--timeout={query.timeout:.6f}".rstrip("0").rstrip("."))  # Never 1e+06.
    return (*argv, "--", query.text, *scope) if files else (*argv, *scope, "--", query.text)


def _clock(query: Query) -> list[str]:
    return [f"--now={when.rfc3339(query.now)}"]


def _transforms(query: Query, caps: Mapping[str, int]) -> tuple[Stage, ...]:
    cap_words = [f"--cap={name}={number}" for name, number in caps.items()]
    fusing = [f"--k={FUSE_K}", *(f"--weight={name}={weight:g}" for name, weight in sorted(query.weights.items()))]
    stages = []
    if query.rerank:
        stages.append(Stage("ls-fuse", tuple(fusing), "fuse"))
        stages.append(Stage("ls-rerank", (
            f"--mode={query.mode}", f"--query={query.text}", f"--depth={max(DEPTH, query.limit)}",
            "--recency=browser", *cap_words, f"--limit={query.limit}", *_clock(query),
        ), "rerank"))
    else:
        stages.append(Stage("ls-fuse", (*fusing, *cap_words, f"--limit={query.limit}"), "fuse"))
    # Only public grants were asked; that nothing else comes out is made sure of once more.
    public = ("--public",) if query.public else ()
    if not query.raw:
        stages.append(Stage("ls-redact", public, "redact"))
    elif public:
        stages.append(Stage("ls-show", ("--as=jsonl", *public), "public"))
    if query.fields:
        stages.append(Stage("ls-show", ("--as=jsonl", "--fields=" + ",".join(query.fields)), "fields"))
    return tuple(stages)
