"""What the browser commands share: the granted profiles of one kind of data, and the opening of their databases."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

from lspipe import access, pinned
from lspipe.browsers import granted
from lspipe.browsers.granted import Granted
from lspipe.narrow import Grant, Refusal, selects
from lspipe.run import Reach, Run


def reach(kind: str) -> Callable[[SimpleNamespace, Run], Reach]:
    """The profiles granted for `kind`. Their files are opened before lock-down: no path of theirs need be readable."""
    def granted_profiles(opts: SimpleNamespace, run: Run) -> Reach:
        held = access.obtain(run, granted.request(kind, opts.profile),
                             granted.existing(os.path.expanduser("~"), os.environ))
        return Reach(given=granted.profiles_of(held))

    return granted_profiles


def granted_besides(kind: str, opts: SimpleNamespace, run: Run) -> list[Granted]:
    """The profiles whose `kind` is granted as well: nobody asked for it by name, so nothing is said of others."""
    found = []
    for scope in access.ask(run, granted.request(kind, opts.profile)).allowed:
        fds = pinned.hold(scope)
        if not isinstance(fds, Refusal):
            one = access.Held(scope, fds)
            run.closing.callback(one.close)
            found.append(one)
    return granted.profiles_of(found)


def unknown(words: Sequence[str], grants: Sequence[Grant], names: Mapping[str, str]) -> list[str]:
    """Those words of --profile that mean no profile: neither a granted one, nor one that is on this machine."""
    home = os.path.expanduser("~")
    return [word for word in words
            if not any(grant.family == "browser" and selects(word, grant.browser, grant.profile, names.get(grant.path))
                       for grant in grants)
            and not granted.present(word, home, os.environ)]


def shown_names(words: Sequence[str]) -> Mapping[str, str]:
    """The shown names of the granted profiles by their paths, where `words` of --profile may be such names."""
    return granted.request("history", words).names


def open_databases(kind: str) -> Callable[[SimpleNamespace, Run], None]:
    """Open the database of each profile with its journals: what is given are then pairs of both."""
    def opening(_opts: SimpleNamespace, run: Run) -> None:
        asked = run.reach.given
        run.reach.given = [(one, source) for one in asked if (source := granted.database(run, kind, one)) is not None]
        granted.check_any(run, asked)

    return opening
