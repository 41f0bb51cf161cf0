"""Urls as data: canonical form, hosts, words, and file urls made from bytes (pure).

A url is cut by the expression of RFC 3986, appendix B, which accepts every string, so nothing here raises on
any, but for the two functions that turn paths into urls and back.
"""

import re
import unicodedata

_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_PORT = re.compile(r":([0-9]*)\Z")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_ESCAPES_IN_BYTES = re.compile(rb"%[0-9A-Fa-f]{2}")
_ANCHOR = re.compile(r"[\w.\-]*\Z")  # \w is any letter, any digit, and "_"
_TRACKING = re.compile(r"(?:utm_[^=]*|gclid|fbclid)(?:=|\Z)")
_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
_CASED_HOSTS = {"qmd"}  # What stands where a host would is a collection, and names of those have case.
_TEXT_DIRECTIVE = ":~:text="
_LABEL = 63  # The longest label of a host name (RFC 1035); decoding takes square time beyond it.
_LETTERS = re.compile(r"[^\x00-,./:-@\[-`{-\x9f\s\u3002]+\Z")  # Nothing that is, or is read as, syntax.

#: How much of a url is searched: a `data:` url can hold megabytes.
SEARCHED = 16_384

_PLAIN_PATH = re.compile(rb"[A-Za-z0-9/\-._~]+")
_QUOTED = tuple(
    chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "/-._~") else f"%{byte:02X}"
    for byte in range(256)
)


def _cut(url: str) -> tuple[str, str | None, str, str, str]:
    """(scheme, authority or None without `//`, path, query with its `?`, fragment with its `#`)."""
    found = _PARTS.match(url)
    assert found is not None  # Every part may be empty.
    scheme, authority, path, query, fragment = found.groups()
    return scheme or "", authority, path, query or "", fragment or ""


def _authority(text: str) -> tuple[str, str, str]:
    """(userinfo with its `@`, host, port with its `:`)."""
    user, at, rest = text.rpartition("@")
    port = _PORT.search(rest)
    if port is None:
        return user + at, rest, ""
    return user + at, rest[: port.start()], port.group()


def split(url: str) -> tuple[str, str, str]:
    """(host in lower case, path, query and fragment with their marks), else as stored."""
    scheme, authority, path, query, fragment = _cut(url)
    return _host(scheme, authority), path, query + fragment


def _host(scheme: str, authority: str | None) -> str:
    name = _authority(authority)[1] if authority else ""
    return name if scheme.lower() in _CASED_HOSTS else name.lower()


def place(url: str) -> str:
    """What a person knows a page by: host, port, path and query; "" for a url without a host."""
    scheme, authority, path, query, _fragment = _cut(url)
    name = _host(scheme, authority)
    port = _authority(authority or "")[2]
    return name + port + ("" if path == "/" and not query else path) + query if name else ""


def host(url: str) -> str:
    """The host in lower case, without user and port, else as stored; "" where the url has none."""
    scheme, authority, *_ = _cut(url)
    return _host(scheme, authority)


def host_forms(url: str) -> tuple[str, str]:
    """The host as stored, and with letters for its `xn--` labels; equal where it has none."""
    stored = host(url)
    return stored, unicode_host(stored)


def unicode_host(name: str) -> str:
    """A host in lower case with letters for its `xn--` labels; one that stands for none stays as it is."""
    name = name.lower()
    if "xn--" not in name:
        return name
    return ".".join(_decoded_label(label) for label in name.split("."))


def ascii_host(name: str) -> str:
    """A host in lower case with `xn--` for its labels that are not ASCII (RFC 3492), as browsers store it."""
    name = name.lower()
    if name.isascii():
        return name
    return ".".join(_encoded_label(label) for label in name.split("."))


def _decoded_label(label: str) -> str:
    if not label.startswith("xn--") or len(label) > _LABEL or not label.isascii():
        return label
    try:
        letters = label[4:].encode("ascii").decode("punycode")
        again = letters.encode("punycode").decode("ascii")
    except (ValueError, OverflowError):
        return label
    # Only letters that are written as this very label, and in no other way (RFC 5891 asks for more).
    honest = again == label[4:] and not letters.isascii() and letters == _plain(letters)
    return letters if honest and _LETTERS.match(letters) else label


def _plain(label: str) -> str:
    return unicodedata.normalize("NFKC", label).lower()


def _encoded_label(label: str) -> str:
    label = _plain(label)
    if label.isascii() or len(label) > _LABEL:
        return label
    try:
        return "xn--" + label.encode("punycode").decode("ascii")
    except (ValueError, OverflowError):
        return label


