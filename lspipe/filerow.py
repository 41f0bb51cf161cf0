"""What every row about a file says of it: title, url, place, time, who may see it."""

import base64
import os
import stat
from typing import Any

from lspipe import row, urls, when
from lspipe.row import Row


class FileFacts:
    """One file, looked at once however many of its lines match.

    `path` is its absolute path in bytes, `method` how it was found, `private` whether its rows are, `now` the present
    in microseconds.
    """

    def __init__(self, path: bytes, method: str, private: bool, now: int) -> None:
        self.path = path
        self.url = urls.file_url(path)
        self._identified = row.identifier("files", None, None, self.url)
        self.name = os.path.basename(path).decode("utf-8", "replace")
        try:
            self._place: dict[str, Any] = {"path": path.decode("utf-8")}
        except UnicodeDecodeError:
            self._place = {"path_b64": base64.b64encode(path).decode("ascii")}
        try:
            found = os.stat(path)
            self.size = found.st_size
            self.modified, self.quality = when.from_unix_us(found.st_mtime_ns // 1000, now)
        except OSError:  # It was there a moment ago.
            self.size, self.modified, self.quality = 0, None, "missing"
        #: A row with what is the same in all of them; a copy that has all keys is faster than one that grows.
        self._row: Row = {
            "id": "", "source": "files", "rank": 0, "title": self.name, "url": self.url, "snippet": "",
            "accessed_at": None if self.modified is None else when.rfc3339(self.modified),
            "location": self._place,
            "provenance": {"retriever": "files", "method": method, "acl": "authorized", "private": private},
            "meta": {},
        }

    @property
    def id(self) -> str:
        """The id of the file as one result."""
        return self._identified(None)

    def within(self, since: int | None, until: int | None) -> bool:
        """Whether it was modified in [since, until); what has no time is not, where there is a bound."""
        if since is None and until is None:
            return True
        if self.modified is None:
            return False
        return (since is None or since <= self.modified) and (until is None or self.modified < until)

    def row(self, rank: int, snippet: str, meta: dict[str, Any], line: int, column: int, key: str | None) -> Row:
        """A row without score and text. `key` is what tells the rows of one file apart."""
        found = self._row.copy()
        found["id"] = self._identified(key)
        found["rank"] = rank
        found["snippet"] = snippet
        found["location"] = {**self._place, "line": line, "column": column}
        if self.quality:
            meta["time_quality"] = self.quality
        found["meta"] = meta
        return found


def excerpt(path: bytes, offset: int, limit: int) -> str | None:
    """At most `limit` characters of a text file: all of it, or whole lines from a little before `offset` (bytes) on.

    None where it cannot be had: gone, no regular file, UTF-16, in which the offset means something else.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or os.pread(fd, 2, 0) in (b"\xff\xfe", b"\xfe\xff"):
            return None
        start = 0 if found.st_size <= limit else max(0, offset - limit // 2)
        data = os.pread(fd, 4 * limit, start)
    except OSError:
        return None
    finally:
        os.close(fd)
    if start:
        first_end = data.find(b"\n", 0, offset - start)
        data = data[first_end + 1:]  # Nothing is cut where the line is longer than that.
        while data and data[0] & 0xC0 == 0x80:
            data = data[1:]
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    if len(text) <= limit and len(data) < 4 * limit:
        return text
    end = text.rfind("\n", limit // 2, limit)  # Whole lines, where that does not cost too much.
    return text[:end + 1 if end >= 0 else limit].rstrip("\ufffd")
