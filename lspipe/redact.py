"""Secrets in urls and texts of a row replaced by REDACTED: the value goes, its name and place stay (pure).

A heuristic: it knows how secrets are written, not which strings are secret. What the person asked (`query`,
`matched_terms`) and what says where a row comes from stays as it is, `id` above all; every other string is looked at,
in unknown fields, too. Idempotent. Nothing here raises on any string or on any JSON.
"""

import re
from collections.abc import Callable
from typing import Any

from lspipe import secrethints
from lspipe.row import Row

#: The asker's own words, and what the schema binds to a form in which no secret fits.
UNTOUCHED = frozenset({
    "id", "query_id", "query", "matched_terms", "source", "rank", "score", "retriever_scores", "accessed_at",
    "published_at", "corpus",
})
_BOUND = frozenset({"retriever", "method", "acl", "browser", "profile", "origin", "private"})
#: Fields of rows of our own, for the quick look: those whose objects it knows, what holds no text, and what does.
_ASIDE = UNTOUCHED | {"url"}
_OWN = frozenset({
    "title", "snippet", "text", "provenance", "location", "meta", "author", "language", "mime",
})
_PLAIN = _BOUND | frozenset({
    "line", "column", "end_line", "visit_count", "url_length", "pages", "visits_in_scope", "lines", "sources",
    "time_quality", "lossy", "title_from",
})
_TEXTS = frozenset({"profile_name", "path", "folder", "tags", "pattern", "collection", "docid", "redacted"})
_KNOWN = _OWN | _PLAIN | _TEXTS | {"url"}
Inner = Callable[[str], tuple[str, int]]
_ROUNDS = 4
_DEPTH = 3
_KEY = 12  # No shorter name of a field holds a secret.
#: A row that is too long keeps no longer string, and names no more fields.
_LONG = 4096
_NAMES = 100
_NOTHING: frozenset[str] = frozenset()
_URL = re.compile(r"[^\s<>\"`]+")
#: A string without white space that is a url, or the end of one.
_WHOLE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]{0,30}://|(?!\S*://)(?=\S*[=%@/]))\S*\Z")
#: What ends a sentence, not the url in it.
_AFTER = ".,:;!?)]}'*_"


def text(value: str, is_url: bool = False) -> tuple[str, int]:
    """`value` without its secrets, and how many they were."""
    if not (secrethints.in_url(value) or secrethints.in_text(value)):
        return value, 0
    count = 0
    for _ in range(_ROUNDS):  # What was masked may show what stands behind it.
        found, more = _once(value, is_url, 0)
        if not more:
            break
        value = found
        count += more
    return value, count


def _once(value: str, is_url: bool, depth: int) -> tuple[str, int]:
    """One pass of the rules, by place and then by words; what is encoded is looked into, and so on, three deep."""
    count = 0
    from lspipe import secrettext, secreturl

    if (is_url or _WHOLE.match(value)) and secrethints.in_url(value):
        value, count = secreturl.redact(value, _INNER[depth])
    elif not is_url and "://" in value:
        value, count = _links(value, _INNER[depth])
    if secrethints.in_text(value):
        value, more = secrettext.redact(value)
        count += more
    return value, count


def _inner(depth: int) -> Inner:
    return lambda value: _once(value, False, depth) if depth <= _DEPTH else (value, 0)


_INNER = tuple(_inner(depth + 1) for depth in range(_DEPTH + 1))


def _links(value: str, inner: Inner) -> tuple[str, int]:
    """The urls that stand in a text."""
    from lspipe import secreturl

    parts, at, count = [], 0, 0
    mark = value.find("://")
    while mark >= 0:
        start = mark
        while start > at and mark - start < 30 and (value[start - 1].isalnum() or value[start - 1] in "+.-"):
            start -= 1
        run = _URL.match(value, start)
        end = mark + 3 if run is None else max(mark + 3, start + len(run[0].rstrip(_AFTER)))
        link, more = secreturl.redact(value[start:end], inner)
        parts += [value[at:start], link]
        count += more
        at = end
        mark = value.find("://", at)
    return "".join([*parts, value[at:]]), count


