"""What macOS answers to a program that may not read Safari's folders, and what a person can do about it (pure).

That is EPERM, "operation not permitted", never EACCES; the right belongs to the terminal program. For other folders the
same error has other reasons.
"""

import errno

HINT = ("allow your terminal to read it: System Settings, Privacy & Security, Full Disk Access; then open a new"
        " window of the terminal")


def protected(path: str) -> bool:
    """Whether macOS keeps a folder from programs without Full Disk Access: Safari's, old and new."""
    parts = path.split("/")
    return any(part == "Library" and (parts[at + 1:at + 2] == ["Safari"]
                                      or parts[at + 1:at + 3] == ["Containers", "com.apple.Safari"])
               for at, part in enumerate(parts))


def hint(number: int | None, path: str) -> str | None:
    """What to do about the error `number` at `path`; None where it is not this one."""
    return HINT if number == errno.EPERM and protected(path) else None
