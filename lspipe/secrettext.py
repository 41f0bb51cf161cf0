"""Secrets in text, by the words before them: `password: x`, headers, keys in armour, options of commands (pure)."""

import re
from collections.abc import Iterator

from lspipe import secretforms, secrethints
from lspipe.secretforms import MASK, is_mixed, is_placeholder

_NAME = re.compile(
    r"(?:(?P<word>pass(?:word|wd|phrase|wort)|(?<![a-z])pass|pwd|psk|(?i:парол[ья])|密[码碼]|パスワード|비밀번호"
    r"|contrase[nñÑ]a|senha|l[öÖ]senord|mot de passe)"
    r"|token|secret|(?:api|access|private|secret|account|auth|subscription|encryption|signing|master)[_\- ]?key"
    r"|(?<![a-z])auth|credentials?|session[_-]?id|sessid|signature)"
    r"(?:_(?:key|base|value))*[\"'`\]\\]{0,3}[ \t\xa0\u3000]{0,8}"
    r"(?P<sep>=>|:=|[:=：>]|is\b|ist\b|was\b)[ \t\xa0\u3000]{0,8}"
)
_OPTION = re.compile(r"--(?:(?P<word>pass(?:word|wd|phrase)?)|token|secret|api-?key|access-?token|auth-?token) ")
_QUOTED = re.compile(r"([\"'`])((?:(?!\1)[^\n\\]|\\.)+)\1")
_ESCAPED = re.compile(r"\\([\"'])([^\"'\\\n]+)\\\1")
#: One that was cut before its end, by --max-chars or by whoever made the snippet: to the end of the line.
_OPEN = re.compile(r"\\?([\"'])((?:(?!\1)[^\n\\])+)(?=[\n\\]|\Z)")
_BARE = re.compile(r"[^\s\"'`<>,;&|]{1,512}")
_REST = re.compile(r"[^\s\"'`<>,;&|]*")
_CODE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)*[(\[{]|[A-Za-z_]+(?:(?:\.|::|->)[A-Za-z_]+)+;?\Z")
_MARKED = re.compile(r"\w[!@#$%^&*+~=]\w")
_BEFORE = 80  # So long is the name of a setting with what stands before it.
_MEASURE = re.compile(r"[0-9]+-[a-z]{3,}\Z")
_COMMON = frozenset({
    "password", "passwd", "passphrase", "secret", "token", "string", "str", "text", "none", "null", "required",
    "optional", "hidden", "here", "yours", "empty", "username", "incorrect", "invalid", "missing", "expired",
    "generator", "manager", "managers", "protected", "changed", "unknown",
})

_AUTHORIZATION = re.compile(
    r"authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?P<scheme>(?:basic|bearer|token|digest|apikey)[ \t]{1,4})?"
    r"(?P<value>[^\s\"'<>,;]{8,})")
_BEARER = re.compile(r"\bbearer[ \t]{1,4}(?P<value>[a-z0-9._~+/=-]{12,})")
_COOKIE = re.compile(r"cookie[\"']?[ \t]{0,4}:(?P<rest>[^\n]*)")
_CRUMB = re.compile(r"[=]([^\s;\"',]{8,})")
_ARMOUR = re.compile(r"-----begin [a-z0-9 ]{0,40}private key(?: block)?-----(?P<value>.*?)(?=-----end |\Z)", re.DOTALL)
_WIFI = re.compile(r"wifi:[^\n]{0,200}?(?<=[:;])p:(?P<value>(?:[^;\\\n]|\\.)+)")
_NETRC = re.compile(r"\blogin[ \t]{1,8}\S{1,200}[ \t]{1,8}password[ \t]{1,8}(?P<value>\S+)")
_CURL = re.compile(r"(?<!\S)(?:-u|--user)[ =]{1,2}[\"']?[^\s:\"']{1,200}:(?P<value>[^\s\"']+)")
_ONCE = re.compile(r"(?:verification|security|log-?in|sign-?in|access|one-time|confirmation|authentication|2fa)[ -]code"
                   r"(?: is|:| is:)? {0,2}(?P<value>[0-9]{4,8}|[0-9]{3}[- ][0-9]{3})\b")


def redact(text: str) -> tuple[str, int]:
    """`text` without its secrets, and how many they were. Where not `secrethints.in_text` there are none."""
    found = secretforms.spans(text) + _spans(text, secrethints.lower(text))
    if not found:
        return text, 0
    found.sort()
    parts, at, count = [], 0, 0
    for start, end in found:
        if start < at:  # Inside the one before, or over its end.
            if end <= at:
                continue
            start = at
        parts += [text[at:start], MASK]
        at, count = end, count + 1
    return "".join([*parts, text[at:]]), count


def _spans(text: str, low: str) -> list[tuple[int, int]]:
    found = list(_assigned(text, low))
    if "private key" in low:
        found += [span for armour in _ARMOUR.finditer(low) if (span := _stripped(text, *armour.span("value")))]
    if "auth" in low:
        for header in _AUTHORIZATION.finditer(low):
            value = text[slice(*header.span("value"))]
            if not is_placeholder(value) and (is_mixed(value) or header["scheme"] and not value.islower()):
                found.append(header.span("value"))
    if "bearer" in low:
        found += [one.span("value") for one in _BEARER.finditer(low) if is_mixed(text[slice(*one.span("value"))])]
    if "cookie" in low:
        for line in _COOKIE.finditer(low):
            found += [crumb.span(1) for crumb in _CRUMB.finditer(text, *line.span("rest"))
                      if (is_mixed(crumb[1]) or len(crumb[1]) >= 20) and not is_placeholder(crumb[1])]
    for needle, pattern in (("wifi:", _WIFI), ("login", _NETRC), ("-u", _CURL), ("code", _ONCE)):
        if needle in low:
            found += [one.span("value") for one in pattern.finditer(low)
                      if not is_placeholder(text[slice(*one.span("value"))])]
    return found


def _stripped(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The span without white space at its ends; None where nothing is left, or it is masked."""
    inside = text[start:end]
    start += len(inside) - len(inside.lstrip())
    inside = inside.strip()
    return None if not inside or inside == MASK else (start, start + len(inside))


def _assigned(text: str, low: str) -> Iterator[tuple[int, int]]:
    """The values behind the names of secrets."""
    for pattern in (_NAME, _OPTION) if "--" in low else (_NAME,):
        at = 0
        while (name := pattern.search(low, at)) is not None:
            at = name.end()
            quoted = _QUOTED.match(text, at) or _ESCAPED.match(text, at)
            if quoted is None and (pattern is _OPTION or name["sep"] not in ("is", "ist", "was")):
                quoted = _OPEN.match(text, at)
            if quoted is not None:
                start, end = quoted.span(2)
                whole = text[start:end]
            else:
                bare = _BARE.match(text, at)
                if bare is None:
                    continue
                whole = bare[0]
                start, end = bare.start(), bare.start() + len(whole.rstrip(".,:)]}…"))
            value = text[start:end]
            sep = name["sep"] if pattern is _NAME else " "
            if is_placeholder(whole) or is_placeholder(value) or _CODE.match(value):
                continue
            judge = _is_password if name["word"] else _is_key
            if judge(value, quoted is not None, sep, text, name.start(), end):
                if end - start >= 500 and quoted is None:
                    rest = _REST.match(text, end)
                    end = rest.end() if rest else end
                yield start, end
                at = end


def _is_key(value: str, quoted: bool, sep: str, text: str, start: int, end: int) -> bool:
    """A machine has made it: letters and digits in one run. A variable of a shell may hold any word."""
    if is_mixed(value):
        return " " not in value
    return not quoted and len(value) >= 6 and _is_shell(sep, text, start, end)


def _is_password(value: str, quoted: bool, sep: str, text: str, start: int, end: int) -> bool:
    """A person has made it: nothing is too short or too simple where it stands as a value."""
    if len(value) < 4 or value.lower() in _COMMON:
        return False
    digit = any(char.isdigit() for char in value)
    if quoted:
        return digit or not any(char.isspace() for char in value)
    if digit and any(char.isalpha() for char in value):
        return not _MEASURE.match(value)
    if _MARKED.search(value):
        return True
    if digit:
        return end == len(text) or text[end] == "\n"
    if sep == " ":
        return True
    return _is_shell(sep, text, start, end) or _is_whole_line(value, sep, text, start, end)


def _is_shell(sep: str, text: str, start: int, end: int) -> bool:
    """`NAME=value`, `--name=value`, `&name=value`, without a blank: no program's source."""
    name = text[max(0, start - 40):end].partition("=")[0].split()[-1:] or [""]
    tight = sep == "=" and text[start:end].partition("=")[2][:1] not in ("", " ", "\t")
    return tight and (name[0].isupper() or name[0].startswith("--") or text[start - 1:start] in ("&", "?"))


def _is_whole_line(value: str, sep: str, text: str, start: int, end: int) -> bool:
    """`name: value` and nothing else, in a text of several lines: a file of settings."""
    if sep not in (":", "=") or not value.isascii() or len(value) < 6 or not (end == len(text) or text[end] == "\n"):
        return False
    before = text[max(0, start - _BEFORE):start]  # Never the whole line: a text may be one of a megabyte.
    cut = before.rfind("\n") + 1
    if not cut and start > _BEFORE:
        return False
    return (not before[cut:].strip(" \t\"'-_.").strip("abcdefghijklmnopqrstuvwxyz_")
            and (cut > 0 or end < len(text) or "\n" in text))
