"""Show rows to people and to other tools: a table, urls, paths, TSV, or one JSON object.

    $ ls-history rust | ls-show
    $ ls-rg -l TODO . | ls-show --as paths -0 | xargs -0 wc -l

The bytes do not depend on a terminal but for the table's width and colour.
"""

import base64
import os
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

import click

from lspipe import options, render, row, runner, stream, table, urls, words
from lspipe.exits import Usage
from lspipe.row import Row

READS, EMITS, ZONE = "row", None, "local"
FORMS = ("table", "jsonl", "urls", "paths", "tsv", "results", "exa")
_FIELDS = ("jsonl", "tsv", "results")
_TSV = ("rank", "score", "source", "title", "url")


@options.command("ls-show", kind="sink", reads=READS, emits=EMITS)
@click.option("--as", "form", type=click.Choice(FORMS), default="table", show_default=True, help="The form.")
@click.option("-0", "--null", is_flag=True, help="End each url, path or TSV line with NUL, raw as it is.")
@click.option("--fields", metavar="A,B.C",
              help=f"The fields of jsonl, tsv and results, dotted; without, tsv has {', '.join(_TSV)}.")
@click.option("--public", is_flag=True, help="Leave out what is private or not marked as public.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour and links.")
@click.option("-q", "--query", help="Highlight these words instead of each row's own query.")
def cli(**given: object) -> SimpleNamespace:
    if given["form"] not in _FIELDS and options.typed("fields"):
        raise Usage(f"--fields goes with --as jsonl, tsv or results, not {given['form']}")
    return options.namespace(**given)


def rows(opts: SimpleNamespace, upstream: Iterator[Row], run: runner.Run) -> Iterator[bytes]:
    """The bytes to print."""
    if opts.null and opts.form not in ("urls", "paths", "tsv"):
        raise Usage(f"-0 goes with --as urls, paths or tsv, not {opts.form}")
    strangers = dict.fromkeys(render.split_fields(opts.fields) if opts.form in _FIELDS else ())
    found = islice(_visible(opts, upstream, run), opts.limit)
    yield from _FORMS[opts.form](opts, _met(found, strangers), run)
    if strangers and run.report.rows_out:
        run.flush()
        run.report.strangers("has", strangers)


def _met(found: Iterator[Row], strangers: dict[str, None]) -> Iterator[Row]:
    """The rows; of the names of fields those stay that no row had."""
    for item in found:
        for name in [name for name in strangers if render.has(item, name)]:
            del strangers[name]
        yield item


def _visible(opts: SimpleNamespace, upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    for item in upstream:
        if opts.public and row.is_private(item):
            run.report.counts["private_dropped"] += 1
            continue
        if opts.public:
            item.pop("corpus", None)  # After a fusion it tells of what else was searched.
        run.report.rows_out += 1
        yield item


def _table(opts: SimpleNamespace, found: Iterator[Row], run: runner.Run) -> Iterator[bytes]:
    color = table.use_color(opts.color, os.environ, 1)
    cells = table.columns(os.environ, 1)
    queries: dict[str, words.Query] = {}
    for number, item in enumerate(found, 1):
        text = opts.query or item.get("query") or ""
        query = queries.setdefault(text, words.parse(text)) if color else None
        line = render.result(item, number, cells, color, run.now, query)
        yield line.encode("utf-8", "replace") + b"\n"


def _jsonl(opts: SimpleNamespace, found: Iterator[Row], _run: runner.Run) -> Iterator[bytes]:
    names = render.split_fields(opts.fields)
    for item in found:
        yield stream.dumps(render.keep(item, names) if names else item)


def _ended(value: bytes, null: bool) -> bytes:
    return value + (b"\0" if null else b"\n")


def _urls(opts: SimpleNamespace, found: Iterator[Row], _run: runner.Run) -> Iterator[bytes]:
    for item in found:
        # A raw control character has no place in a url: percent-encoded it means the same and does no harm.
        url = stream.UNSAFE.sub(_percent, item["url"])
        yield _ended(url.encode("utf-8", "replace"), opts.null)


def _percent(match: Any) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8", "replace"))


def file_path(item: Row) -> bytes | None:
    """The raw path of a file's row; None where it is not a file."""
    location = item.get("location") or {}
    if isinstance(location.get("path"), str):
        return str(location["path"]).encode("utf-8", "surrogateescape")
    try:
        if isinstance(location.get("path_b64"), str):
            return base64.b64decode(location["path_b64"], validate=True)
        return urls.file_path(str(item["url"]))
    except ValueError:
        return None


def _paths(opts: SimpleNamespace, found: Iterator[Row], run: runner.Run) -> Iterator[bytes]:
    for item in found:
        path = file_path(item)
        if path is None:
            run.report.counts["without_a_path"] += 1
        elif not opts.null and stream.UNSAFE.search(path.decode("utf-8", "surrogateescape")):
            run.report.skip(f"path needs -0: '{path.decode('utf-8', 'replace')}'", "control characters in a path")
        else:
            yield _ended(path, opts.null)
    if without := run.report.counts["without_a_path"]:
        run.report.say("note", f"{without} of the rows {'has' if without == 1 else 'have'} no path")


def _tsv(opts: SimpleNamespace, found: Iterator[Row], _run: runner.Run) -> Iterator[bytes]:
    names = render.split_fields(opts.fields) or _TSV
    for item in found:
        cells = (_cell(render.field(item, name)) for name in names)
        yield _ended("\t".join(cells).encode("utf-8", "replace"), opts.null)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else stream.dumps(value, newline=False).decode()
    return table.clean(text)


def _results(opts: SimpleNamespace, found: Iterator[Row], _run: runner.Run) -> Iterator[bytes]:
    names = render.split_fields(opts.fields)
    kept = [render.keep(item, names) if names else item for item in found]
    yield stream.dumps({"results": kept, "count": len(kept)})


def _exa(_opts: SimpleNamespace, found: Iterator[Row], _run: runner.Run) -> Iterator[bytes]:
    request = None
    results = []
    for item in found:
        request = request or item.get("query_id")
        snippet = item.get("snippet")
        results.append({
            "id": item.get("id"), "url": item["url"], "title": item.get("title"), "score": item.get("score"),
            "publishedDate": item.get("published_at"), "author": item.get("author"), "text": item.get("text"),
            "highlights": [snippet] if snippet else [],
        })
    yield stream.dumps({"requestId": request, "results": results})


_FORMS = {
    "table": _table, "jsonl": _jsonl, "urls": _urls, "paths": _paths, "tsv": _tsv, "results": _results, "exa": _exa,
}

main = runner.Tool(cli, rows, settings="show")
