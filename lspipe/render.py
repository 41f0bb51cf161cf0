"""Rows as people read them: one line a result, the snippet under it, links and highlighted words."""

from typing import Any

from lspipe import folding, matching, table, urls, when, words
from lspipe.row import Row

_SOURCE_CELLS = 9
_MOST_VISITS = 10**9


def place(row: Row) -> str:
    """Where the result is, short: host, path and query of a page, path and line of a file."""
    location = row.get("location")
    if isinstance(location, dict) and location.get("path"):
        line = location.get("line")
        return f"{location['path']}:{line}" if line else str(location["path"])
    url = str(row["url"])
    return urls.place(url) or url


def title(row: Row) -> str:
    """The title, or for a row without one what tells it from the others."""
    text = row.get("title")
    return text if isinstance(text, str) and text.strip() else str(row["url"])


def _visits(row: Row) -> str:
    """How often a page or site was visited, where the row is there for that."""
    count = field(row, "meta.visits_in_scope")
    return f" {count}×" if type(count) is int and 0 < count < _MOST_VISITS else ""


def _adds_words(snippet: str, shown: str) -> bool:
    have = {token.text for token in folding.tokens(shown)}
    return any(token.text not in have for token in folding.tokens(snippet))


def _painted(text: str, query: words.Query | None, color: bool) -> str:
    if not color or query is None:
        return text
    return table.paint(text, matching.spans(text, query))


def result(row: Row, number: int, cells: int, color: bool, now: int, query: words.Query | None) -> str:
    """One result as one or two lines of at most `cells` display cells, without the last newline."""
    head = f"{row.get('rank', number):>2} {table.fit(table.clean(str(row['source'])), _SOURCE_CELLS):<9} "
    accessed = when.parse_rfc3339(row["accessed_at"]) if row.get("accessed_at") else None
    age = _visits(row) + (f" {when.age(accessed, now)}" if accessed is not None else "")
    room = max(20, cells - table.width(head) - table.width(age) - 3)
    shown = table.clean(title(row))
    where = table.clean(place(row))
    if where == shown or shown == row["url"]:
        where = ""  # It would say the same again.
    # The title has the first claim on the room, but leaves a third of it to the place.
    name = table.fit(shown, max(room - table.width(where), room * 2 // 3))
    left = max(0, room - table.width(name))
    where = table.fit_end(where, left) if has(row, "location.path") else table.fit(where, left)
    painted = _painted(name, query, color)
    if color:
        painted = table.link(str(row["url"]), painted)
    text = f"{head}{painted}"
    if where:
        text += f" — {where}"
    text += age
    snippet = row.get("snippet")
    if isinstance(snippet, str) and _adds_words(snippet, shown):
        fitted = table.fit(table.clean(" ".join(snippet.split())), cells - 3)
        text += "\n   " + _painted(fitted, query, color)
    return text


def field(row: Row, name: str) -> Any:
    """The value at a dotted name, None where there is none."""
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def has(row: Row, name: str) -> bool:
    """Whether there is something at a dotted name, be it null."""
    above, _, last = name.rpartition(".")
    inside = field(row, above) if above else row
    return isinstance(inside, dict) and last in inside


def keep(row: Row, names: tuple[str, ...]) -> Row:
    """The row with `id` and the named fields alone, nested as they were, in the row's own order."""
    wanted = {*names, "id"}

    def pick(value: Row, prefix: str) -> Row:
        kept: Row = {}
        for key, item in value.items():
            path = prefix + key
            if path in wanted:
                kept[key] = item
            elif isinstance(item, dict) and any(name.startswith(path + ".") for name in wanted):
                inner = pick(item, path + ".")
                if inner:
                    kept[key] = inner
        return kept

    return pick(row, "")


def split_fields(text: str | None) -> tuple[str, ...]:
    """`title,url,provenance.browser` as names."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
