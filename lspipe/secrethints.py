"""A quick look that says of most texts and urls that no rule of redaction fits: it costs microseconds (pure).

Each rule of `secrettext`, `secreturl` and `secretforms` has its piece here; those modules are imported, and their
expressions compiled, where a text passes this look.
"""

import re

#: Of every rule a piece, in lower case. Few first letters: the engine skips to them.
_HINT = re.compile(
    "p(?:ass|wd|sk)|s(?:ecret|enha|ess|ignature)|token|c(?:red|ookie|ode(?: is|:| {0,2}[0-9])|ontrase)|bearer|wifi:"
    "|mot de|login[ \t]|auth(?!or(?!i))|key(?:[\"'`\\]\\\\]{0,3}[ \t\xa0\u3000]{0,8}(?:[:=：>]|is|was)|_|-----| block)"
    "|-(?:(?:-api)?key |u[ =]|-user)"
)
_HINT_BEYOND_ASCII = re.compile("(?i:парол)|密码|密碼|パスワード|비밀번호|l[öÖ]senord")
#: What a path says before a part that lets its reader in.
DOORS = ("reset|verif|confirm|magic|invit|activat|web-?hook|log-?in|sign-?in|unsubscri|recover|one-?time|token"
         "|secret|private|session|sso|approve|accept|join|callback|opt-?out")
DOOR_HINT = re.compile(DOORS + r"|hook|key[-_:]|\.ics")
_BARE_URL = re.compile(r"[^?#;@%=()]*\Z")


def in_text(text: str) -> bool:
    """Whether a text, or many at once, holds a word or a prefix without which nothing in it is a secret."""
    if _token(text):
        return True
    if text.isascii():
        return _HINT.search(text.lower()) is not None
    low = lower(text)
    return _HINT.search(low) is not None or _HINT_BEYOND_ASCII.search(low) is not None


def in_url(url: str) -> bool:
    """Whether a url holds a mark or a word without which no secret is found in it by its place."""
    return not _BARE_URL.match(url) or DOOR_HINT.search(url.lower()) is not None


def lower(text: str) -> str:
    """ASCII in lower case, the rest as it is: not a character more or less."""
    if text.isascii():
        return text.lower()
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _token(text: str) -> bool:
    """Whether a text holds a piece that every token of a known service has. A character is found ten times as fast as
    a word, so one of each piece is asked for first; a loop or a regex would take longer than all of it."""
    return (
        ("_" in text and ("_pat_" in text or "gh" in text or "k_live" in text or "k_test" in text or "npm_" in text
                          or "hf_" in text or "dop_v" in text or "whsec" in text or "shp" in text))
        or ("-" in text and ("pat-" in text or "sk-" in text or "pypi-" in text
                             or ("x" in text and ("xox" in text or "xapp" in text))
                             or ("E-" in text and "AGE-" in text)))
        or ("J" in text and "eyJ" in text)
        or ("I" in text and ("KIA" in text or "SIA" in text or "AIza" in text))
        or ("9" in text and "ya29" in text)
        or ("G" in text and "SG." in text)
        or ("A" in text and ":A" in text)
    )
