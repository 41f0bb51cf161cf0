"""The grants file: load it, and change it so that at every moment it is the old one or the new one, whole.

Consent guards against mistakes and injected arguments, not against a program that runs as you and can write
the file. Its format is `schemas/consent.schema.json`; what the grants allow is for `lspipe.narrow` to say, and
whether a granted folder is still what was granted for `lspipe.pinned`.
"""

import base64
import binascii
import contextlib
import fcntl
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from lspipe import paths, schema, when
from lspipe.exits import Deadline, LspipeError, Precondition, WriteFailed, strerror
from lspipe.narrow import Grant, plain_path

VERSION = 1
_MAX_BYTES = 1 << 20
_LOCK_SECONDS = 10.0


@dataclass(frozen=True)
class Consent:
    """The grants in force and the file they come from; `note` says so where there is no file."""

    file: str
    grants: tuple[Grant, ...] = ()
    note: str | None = None


def file_of(config_dir: str) -> str:
    """The consent file of a configuration folder."""
    return os.path.join(config_dir, "consent.json")


def load(config_dir: str) -> Consent:
    """The grants in force; no file, no grants.

    Precondition, and with it no grants either, for a file or folder that is not ours alone, a file that is
    not JSON, does not fit the schema, or is of another version.
    """
    file = file_of(config_dir)
    try:
        data = _read(file)
    except FileNotFoundError:
        return Consent(file, (), f"no consent file '{file}'")
    except OSError as error:
        raise Precondition(f"cannot read '{file}': {strerror(error)}") from None
    paths.check_private(config_dir)
    return Consent(file, _parse(file, data))


def _read(file: str) -> bytes:
    fd = paths.open_private(file)
    with open(fd, "rb") as stream:
        if os.fstat(fd).st_mode & 0o077:
            raise Precondition(f"refusing '{file}': others can read it", f"chmod 600 {shlex.quote(file)}")
        data = stream.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise Precondition(f"cannot use '{file}': larger than {_MAX_BYTES} bytes")
    return data


# Between the file and grants


def _parse(file: str, data: bytes) -> tuple[Grant, ...]:
    def unusable(detail: str) -> Precondition:
        return Precondition(f"cannot use '{file}': {detail}",
                            "repair it (format: ls-consent --schema), or start anew: ls-consent revoke --all")

    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise unusable(f"not JSON: {error}") from None
    version = value.get("v") if isinstance(value, dict) else None
    if isinstance(version, int | float) and version != VERSION:
        raise Precondition(f"cannot use '{file}': format version {version}, this lspipe reads {VERSION}",
                           "upgrade lspipe, or name another configuration folder: LSPIPE_CONFIG_HOME")
    if not schema.checker("consent")(value):
        raise unusable(schema.reason("consent", value))
    grants = []
    for number, row in enumerate(value["grants"]):
        try:
            grants.append(_from_json(row))
        except ValueError as error:
            raise unusable(f"grants.{number}.{error}") from None
    return tuple(grants)


