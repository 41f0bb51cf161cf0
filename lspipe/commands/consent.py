"""List, give and take back consent: nothing is read without a grant.

    $ ls-consent list
    $ ls-consent grant browser chromium/Default --data history,bookmarks
    $ ls-consent revoke chromium/Default --source bookmarks

What can be granted: a folder (grant files ~/notes), a wiki (grant wiki [COLLECTION]), and kinds of data of a
browser profile. grant shows what it found and what the grant opens, and asks at the terminal: no pipe, option or
variable can answer. Granting a thing again replaces its terms. revoke takes numbers of the list, profiles,
folders and families, and acts at once.

Without a terminal, write the file by hand, mode 0600: ls-consent list names it, ls-consent --schema is its
format. Consent guards against mistakes and injected arguments, not against a program that runs as you.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import click

from lspipe import access, consent, fulldisk, offer, options, paths, pinned, runner, stream, terminal, when
from lspipe.browsers import known, profiles
from lspipe.exits import LspipeError, NotFound, Precondition, Usage, strerror
from lspipe.narrow import AUDIENCES, DATA, FAMILIES, Grant, Scope, selects
from lspipe.row import Row

READS, EMITS, ZONE = None, "consent", "local"
_OPTIONS = {
    "list": ("found", "json", "source"), "revoke": ("all", "source"),
    "grant": ("data", "expires", "public", "audience"),
}
_FORMS = "grant files PATH, grant wiki [COLLECTION], or grant browser PROFILE --data KINDS"


@options.command("ls-consent", kind="porcelain", reads=READS, emits=EMITS)
@click.argument("verb", type=click.Choice(["list", "grant", "revoke"]), default="list",
                metavar="[list|grant|revoke]")
@click.argument("words", nargs=-1, metavar="[WHAT]...")
@click.option("--data", metavar="KINDS", help=f"Grant these: {', '.join(DATA)}, or all but the last: all.")
@click.option("--expires", metavar="LENGTH|DATE", help="For so long (12h, 30d), or to the end of a day (2027-01-31).")
@click.option("--public", is_flag=True, help="Grant files or a wiki so that its rows are not private.")
@click.option("--audience", metavar="WHO", help="Grant it to shell, mcp, serve; shell where not given.")
@click.option("--source", metavar="NAME", help="List or revoke only this source or family.")
@click.option("--all", is_flag=True, help="Revoke every grant, even those of a file that cannot be used.")
@click.option("--found", is_flag=True, help="List also the profiles that are not granted.")
@click.option("--json", is_flag=True, help="List as one JSON object, of the form of the file.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


@dataclass(frozen=True)
class Before:
    """What was found out before lock-down. `grants` are the ones asked for or, with `choose`, to choose from;
    `entries` names what is in each folder to grant; `names` are the shown names of granted profiles, by path;
    `terminal` is a descriptor."""

    config: str
    found: Sequence[offer.Found] = ()
    grants: Sequence[Grant] = ()
    choose: bool = False
    entries: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    terminal: int = -1


def reach(opts: SimpleNamespace, run: runner.Run) -> runner.Reach:
    """Look while it is allowed: for profile names, the folders to grant, a terminal."""
    for name in sorted({name for names in _OPTIONS.values() for name in names} - set(_OPTIONS[opts.verb])):
        if getattr(opts, name):
            verbs = " and ".join(verb for verb, names in _OPTIONS.items() if name in names)
            raise Usage(f"--{name} goes with {verbs}, not with {opts.verb}")
    config = paths.config_home()
    file = run.report.consent_file = consent.file_of(config)
    if opts.verb == "list":
        if opts.words:
            raise Usage("list takes no words", "for a part of the list: --source NAME")
        return runner.Reach(read=[config], given=Before(config, _discover(run) if opts.found else ()))
    if opts.verb == "revoke":
        if bool(opts.all) is bool(opts.words or opts.source):
            raise Usage("revoke what?", "numbers or names of ls-consent list, --source NAME, or --all alone")
        if not os.path.lexists(config) and not opts.all:
            raise NotFound(f"no grants: there is no folder '{config}'")
        granted = () if opts.all else consent.load(config).grants
        names = profiles.shown_names(grant.path for grant in granted if grant.family == "browser")
        return runner.Reach(read=[config], write=[config], given=Before(config, names=names))
    found = _discover(run)
    grants = _wanted(opts, found)
    consent.load(config)  # A file that cannot be used is better said before than after the question.
    entries = {grant.path: _entries(grant.path) for grant in grants if grant.family == "files"}
    fd = terminal.find(offer.by_hand(file, os.path.lexists(file), grants))
    run.closing.callback(os.close, fd)
    paths.ensure_dir(config)
    before = Before(config, found, grants, opts.words == ("browser",), entries, terminal=fd)
    return runner.Reach(read=[config], write=[config], given=before)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[bytes]:
    """The lines to print."""
    yield from {"list": _list, "grant": _grant, "revoke": _revoke}[opts.verb](opts, run)


# grant: what is asked for


def _discover(run: runner.Run) -> list[offer.Found]:
    """By browser, of each the profile that was used last first: a leftover comes behind what is in use."""
    access.warn_of_foreign_home(run)
    found = [
        offer.Found(profile.browser, profile.directory, profile.name, profile.path,
                    {kind: (*profiles.files(profile.engine, kind), *profiles.beside(profile.browser, kind))
                     for kind in DATA})
        for profile in profiles.discover(os.path.expanduser("~"), os.environ)
    ]
    return sorted(found, key=lambda profile: profile.browser)


def _wanted(opts: SimpleNamespace, found: Sequence[offer.Found]) -> list[Grant]:
    """A grant, not yet pinned, for each thing that the words name."""
    if not opts.words or opts.words[0] not in FAMILIES:
        raise Usage("grant what?", _FORMS)
    kind, names = opts.words[0], opts.words[1:]
    if kind != "browser" and opts.data:
        raise Usage("--data goes with grant browser")
    if kind == "browser" and opts.public:
        raise Usage("what a browser knows is private: --public goes with files and wiki")
    now = time.time_ns() // 1000
    terms = Grant(kind, audience=_choice("--audience", opts.audience or "shell", AUDIENCES), public=opts.public,
                  granted_at=now, expires_at=None if opts.expires is None else _end(opts.expires, now))
    if kind == "wiki":
        terms = replace(terms, index=_index())
        return [replace(terms, collection=options.printable(name)) for name in names] or [terms]
    if kind == "files":
        if not names:
            raise Usage("grant files needs a PATH", _FORMS)
        return [replace(terms, path=_folder(name)) for name in names]
    if not opts.data:
        raise Usage("grant browser needs --data", f"kinds: {', '.join(DATA)}; all is all but the last")
    data = DATA[:-1] if opts.data == "all" else _choice("--data", opts.data, DATA)
    return _profiles(replace(terms, data=data), names, found)


def _index() -> str:
    """The index of qmd that is in force now. One whose path is not UTF-8 cannot be named in a grant."""
    from lspipe import qmdindex

    path = qmdindex.file_of(paths.user_folder("XDG_CACHE_HOME", ".cache"))
    return path if path.isprintable() else ""


def _choice(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The words of a comma-separated option, in the order of `known`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = next((word for word in words if word not in known), None)
    if unknown is not None or not words:
        raise Usage(f"{option} takes {', '.join(known)}, not '{text if unknown is None else unknown}'")
    return tuple(word for word in known if word in words)


def _end(text: str, now: int) -> int:
    try:
        end = when.until(text, now) if text[:4].isdigit() and "-" in text else now + when.duration(text)
    except ValueError as error:
        raise Usage(f"--expires: {error}") from None
    if not now < end <= when.LAST:
        raise Usage(f"--expires: '{text}' is no time in which a grant could end")
    return end


def _folder(name: str) -> str:
    shown = options.printable(name)
    try:
        real = os.path.realpath(name, strict=True)
    except OSError as error:
        raise NotFound(f"cannot grant '{shown}': {strerror(error)}") from None
    if not os.path.isdir(real):
        raise Usage(f"cannot grant '{shown}': not a folder", "grant the folder that it is in")
    return real


def _entries(path: str) -> list[str]:
    try:
        return sorted(options.printable(name) for name in os.listdir(path))
    except OSError as error:
        raise _cannot_grant(path, error) from None


def _cannot_grant(path: str, error: OSError) -> Precondition:
    return Precondition(f"cannot grant '{options.printable(path)}': {strerror(error)}",
                        fulldisk.hint(error.errno, path))


def _profiles(terms: Grant, names: Sequence[str], found: Sequence[offer.Found]) -> list[Grant]:
    """The grants for the profiles that the names mean; without names for each that there is."""
    if not found:
        raise NotFound("no browser profile found",
                       f"looked below '{options.printable(os.path.expanduser('~'))}' in the folders of"
                       f" {len(known.BROWSERS)} browsers, which the README lists")
    chosen: dict[str, Grant] = {}
    for name in names or (None,):
        fitting = [profile for profile in found if name is None
                   or selects(name, profile.browser, profile.profile, profile.name)]
        if not fitting:
            labels = ", ".join(f"{profile.browser}/{profile.profile}" for profile in found)
            raise NotFound(f"no profile '{name}'", f"found: {labels}")
        for profile in fitting:
            chosen[profile.path] = replace(
                terms, browser=profile.browser, profile=profile.profile, path=profile.path)
    return list(chosen.values())


# grant: the question


def _grant(_opts: SimpleNamespace, run: runner.Run) -> Iterator[bytes]:
    before: Before = run.reach.given
    current = consent.load(before.config)
    grants, left = before.grants, run.clock.left
    terminal.say(before.terminal, offer.overview(
        grants[0].family, before.found, current.grants, grants if before.choose else ()))
    if before.choose:
        grants = offer.chosen(grants, terminal.ask(before.terminal, "Which, by number?", left()))
    grants = [_pinned(grant) for grant in grants]
    terminal.say(before.terminal, offer.question(grants, before.found, before.entries, current.file))
    if terminal.ask(before.terminal, "Grant it? [y/N]", left()).casefold() not in ("y", "yes"):
        raise Precondition("nothing granted: the answer was not yes")

    def change(old: tuple[Grant, ...]) -> tuple[Grant, ...]:
        for grant in grants:
            old = consent.add(old, grant)
        return old

    consent.update(before.config, change)
    for grant in grants:
        run.report.rows_out += 1
        yield terminal.line(f"granted {grant.label}{offer.kinds(grant)}, until {offer.until(grant)}")


def _pinned(grant: Grant) -> Grant:
    """The grant with the identity of what is there now. Raises Precondition where it could not be used."""
    if not grant.path:
        return grant
    try:
        grant = pinned.pin(grant)
    except OSError as error:
        raise _cannot_grant(grant.path, error) from None
    refusal = pinned.verify(Scope(grant, (grant.path,)))
    if refusal is not None:
        raise Precondition(f"cannot grant '{options.printable(grant.path)}': {refusal.detail}")
    return grant


# list and revoke


def _list(opts: SimpleNamespace, run: runner.Run) -> Iterator[bytes]:
    before: Before = run.reach.given
    current = consent.load(before.config)
    now = time.time_ns() // 1000
    concerns = offer.of_source(opts.source)
    listed = [
        offer.Listed(number, *pinned.state(grant, now), grant)
        for number, grant in enumerate(current.grants, 1) if concerns(grant)
    ][: opts.limit]
    granted = {grant.path for grant in current.grants}
    others = [profile for profile in before.found if profile.path not in granted]
    run.report.rows_out = len(listed)
    if opts.json:
        yield stream.dumps(offer.as_object(current.file, listed, others if opts.found else None))
    else:
        yield from map(terminal.line, offer.listing(current.file, listed, others))


def _revoke(opts: SimpleNamespace, run: runner.Run) -> Iterator[bytes]:
    config, names = run.reach.given.config, run.reach.given.names
    before: tuple[Grant, ...] = ()
    if opts.all and not os.path.lexists(consent.file_of(config)):
        return

    def change(old: tuple[Grant, ...]) -> tuple[Grant, ...]:
        nonlocal before
        before = old
        concerns = offer.of_source(opts.source)
        gone: list[Grant] = []
        for word in opts.words or (None,):
            named = [
                grant for number, grant in enumerate(old, 1)
                if concerns(grant) and (word is None or offer.means(word, number, grant, names.get(grant.path)))
            ]
            if not named:
                raise NotFound(f"no such grant: '{options.printable(word or opts.source)}'",
                               "ls-consent list shows them")
            gone += named
        return consent.remove(old, gone.__contains__, offer.kinds_of_source(opts.source))

    if opts.all:
        try:
            before = consent.load(config).grants
        except LspipeError as error:
            run.report.note(f"replaced: {error.message}")
        after = consent.Consent(consent.file_of(config))
        consent.save(after)
    else:
        after = consent.update(config, change)
    for grant in offer.difference(before, after.grants):
        run.report.rows_out += 1
        yield terminal.line(f"revoked {grant.label}{offer.kinds(grant)}")


main = runner.Tool(cli, rows, reach)