def recorded(url: str) -> str:
    """A page's address as a browser writes it into its history: without user and password, its host in ASCII."""
    scheme, authority, path, query, fragment = _cut(url)
    if not scheme or authority is None or ("@" not in authority and authority.isascii()):
        return url
    _, name, port = _authority(authority)
    if not name.isascii():
        coded = ascii_host(name)
        # A letter that stands for syntax is in no host that a browser opens.
        name = coded if _LETTERS.match(coded.replace(".", "")) else name
    return f"{scheme}://{name}{port}{path}{query}{fragment}"


def canonical(url: str) -> str:
    """The form by which two urls are the same result.

    Scheme and host in lower case; the default port removed, and the path where it is a lone `/` at the end; of
    http(s) urls `utm_*`, `gclid` and `fbclid` dropped, a text directive, and a fragment that is a plain anchor;
    a file by the bytes of its path; the rest byte for byte. Idempotent.
    """
    scheme, authority, path, query, fragment = _cut(url)
    scheme = scheme.lower()
    if scheme == "file":
        try:
            return file_url(file_path(url))
        except ValueError:
            pass
    if scheme in ("http", "https"):
        query, fragment = _untracked(query), _unanchored(fragment)
    if authority:
        user, name, port = _authority(authority)
        plain = name != "" and (":" not in name or name.endswith("]"))
        if plain and port in (":", ":" + _PORTS.get(scheme, "")):
            port = ""
        if plain and path == "/" and not query and not fragment:
            path = ""
        authority = user + (name if scheme in _CASED_HOSTS else name.lower()) + port
    start = scheme + ":" if scheme else ""
    return start + ("" if authority is None else "//" + authority) + path + query + fragment


def _untracked(query: str) -> str:
    if not query:
        return ""
    given = query[1:].split("&")
    kept = [item for item in given if not _TRACKING.match(item)]
    if len(kept) == len(given):
        return query
    rest = "&".join(kept)
    return "?" + rest if rest else ""


def _unanchored(fragment: str) -> str:
    text = fragment[1:].partition(_TEXT_DIRECTIVE)[0]
    return "" if _ANCHOR.match(text) else "#" + text


def file_url(path: bytes) -> str:
    """`file://` and the raw bytes of an absolute path, percent-encoded but for RFC 3986's unreserved and `/`.

    Raises ValueError for a path that is relative or holds a NUL, which no file has.
    """
    if not path.startswith(b"/") or b"\0" in path:
        raise ValueError("not an absolute path")
    if _PLAIN_PATH.fullmatch(path):
        return "file://" + path.decode("ascii")
    return "file://" + "".join([_QUOTED[byte] for byte in path])


def file_path(url: str) -> bytes:
    """The bytes of the path that a `file:` url of this machine names; query and fragment do not count.

    Raises ValueError where it is none: another scheme, another host, a relative path, a NUL.
    """
    scheme, authority, path, _query, _fragment = _cut(url)
    if scheme.lower() != "file" or (authority or "").lower() not in ("", "localhost"):
        raise ValueError("not the url of a local file")
    raw = _unescaped(path)
    if not raw.startswith(b"/") or b"\0" in raw:
        raise ValueError("not an absolute path")
    return raw


def _unescaped(text: str) -> bytes:
    """The bytes of a percent-encoded text; a `%` without two digits stands for itself. ValueError: surrogates."""
    return _ESCAPES_IN_BYTES.sub(lambda found: bytes.fromhex(found[0][1:].decode()), text.encode())


def decoded(text: str) -> str:
    """A part of a url as people read it, its UTF-8 decoded. For matching, never to print or to open."""
    if "%" not in text:
        return text
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), text)


def word_parts(url: str) -> tuple[str, str, str]:
    """(host, path, query and fragment) for matching: decoded, an `xn--` host in both forms, without the user.

    Only the first SEARCHED characters count, and of a `data:` url its type.
    """
    scheme, authority, path, query, fragment = _cut(url[:SEARCHED])
    if scheme.lower() == "data":
        return "", path.partition(",")[0], ""
    name = _host(scheme, authority)
    if "xn--" in name:
        letters = unicode_host(name)
        name = name if letters == name else f"{name} {letters}"
    return name, decoded(path), decoded(query[1:] + (" " + fragment[1:] if fragment else ""))


def url_words(url: str) -> str:
    """The words of a url as one text: host, path, query and fragment, decoded (UTF-8, errors replaced)."""
    return " ".join(filter(None, word_parts(url)))
