"""Replace the secrets in urls, titles and texts of rows by REDACTED, and count them.

    $ ls-history rust | ls-redact
    $ ls-rg --words password . | ls-redact --public --report /dev/fd/2 > /dev/null

Found by how secrets are written: user and password before a host, parameters named like a token, a password or a
signature, random values under names like code and state, what follows reset, verify, invite and the like in a path,
JSON Web Tokens, the prefixes of well-known services, private keys, headers, and `password: x` in text. The value is
replaced, its name and place stay: token=REDACTED. meta.redacted names the fields that were changed; id, query and
matched_terms stay as they are.

It knows how secrets are written, not which strings are secret: some get through. Links that open a document for
whoever has them are not touched. --public leaves out rows that are private or not marked, and corpus of the others.
"""

from collections.abc import Iterator
from types import SimpleNamespace

import click

from lspipe import options, redact, row, runner, stream
from lspipe.row import Row

READS, EMITS, ZONE = "row", "row", "local"


@options.command("ls-redact", kind="transform", reads=READS, emits=EMITS)
@click.option("--public", is_flag=True, help="Leave out what is private or not marked as public.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


def opening(_opts: SimpleNamespace, _run: runner.Run) -> None:
    """Compile the rules before there is input: in a pipe, while the sources still look."""
    import lspipe.secrettext
    import lspipe.secreturl  # noqa: F401


def rows(opts: SimpleNamespace, upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """The rows without their secrets."""
    counts = run.report.counts
    counts["redactions"] = 0
    for item in upstream:
        if opts.public and row.is_private(item):
            counts["private_dropped"] += 1
            continue
        if opts.public:
            item.pop("corpus", None)  # After a fusion it tells of what else was searched.
        shown, count = redact.row(item)
        if count:
            counts["redactions"] += count
            if len(stream.dumps(shown)) > stream.LINE_CAP:  # A mask may be longer than what it hides.
                shown = redact.shortened(shown)
                run.report.note("a row was cut: without its secrets it was longer than a row may be")
        yield shown


main = runner.Tool(cli, rows, opening=opening)
