"""Secrets in a url, by where they stand: before the host, under a parameter's name, behind a word in the path (pure).

A url is cut by the expression of RFC 3986, appendix B, which accepts every string. Everything between the secrets
stays byte for byte.
"""

import re
from collections.abc import Callable

from lspipe.secretforms import MASK, RANDOM_LENGTH, is_mixed, is_placeholder, is_random, kind_of_name
from lspipe.secrethints import DOOR_HINT, DOORS

#: Gives a text without its secrets and how many they were.
Inner = Callable[[str], tuple[str, int]]

_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
#: A query string alone.
_PARAMS = re.compile(r"[^/?#=]*=")
#: The user and password of what is no web page: people do not encode the `/`, `?`, `#` and `@` in these.
_PASSWORD = re.compile(r"([^:/?#@]*):(?![0-9]*(?:[/?#]|\Z))(.+)@", re.DOTALL)
_WEB = frozenset({"http", "https", "file", "ws", "wss"})
_MARKS = re.compile(r"[;=%(]")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_RESERVED = re.compile(r"[^A-Za-z0-9\-._~]")
_BETWEEN = re.compile(r"([&;])")
#: The segment behind one of these may be what lets the reader in.
_DOOR = re.compile(DOORS, re.IGNORECASE)
_DOOR_LENGTH = 24
_BEHIND = 3
_ALWAYS = 99
_PLAIN_WORD = re.compile(r"[a-z]{4,}\Z")
_LABELLED = re.compile(r"((?:private|secret|token|key|session)[-_:])(.*)\Z", re.IGNORECASE | re.DOTALL)
_COOKIELESS = re.compile(r"(\((?:[A-Z]\([^()]*\))*[A-Z]\()([^()]{8,})(\).*)\Z", re.DOTALL)  # ASP.NET: /(S(..))/
_DECODINGS = 3


def redact(url: str, inner: Inner) -> tuple[str, int]:
    """`url` without its secrets, and how many they were. `inner` looks into what is encoded in its parts."""
    found = _PARTS.match(url)
    if found is None:  # It matches every string; who reads this need not believe it.
        return url, 0
    scheme, authority, path, query, fragment = found.groups()
    if authority is None and not scheme and _PARAMS.match(url):
        return _params(url, inner)
    parts = ["" if scheme is None else scheme + ":"]
    count = 0
    if scheme and authority and scheme.lower() not in _WEB:
        open_end = _PASSWORD.match(url, found.start(2))
        if open_end is not None and open_end[2] != MASK:
            rest, count = redact("//" + url[open_end.end():], inner)
            return f"{scheme}://{open_end[1]}:{MASK}@{rest[2:]}", count + 1
    if authority is not None:
        text, more = _userinfo(authority)
        parts.append("//" + text)
        count += more
    if path:
        behind = 0
        if authority is not None and ("hook" in authority or "hook" in (scheme or "")):
            behind = _ALWAYS
        # In the path of a file, and where no host is named, such words are names of folders.
        local = authority is None or (scheme or "").lower() == "file"
        if "://" in path:  # view-source:https://.., an archive's copy, a page as data.
            path, more = inner(path)
            count += more
        text, more = _path(path, inner, behind, local)
        parts.append(text)
        count += more
    if query:
        text, more = _params(query[1:], inner)
        parts.append("?" + text)
        count += more
    if fragment:
        text, more = _fragment(fragment[1:], inner)
        parts.append("#" + text)
        count += more
    return ("".join(parts), count) if count else (url, 0)


def decoded(text: str) -> str:
    """Percent-decoded once; bytes that are not UTF-8 become lone surrogates, which `encoded` takes back."""
    if "%" not in text:
        return text
    return _ESCAPES.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "surrogateescape"), text)


def encoded(text: str) -> str:
    """All but RFC 3986's unreserved characters percent-encoded."""
    return _RESERVED.sub(_escape, text)


