"""qmd: what it is asked, the argument vector that asks it, what its answer and its complaints mean.

qmd finds the pages that hold all words (FTS5: a word also by its stem and where it begins a longer one, a phrase
as it stands), so a question is cut down to its telling words first. What is written here of its answers was seen
with qmd 2.8.3: `search --format json` prints one array, ends with 0 whether or not something was found, and with 1
and words on stderr otherwise. Everything behind `--` is query text, so options stand before it.
"""

import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from lspipe import folding, matching, urls, words
from lspipe.exits import LspipeError, NotFound, Precondition, Upstream, Usage
from lspipe.lexical import STOP
from lspipe.words import Query, Term

MODES = ("search", "vsearch", "query")
#: The oldest version that has all this, and of Node that runs it.
OLDEST, OLDEST_NODE = (2, 8), 22
#: FTS5 nests an expression once for each word that it is to leave out, at most 256 times.
MOST_UNWANTED = 200
BUILD = "qmd collection add FOLDER --name NAME, then qmd update"
INSTALL = f"npm install -g @tobilu/qmd, with Node {OLDEST_NODE} or newer"

_RUN = re.compile(r"[^\W_]+")
_HEADER = re.compile(r"@@ -\d+,\d+ @@[^\n]*\n?")
_NUMBER = re.compile(r"\d+")
_DAMAGED = re.compile(r"not a database|malformed|SQLITE_(?:NOTADB|CORRUPT)")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_UNKNOWN = re.compile(r"Collection not found: (.*)")
_TELLING = re.compile(r"(?:\w*Error|Usage)\b")
_KIND = re.compile(r"^(?:\w*Error(?: \[\w+\])?: )+")
#: Characters of a page that are searched for the place of the match.
_BODY = 1 << 20
_SETTINGS = re.compile(r"Failed to parse \S+: ")
#: In the words of a Node that cannot load qmd or its native parts.
_UNFIT = re.compile(r"ERR_DLOPEN_FAILED|NODE_MODULE_VERSION|ERR_UNKNOWN_BUILTIN_MODULE|SyntaxError|Unsupported engine")


class Question(NamedTuple):
    """A query as qmd can be asked: `terms`, all of which a page must hold, and `unwanted`, none of which.

    `checked`: there are words bound to the title or the url, which qmd does not know: its answer is looked through.
    """

    query: Query
    terms: tuple[Term, ...]
    unwanted: tuple[Term, ...]
    checked: bool

    @property
    def hopeless(self) -> bool:
        """Whether no page can match: nothing is wanted, or a site, which a wiki has none of."""
        return bool(self.query.sites) or not self.terms

    def text(self, terms: Sequence[Term]) -> str:
        """The query text for qmd that asks for these of the terms."""
        return " ".join([*map(spelled, terms), *(f"-{spelled(term)}" for term in self.unwanted)])


def question(text: str, all_terms: bool = False) -> Question:
    """What to ask. Words that say nothing about a subject (`the`, `how`) count only where nothing else is wanted,
    or all words are. Raises Usage where more is to be left out than qmd can."""
    query = words.parse(text)
    wanted = query.wanted
    telling = tuple(term for term in wanted if term.phrase or term.field or term.key not in STOP)
    bound = any(term.field for term in (*wanted, *query.excluded))
    unwanted = tuple(term for term in query.excluded if term.field is None)
    if len(unwanted) > MOST_UNWANTED:
        raise Usage(f"{len(unwanted)} excluded words are too many: qmd leaves out at most {MOST_UNWANTED}")
    return Question(query, wanted if all_terms else telling or wanted, unwanted, bound)


def spelled(term: Term) -> str:
    """A term as qmd and FTS5 read it: a bare word, or a phrase where it is one or has several parts.

    Its letters as typed: qmd's index knows accents and stems by itself, but not that `ss` may be `ß`.
    """
    runs = _RUN.findall(term.text)
    return runs[0] if len(runs) == 1 and not term.phrase else f'"{" ".join(runs)}"'


def match(terms: Sequence[Term], unwanted: Sequence[Term] = ()) -> str:
    """The FTS5 expression by which qmd finds pages that hold all of the terms and none of the unwanted ones."""
    return " NOT ".join([" AND ".join(map(_expression, terms)), *map(_expression, unwanted)])


def _expression(term: Term) -> str:
    parts: list[str] = []
    for run in _RUN.findall(term.text):
        for cjk, group in itertools.groupby(run, folding.is_cjk):
            letters = list(group)
            parts += letters if cjk else ["".join(letters)]  # qmd indexes each letter of these scripts as a word.
    return f'"{" ".join(parts)}"' + ("" if term.phrase or len(parts) > 1 else "*")


def arguments(command: Sequence[str], mode: str, text: str, collections: Sequence[str] = (), limit: int | None = None,
              full: bool = False) -> list[str]:
    """The argument vector; `command` is what starts qmd. `limit` None: everything."""
    argv = [*command, mode, "--format=json", *(["--all"] if limit is None else ["-n", str(limit)])]
    argv += ["--full"] if full else []
    return [*argv, *(f"--collection={name}" for name in collections), "--", text]


