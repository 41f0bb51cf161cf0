"""A granted folder is still what was granted: its identity noted, compared, and held by descriptors.

A path is walked from the root, and no symbolic link on it is followed: what is held is what was granted, whatever is
put in its place meanwhile.
"""

import contextlib
import errno
import os
import stat
from dataclasses import replace

from lspipe import fulldisk, identity, when
from lspipe.exits import strerror
from lspipe.narrow import Grant, Refusal, Scope, grant_command, readable

# A descriptor that only names a thing: it reads no folder and waits for no FIFO's writer.
_NAME_ONLY = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC


def pin(grant: Grant) -> Grant:
    """The grant with the identity that its folder has now. OSError where it has no folder."""
    fd = _open_folder(grant.path)
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
    return replace(grant, ino=found.st_ino, dev=found.st_dev, boot_id=identity.boot_id())


def hold(scope: Scope) -> tuple[int, ...] | Refusal:
    """A descriptor of each of `scope.paths`, reached through the granted folder and no symbolic link; or why
    there is none.

    Kernel rules made from these (`/proc/self/fd/N`) hold whatever is put in the place of a path meanwhile.
    """
    grant = scope.grant
    held: list[int] = []
    at = grant.path
    if not grant.path:
        return ()
    try:
        root = _open_folder(grant.path)
        try:
            detail = _difference(grant, os.fstat(root))
            if detail is not None:
                return _refuse(grant, "no-consent", detail, at)
            for at in scope.paths:
                held.append(_walk(os.dup(root), at[len(grant.path):]))
        finally:
            os.close(root)
    except OSError as error:
        for fd in held:
            os.close(fd)
        return _explain(grant, at, error)
    return tuple(held)


def verify(scope: Scope) -> Refusal | None:
    """Why this scope may not be read after all: gone, out of reach, or not what was granted. None: it may."""
    held = hold(scope)
    if isinstance(held, Refusal):
        return held
    for fd in held:
        os.close(fd)
    return None


def state(grant: Grant, now: int) -> tuple[str, str | None]:
    """One of ok, not pinned, expired, changed, missing; and a few words where it is not ok."""
    if (end := grant.ended(now)) is not None:
        return "expired", f"ended {when.rfc3339(end)}"
    if grant.family == "wiki":
        return ("ok", None) if grant.index else ("not pinned", "whatever index qmd has is read")
    refusal = verify(Scope(grant, (grant.path,)))
    if refusal is not None:
        return "changed" if refusal.reason == "no-consent" else "missing", refusal.detail
    if grant.ino is None:
        return "not pinned", "whatever folder is at this path is read"
    return "ok", None


def _difference(grant: Grant, found: os.stat_result) -> str | None:
    if grant.family == "browser" and found.st_uid != os.geteuid():
        return "changed since the grant: the profile belongs to another user"
    if grant.ino is None:
        return None
    same_boot = grant.boot_id is not None and grant.boot_id == identity.boot_id()
    if found.st_ino != grant.ino or (same_boot and grant.dev is not None and found.st_dev != grant.dev):
        return "changed since the grant: another folder is in its place"
    return None


def _explain(grant: Grant, path: str, error: OSError) -> Refusal:
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        detail = "changed since the grant: not a folder any more"
        with contextlib.suppress(OSError):  # It may change once more while we look.
            real = os.path.realpath(path)
            if real != path:
                detail = f"changed since the grant: a symbolic link on its path leads to '{readable(real)}'"
        return _refuse(grant, "no-consent", detail, path)
    reason = "not-found" if error.errno == errno.ENOENT else "not-readable"
    detail = f"cannot reach '{readable(path)}': {strerror(error)}"
    hint = fulldisk.hint(error.errno, path)
    return _refuse(grant, reason, f"{detail}; {hint}" if hint else detail, path)


def _refuse(grant: Grant, reason: str, detail: str, path: str) -> Refusal:
    source = grant.data[0] if len(grant.data) == 1 else grant.family
    name = grant.label if grant.family == "browser" else grant.path
    command = grant_command(grant.family, name, ",".join(grant.data), ",".join(grant.audience))
    return Refusal(source, reason, detail, grant.browser, grant.profile, path,
                   command=command if reason == "no-consent" else None, lapsed=reason == "no-consent")


def _open_folder(path: str) -> int:
    fd = _walk(os.open("/", _NAME_ONLY | os.O_DIRECTORY), path)
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return fd


def _walk(fd: int, path: str) -> int:
    """A descriptor of `path` below the folder `fd`, which is closed. ELOOP or ENOTDIR at a symbolic link."""
    parts = [part for part in path.split("/") if part]
    for number, part in enumerate(parts):
        folder = os.O_DIRECTORY if number < len(parts) - 1 else 0
        try:
            below = os.open(part, _NAME_ONLY | folder, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    if stat.S_ISLNK(os.fstat(fd).st_mode):  # O_PATH opens the link itself.
        os.close(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return fd