def _escape(found: "re.Match[str]") -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:
        return f"%{code - 0xDC00:02X}"
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def _bare(text: str) -> str:
    """Decoded until nothing is left to decode, or three times."""
    for _ in range(_DECODINGS):
        if "%" not in text:
            break
        text = decoded(text)
    return text


def _userinfo(authority: str) -> tuple[str, int]:
    user, at, host = authority.rpartition("@")
    if not at:
        return authority, 0
    name, colon, password = user.partition(":")
    count = 0
    if password not in ("", MASK):  # No placeholder: whoever opens such a url has put something there.
        password = MASK
        count += 1
    if is_mixed(_bare(name), RANDOM_LENGTH):  # A token that stands for user and password.
        name = MASK
        count += 1
    return name + colon + password + at + host, count


def _path(path: str, inner: Inner, behind: int = 0, local: bool = False) -> tuple[str, int]:
    """Segments behind a word that opens something, parameters of a segment, and what is encoded in one.

    `behind`: how many segments, from here on, stand behind such a word. A `local` path has no such words.
    """
    if path.endswith(".ics"):  # Whoever has the address of a calendar reads it.
        behind = _ALWAYS
    if not behind and not _MARKS.search(path) and not DOOR_HINT.search(path.lower()):
        return path, 0
    count = 0
    segments = path.split("/")
    for number, segment in enumerate(segments):
        if not segment:
            continue
        base, semicolon, matrix = segment.partition(";")
        shown = base
        bare = _bare(base)
        if behind and is_mixed(bare, RANDOM_LENGTH):
            shown, count = MASK, count + 1
        elif "=" in base:
            shown, more = _params(base, inner)
            count += more
        else:
            shown, more = _segment(base, inner)
            count += more
        if not local:
            if len(bare) <= _DOOR_LENGTH and _DOOR.search(bare):
                behind = max(behind, _BEHIND)
            elif behind < _ALWAYS:
                behind = 0 if _PLAIN_WORD.match(bare) else max(0, behind - 1)
        if semicolon:
            matrix, more = _params(matrix, inner)
            count += more
        segments[number] = shown + semicolon + matrix
    return "/".join(segments), count


def _segment(base: str, inner: Inner) -> tuple[str, int]:
    labelled = _LABELLED.match(base)
    if labelled is not None and is_mixed(labelled[2], RANDOM_LENGTH):
        return labelled[1] + MASK, 1
    session = _COOKIELESS.match(base) if base.startswith("(") else None
    if session is not None and not is_placeholder(session[2]):
        return session[1] + MASK + session[3], 1
    return _within(base, inner)


def _within(value: str, inner: Inner) -> tuple[str, int]:
    """What an encoded value holds, redacted and encoded again; left byte for byte where it holds no secret."""
    if "%" not in value:
        return inner(value) if "=" in value or "://" in value else (value, 0)
    plain = decoded(value)
    if plain == value:
        return value, 0
    text, count = inner(plain)
    return (encoded(text), count) if count else (value, 0)


def _params(text: str, inner: Inner) -> tuple[str, int]:
    """`name=value` between `&` and `;`."""
    pieces = _BETWEEN.split(text)
    count = 0
    for number in range(0, len(pieces), 2):
        piece = pieces[number]
        name, equals, value = piece.partition("=")
        if not equals:
            pieces[number], more = _within(piece, inner)
            count += more
            continue
        if not value:
            continue
        kind = kind_of_name(_bare(name))
        bare = _bare(value)
        if (kind == "hard" and not is_placeholder(bare)) or (kind == "soft" and is_random(bare)):
            pieces[number] = name + equals + MASK
            count += 1
            continue
        shown, more = _within(value, inner)
        if more:
            pieces[number] = name + equals + shown
            count += more
    return "".join(pieces), count


def _fragment(text: str, inner: Inner) -> tuple[str, int]:
    """A fragment is a route with a query, or parameters, or a route."""
    route, mark, query = text.partition("?")
    if mark:
        left, count = _path(route, inner)
        right, more = _params(query, inner)
        return left + mark + right, count + more
    return _params(text, inner) if "=" in text else _path(text, inner)