def row(found: Row) -> tuple[Row, int]:
    """The row without its secrets and how many they were; the same object where there were none.

    `meta.redacted` names the fields that were changed, sorted, those of an earlier run among them.
    """
    if _is_plain(found):  # So it is with most rows, and with most of the others it is the url alone.
        url = found["url"]
        if not secrethints.in_url(url):
            return found, 0
        from lspipe import secreturl

        clean, count = secreturl.redact(url, _INNER[0])
        if not count:
            return found, 0
        clean, more = text(clean, True)
        count += more
        shown, names = {**found, "url": clean}, {"url"}
    else:
        shown, count, names = _mapping(found, UNTOUCHED)
        if not count:
            return found, 0
    meta = shown.get("meta")
    meta = dict(meta) if isinstance(meta, dict) else {}
    earlier = meta.get("redacted")
    if isinstance(earlier, list):
        names |= {name for name in earlier if isinstance(name, str)}
    meta["redacted"] = sorted({text(name)[0] for name in names})  # A name of a field may read like a secret.
    shown["meta"] = meta
    return shown, count


def _is_plain(found: Row) -> bool:
    """Whether a quick look over all texts at once shows that there is nothing but, perhaps, at a place in the url."""
    texts: list[str] = []
    for key, item in found.items():
        if key in _ASIDE:
            continue
        if key not in _OWN:
            return False
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            for name, value in item.items():
                if name in _PLAIN:
                    continue
                if name not in _TEXTS:
                    return False
                texts += value if isinstance(value, list) else (value,)
    try:
        shown = "\n".join(texts)
    except TypeError:  # Something else stands where a text does in rows of our own.
        return False
    return not ("=" in shown or "%" in shown or "@" in shown or ";" in shown or "://" in shown
                or secrethints.in_text(f"{found['url']}\n{shown}"))


def _mapping(value: Row, untouched: frozenset[str] = frozenset()) -> tuple[Row, int, set[str]]:
    """The object without secrets, how many they were, and which of its fields were changed."""
    shown: Row = {}
    count = 0
    names: set[str] = set()
    for key, item in value.items():
        if key in untouched:
            shown[key] = item
            continue
        name, more = text(key) if len(key) >= _KEY else (key, 0)
        if not more or name in value or name in shown:
            name, more = key, 0
        if isinstance(item, dict):
            clean, hidden, inside = _mapping(item, _BOUND if key == "provenance" else _NOTHING)
            names |= {f"{name}.{each}" for each in inside}
        else:
            clean, hidden = _value(item, key)
            if hidden + more:
                names.add(name)
        shown[name] = clean
        count += hidden + more
    return shown, count, names


def _value(value: Any, name: str) -> tuple[Any, int]:
    if isinstance(value, str):
        if name not in _KNOWN:
            from lspipe.secretforms import MASK, is_placeholder, kind_of_name

            if kind_of_name(name) == "hard" and not is_placeholder(value):
                return MASK, 1
            if name == "path_b64":
                return _path(value)
        return text(value, name == "url")
    if isinstance(value, list):
        found = [_value(item, name) for item in value]
        count = sum(each[1] for each in found)
        return ([each[0] for each in found], count) if count else (value, 0)
    if isinstance(value, dict):
        shown, count, _names = _mapping(value)
        return (shown, count) if count else (value, 0)
    return value, 0


def _path(value: str) -> tuple[str, int]:
    """A path that is not UTF-8, in base64: the same rules over its bytes."""
    import base64

    try:
        path = base64.b64decode(value, validate=True).decode("utf-8", "surrogateescape")
    except ValueError:
        return text(value)
    shown, count = text(path)
    return (base64.b64encode(shown.encode("utf-8", "surrogateescape")).decode(), count) if count else (value, 0)


def shortened(found: Row) -> Row:
    """A row that its masks have made too long, without `text`, long strings and what else `meta` holds."""
    from lspipe.secretforms import MASK

    meta = found["meta"]
    names = {*meta["redacted"], "text"}
    shown = {}
    for key, value in found.items():
        if key in ("text", "meta"):
            continue
        long = isinstance(value, str) and len(value) > _LONG
        shown[key] = MASK if long else value
        if long:
            names.add(key)
    return {**shown, "meta": {"redacted": sorted(names)[:_NAMES]}}