class Hit(NamedTuple):
    """One element of an answer. `body` is the whole page where it was asked for, else the lines around the match."""

    collection: str
    path: str
    line: int | None
    title: str | None
    docid: str | None
    body: str
    whole: bool

    @property
    def url(self) -> str:
        """`qmd://`, percent-encoded: qmd prints a path raw here and encoded there."""
        return "qmd://" + urls.file_url(b"/" + f"{self.collection}/{self.path}".encode("utf-8", "replace"))[8:]


    def within(self, folder: str) -> bool:
        """Whether it is a folder of its collection (relative; empty: all of it) or the very file that holds it."""
        return not folder or self.path == folder or self.path.startswith(folder + "/")


class Answer(NamedTuple):
    """The hits in qmd's own order, and how many elements were none."""

    hits: list[Hit]
    strange: int


def answer(data: bytes) -> Answer:
    """What qmd printed. Raises Upstream where it is no array."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, list):
        shown = one_line(data[:300].decode("utf-8", "replace"))[:60]
        said = f"'{shown}'" if shown else "nothing"
        raise Upstream(f"qmd printed {said}, where its answer should be", _newer())
    hits = [_hit(item) for item in found]
    return Answer([hit for hit in hits if hit is not None], hits.count(None))


def _hit(item: Any) -> Hit | None:
    file = item.get("file") if isinstance(item, dict) else None
    if not isinstance(file, str) or not file.startswith("qmd://"):
        return None
    collection, _, path = file.removeprefix("qmd://").partition("/")
    if not collection or not path or "\0" in file:
        return None
    whole = isinstance(item.get("body"), str)
    body = item["body"] if whole else _HEADER.sub("", _text(item.get("snippet")) or "", count=1)
    if len(body) > _BODY:
        body = body[:_BODY]
    line = item.get("line")
    line = line if isinstance(line, int) and not isinstance(line, bool) and line > 0 else None
    return Hit(collection, path, line, _text(item.get("title")), _text(item.get("docid")), body, whole)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def place(hit: Hit, query: Query) -> int | None:
    """The line of the best match: qmd's own, but where a wanted word is in another one and in this one is none.

    qmd looks for the words as typed, quotes and all, and so takes the first line for that of a phrase.
    """
    lines = hit.body.split("\n")
    if not hit.whole or hit.line is None or hit.line > len(lines) or matching.places(lines[hit.line - 1], query):
        return hit.line
    found = matching.places(hit.body, query)
    return hit.body.count("\n", 0, found[0][0]) + 1 if found else hit.line


def around(hit: Hit, line: int | None) -> str:
    """The lines near the match, from which a snippet is made."""
    if not hit.whole or line is None:
        return hit.body
    return "\n".join(hit.body.split("\n")[max(0, line - 2):line + 3])


def excerpt(hit: Hit, line: int | None, limit: int) -> str:
    """At most `limit` characters of the page: all of it, or whole lines from a little before the match on."""
    body = hit.body.replace("\r\n", "\n")
    if len(body) <= limit or line is None:
        return body[:limit]
    lines = body.split("\n")
    first = min(line, len(lines)) - 1
    # Half of the room is for what stands before the match; all of it that the rest of the page leaves.
    room = max(limit // 2, limit - sum(map(len, lines[first:])) - len(lines[first:]))
    while first > 0 and room > len(lines[first - 1]):
        first -= 1
        room -= len(lines[first]) + 1
    return "\n".join(lines[first:])[:limit]


def trouble(code: int, errors: str, node: str | None) -> LspipeError | None:
    """Why it did not end well; None where it did. `node` is the version of the Node that ran it, where that was asked.

    An old Node loads qmd and dies by SIGSEGV, without a word, when it opens the index.
    """
    if code == 0:
        return None
    if node is not None and too_old(node, (OLDEST_NODE,)):
        return Precondition(f"qmd needs Node {OLDEST_NODE} or newer; this one is {node}", INSTALL)
    if code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        return Upstream(f"qmd was killed by signal {number}", "see whether qmd search works by itself")
    unknown = _UNKNOWN.search(errors)
    if unknown is not None:
        return NotFound(f"there is no collection '{unknown[1].strip()}'", "qmd collection list shows what there is")
    if _DAMAGED.search(errors):
        return damaged(one_line(errors))
    said = one_line(errors)
    settings = _SETTINGS.match(said)
    if settings is not None:
        # Not what it says: it quotes the file, which may be a link to any other.
        return Upstream("qmd cannot read its settings", "mend qmd/index.yml in ~/.config, or see: qmd status")
    return Upstream(f"qmd ended with {code}" + (f": {said}" if said else ""), _newer())


def ask_version(code: int, errors: str) -> bool:
    """Whether the version of Node may explain this end."""
    return code not in (0, -9, -15) and (code < 0 or code > 128 or bool(_UNFIT.search(errors)))


def damaged(why: str) -> Upstream:
    """The index is no database any more."""
    return Upstream(f"the index of qmd is damaged: {why}", f"move it away, and build it again: {BUILD}")


def too_old(version: str, oldest: tuple[int, ...]) -> bool:
    """Whether a version (`v20.20.2`) is older; one that says nothing is not."""
    numbers = tuple(int(number) for number in _NUMBER.findall(version)[:len(oldest)])
    return bool(numbers) and numbers < oldest


def one_line(errors: str) -> str:
    """The line of qmd's own words that says what is wrong; there may be a stack around it, and codes that move
    the cursor."""
    lines = [line.strip() for line in _CONTROL.sub("", errors).splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.match(line)]
    return _KIND.sub("", (telling or lines or [""])[0])[:200]


def _newer() -> str:
    return f"ls-qmd needs qmd {'.'.join(map(str, OLDEST))} or newer: qmd --version"
