"""Building and identifying rows: the record that every executable reads or writes (pure)."""

import re
import unicodedata
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]

#: What a row that is too long keeps of each text and of each list.
_LONG, _MANY = 4096, 100
_SPACE = re.compile(r"\s+")


def normalize_query(text: str) -> str:
    """The query text that `query_id` hashes: NFC, white space collapsed, ends stripped."""
    return _SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip()


def query_id(text: str) -> str:
    """`ls_` and 16 hex digits of SHA-256 over the normalized query text alone, so that every stage agrees."""
    import hashlib  # OpenSSL behind it costs 3 ms: not for those that only pass rows on

    return "ls_" + hashlib.sha256(normalize_query(text).encode("utf-8", "replace")).hexdigest()[:16]


def identify(source: str, browser: str | None, profile: str | None, url: str, key: str | None = None) -> str:
    """`res_` and 16 hex digits over what makes a result the same thing when it is found again.

    `key` is the source's own key where the url is not unique: a bookmark's guid, a tab's window and index, a
    download's guid, a match's line and column.
    """
    return identifier(source, browser, profile, url)(key)


def identifier(source: str, browser: str | None, profile: str | None, url: str) -> Callable[[str | None], str]:
    """`identify` for many keys of one url."""
    import hashlib

    parts = (source, browser or "", profile or "", url, "")
    begun = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).copy

    def identified(key: str | None) -> str:
        digest = begun()
        if key:
            digest.update(key.encode("utf-8", "surrogatepass"))
        return "res_" + digest.hexdigest()[:16]

    return identified


def family(row: Row) -> str:
    """The family a row belongs to: browser, files, wiki, or, for rows made by hand, their source's own word."""
    provenance = row.get("provenance")
    if isinstance(provenance, dict) and isinstance(provenance.get("retriever"), str):
        return str(provenance["retriever"])
    return FAMILIES.get(str(row.get("source")), str(row.get("source")))


#: The family of each source that lspipe knows.
FAMILIES = {
    "tabs": "browser", "history": "browser", "bookmarks": "browser", "downloads": "browser",
    "reading": "browser", "files": "files", "wiki": "wiki",
}


def shortened(value: Any) -> Any:
    """A row, or a part of it, with no text above _LONG characters and, inside, no list or object above _MANY items."""
    if isinstance(value, str):
        return value[:_LONG]
    if isinstance(value, list):
        return [shortened(item) for item in value[:_MANY]]
    if isinstance(value, dict):
        return {key: shortened(_first(item)) for key, item in value.items()}
    return value


def _first(value: Any) -> Any:
    return dict(list(value.items())[:_MANY]) if isinstance(value, dict) else value


def is_private(row: Row) -> bool:
    """Private unless the row says, with a plain `false`, that it is not: a missing mark counts as private."""
    provenance = row.get("provenance")
    return not (isinstance(provenance, dict) and provenance.get("private") is False)
