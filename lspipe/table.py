"""Text on a terminal: cleaning, width in cells, fitting, links and colour."""

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping

from lspipe import snippet

#: What `columns` answers where there is no terminal.
COLUMNS = 80

#: What no terminal, and no reader either, is to get: C0, DEL, C1, soft hyphen, direction marks and overrides,
#: what has no width (joiners, fillers, variation selectors), tags, and halves of surrogate pairs. First what
#: separates words, which becomes a space.
_SEPARATORS = re.compile("[\t\n\x0b\x0c\r\x85\u2028\u2029]+")
_UNCLEAN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)

_LINK_SCHEMES = ("http://", "https://", "file:///")
_LONGEST_LINK = 2083  # VTE, and with it most terminals, drops the link beyond.
_MATCH = "1;33"  # Bold yellow.


def clean(text: str) -> str:
    """The text without what could steer a terminal, hide in it or turn it round; always on one line.

    Tabs and line ends become one space; all else that `_UNCLEAN` names is left out. Idempotent.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNCLEAN.sub("", _SEPARATORS.sub(" ", text))


class _Cells(dict[str, int]):
    """The width of each character, worked out when first met."""

    def __missing__(self, char: str) -> int:
        self[char] = cells = _cells(char)
        return cells


def _cells(char: str) -> int:
    category = unicodedata.category(char)
    if category in ("Mn", "Me", "Cf", "Cc", "Cs", "Zl", "Zp"):
        return 0
    if "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7fb":
        return 0  # The later letters of a Hangul syllable stand in the cells of the first.
    if category == "Cn":
        # What Python's tables do not know yet: Han, and the block in which new emoji appear.
        return 2 if "\U00020000" <= char <= "\U0003fffd" or "\U0001fa70" <= char <= "\U0001faff" else 1
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_CELLS = _Cells()
#: So many marks, one upon the other, are found in some script; more of them are there to cover what stands above.
_MARKS = 8
_SEQUENCES = re.compile("[\u200d\ufe0f\U0001f3fb-\U0001f3ff]")


def width(text: str) -> int:
    """How many cells of a terminal a text takes: 2 for wide characters and emoji, 0 for marks and controls.

    A sequence of emoji that is drawn as one (joined, with a skin colour, or a flag) takes two cells.
    """
    if text.isascii() and text.isprintable():
        return len(text)
    if not _SEQUENCES.search(text):
        return sum([_CELLS[char] for char in text])
    total = last = 0
    before = ""
    for char in text:
        if before == "\u200d" and last == 2 and unicodedata.category(char) in ("So", "Sm"):
            pass  # Drawn into the emoji that it is joined to.
        elif char == "\ufe0f":
            if last == 1 and not before.isalpha():  # Asks for the picture of a sign that is also text.
                total += 1
                last = 2
        elif "\U0001f3fb" <= char <= "\U0001f3ff" and last == 2:
            pass
        else:
            cells = _CELLS[char]
            total += cells
            last = cells or last
        before = char
    return total


def fit(text: str, cells: int) -> str:
    """The text in at most so many cells, ended with `…` where it is cut; no character is split.

    Of a letter with hundreds of marks only the first few stay.
    """
    text, too_long = _measured(text, cells)
    if not too_long or cells < 1:
        return "" if too_long else text
    room = cells - width(snippet.ELLIPSIS)
    end = 0
    for at in range(1, len(text)):
        if snippet.border(text, at):
            if width(text[end:at]) > room:
                break
            room -= width(text[end:at])
            end = at
    return text[:end].rstrip() + snippet.ELLIPSIS


def fit_end(text: str, cells: int) -> str:
    """The end of the text in at most so many cells, begun with `…` where it is cut: of a path the name counts."""
    text, too_long = _measured(text, cells)
    if not too_long or cells < 1:
        return "" if too_long else text
    room = cells - width(snippet.ELLIPSIS)
    start = len(text)
    for at in range(len(text) - 1, -1, -1):
        if snippet.border(text, at):
            if width(text[at:start]) > room:
                break
            room -= width(text[at:start])
            start = at
    return snippet.ELLIPSIS + text[start:].lstrip()


def _measured(text: str, cells: int) -> tuple[str, bool]:
    """The text, without marks that nobody could see, and whether it takes more cells than these."""
    if len(text) > 2 * cells and not text.isascii():
        text = _thinned(text)
    return text, len(text) * 2 > cells and width(text) > cells


def _thinned(text: str) -> str:
    """The text without the marks that follow _MARKS others."""
    kept, marks = [], 0
    for char in text:
        marks = 0 if _CELLS[char] else marks + 1
        if marks <= _MARKS:
            kept.append(char)
    return "".join(kept)


def columns(environ: Mapping[str, str], fd: int) -> int:
    """The width to write for: COLUMNS where it is a number, else the terminal's own, else 80."""
    wanted = environ.get("COLUMNS", "")
    if re.fullmatch("[1-9][0-9]{0,4}", wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(fd).columns or COLUMNS
    except (OSError, ValueError):
        return COLUMNS


def use_color(setting: str, environ: Mapping[str, str], fd: int) -> bool:
    """Whether to write colours and links: `always`, `never`, or for `auto` on a terminal that shows them.

    NO_COLOR (not empty) and TERM (`dumb`, or none) turn `auto` off; a person who says `always` is obeyed.
    """
    if setting != "auto":
        return setting == "always"
    if environ.get("NO_COLOR") or environ.get("TERM", "") in ("", "dumb"):
        return False
    try:
        return os.isatty(fd)
    except (OSError, ValueError):
        return False


def paint(text: str, spans: Iterable[tuple[int, int]], style: str = _MATCH) -> str:
    """The text, cleaned, with the spans of it (places before cleaning, in order, apart) in a style of SGR."""
    parts = []
    done = 0
    for start, end in spans:
        start, end = max(start, done), min(end, len(text))
        if start < end:
            parts += [clean(text[done:start]), f"\x1b[{style}m", clean(text[start:end]), "\x1b[0m"]
            done = end
    parts.append(clean(text[done:]))
    return "".join(parts)


def link(url: str, text: str) -> str:
    """The text as a link (OSC 8): of http, https and files of this machine, any other stays plain.

    The text is what is shown, cleaned and perhaps painted already. Of the url every byte that is not printable
    ASCII is percent-encoded, so nothing in it can end the sequence.
    """
    target = "".join([char if "!" <= char <= "~" else _encoded(char) for char in url[: _LONGEST_LINK + 1]])
    if not url.lower().startswith(_LINK_SCHEMES) or len(target) > _LONGEST_LINK:
        return text
    return f"\x1b]8;;{target}\x1b\\{text}\x1b]8;;\x1b\\"


def _encoded(char: str) -> str:
    return "".join([f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass")])