def _from_json(row: dict[str, Any]) -> Grant:
    """A Grant of a row that fits the schema. ValueError, naming the field, for what no schema can say."""
    raw = row.get("path", "").encode("utf-8")
    if "path_b64" in row:
        try:
            raw = base64.b64decode(row["path_b64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"path_b64: {error}") from None
    path = os.fsdecode(raw)
    if row["family"] != "wiki":
        plain = plain_path(path)
        if plain is None:
            raise ValueError("path: not an absolute path without '..'")
        path = plain
    times = {}
    for key in ("granted_at", "expires_at"):
        text = row.get(key)
        times[key] = None if text is None else when.parse_rfc3339(text)
        if text is not None and times[key] is None:
            raise ValueError(f"{key}: no such time: {text}")
    numbers = {key: None if row.get(key) is None else int(row[key]) for key in ("ino", "dev")}
    return Grant(
        row["family"], row.get("browser"), row.get("profile"), row.get("collection"),
        tuple(row.get("data", ())), tuple(row.get("audience", ("shell",))), row.get("public", False),
        times["granted_at"], times["expires_at"], path, numbers["ino"], numbers["dev"], row.get("boot_id"),
        row.get("index") or "",
    )


def as_json(grant: Grant) -> dict[str, Any]:
    """The grant as it stands in the file: the fields that say something, and always `expires_at`."""
    row: dict[str, Any] = {"family": grant.family}
    for key in ("browser", "profile", "collection"):
        value = getattr(grant, key)
        if value is not None:
            row[key] = value
    if grant.data:
        row["data"] = list(grant.data)
    if grant.path:
        row |= path_json(grant.path)
    if grant.index:
        row["index"] = grant.index
    row["audience"] = list(grant.audience)
    if grant.public:
        row["public"] = True
    if grant.granted_at is not None:
        row["granted_at"] = when.rfc3339(grant.granted_at)
    row["expires_at"] = None if grant.expires_at is None else when.rfc3339(grant.expires_at)
    if grant.ino is not None:
        row["ino"] = str(grant.ino)
        row["dev"] = None if grant.dev is None else str(grant.dev)
        row["boot_id"] = grant.boot_id
    return row


def path_json(path: str) -> dict[str, str]:
    """`path`, or `path_b64` where it is not UTF-8."""
    raw = os.fsencode(path)
    try:
        return {"path": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"path_b64": base64.b64encode(raw).decode("ascii")}


def add(grants: Sequence[Grant], new: Grant) -> tuple[Grant, ...]:
    """The grants with `new` at their end. The newest grant of a target and kind of data stands alone: an
    older one loses the kinds that `new` names, and goes when it has none left."""
    return (*remove(grants, lambda old: old.target == new.target, new.data), new)


def remove(
    grants: Sequence[Grant], gone: Callable[[Grant], bool], data: Sequence[str] = ()
) -> tuple[Grant, ...]:
    """The grants without those that `gone` names or, with `data`, without these kinds of them."""
    kept = []
    for grant in grants:
        if gone(grant):
            left = tuple(kind for kind in grant.data if data and kind not in data)
            kept += [replace(grant, data=left)] if left else []
        else:
            kept.append(grant)
    return tuple(kept)


# Writing


def update(config_dir: str, change: Callable[[tuple[Grant, ...]], tuple[Grant, ...]]) -> Consent:
    """Load, change and save as one step; another writer waits (10 s, then Deadline).

    At every moment the file is the old one or the new one, whole. Raises what `load` raises, and WriteFailed.
    """
    with _locked(config_dir):
        current = load(config_dir)
        changed = Consent(current.file, change(current.grants))
        _write(changed)
    return changed


def save(consent: Consent) -> None:
    """Put these grants in the place of whatever the file holds, be it readable or not."""
    with _locked(os.path.dirname(consent.file)):
        _write(consent)


@contextlib.contextmanager
def _locked(config_dir: str) -> Iterator[None]:
    paths.ensure_dir(config_dir)
    name = os.path.join(config_dir, "consent.lock")
    lock = paths.open_private(name, os.O_RDWR | os.O_CREAT)
    try:
        give_up = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise Deadline(f"another process holds '{name}'") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(lock)


def _write(consent: Consent) -> None:
    rows = {"v": VERSION, "grants": [as_json(grant) for grant in consent.grants]}
    data = orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if len(data) > _MAX_BYTES:
        raise Precondition(f"cannot write '{consent.file}': it would be larger than {_MAX_BYTES} bytes")
    _parse(consent.file, data)  # What cannot be read back must not replace what can.
    # One name for all writers, who hold the lock: what a killed one left, the next one replaces.
    new = consent.file + ".new"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        fd = paths.open_private(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with open(fd, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(fd)  # A revoked grant must not come back after a power cut.
        os.rename(new, consent.file)
        _sync_folder(os.path.dirname(consent.file))
    except (OSError, LspipeError) as error:
        with contextlib.suppress(OSError):
            os.unlink(new)
        why = strerror(error) if isinstance(error, OSError) else error.message
        raise WriteFailed(f"cannot write '{consent.file}': {why}") from None


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
