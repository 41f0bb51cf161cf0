#!/usr/bin/env python3
"""Run a command in an empty network namespace, where nothing but the loopback is up, and count what tried to leave it.

    python3 tests/namespace.py make T='-m "not network"' test

Whatever library or child process asks for a way out, in whatever family, the kernel finds no route and counts it.
Ends with the command's own code; with 1 where that was 0 but something was counted; with 2 where there can be no
namespace. Needs root, or user namespaces for everybody.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys

_NEWUSER, _NEWNET = 0x10000000, 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _UP = 0x8913, 0x8914, 1
#: What must stay at 0: packets without a way out, in both families.
NO_ROUTE = (("ip", "OutNoRoutes"), ("ip6", "OutNoRoutes"))
#: Names are asked over UDP, which nothing here speaks; a resolver on the loopback would hide from the two above.
DATAGRAMS = (("udp", "OutDatagrams"), ("udp6", "OutDatagrams"))


def enter() -> None:
    """Put this process into a network namespace of its own. OSError where that is not allowed."""
    user, group = os.geteuid(), os.getegid()
    flags = _NEWNET if user == 0 else _NEWUSER | _NEWNET
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if flags & _NEWUSER:  # As the same user, who loses every right over the namespace with the next exec.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = struct.pack("16sH14x", b"lo", 0)
        _name, flags = struct.unpack("16sH14x", fcntl.ioctl(asked, _SIOCGIFFLAGS, request))
        fcntl.ioctl(asked, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def counters() -> dict[tuple[str, str], int]:
    """Every counter of this namespace by family and name: proc(5), /proc/net/snmp and snmp6."""
    found = {}
    with open("/proc/self/net/snmp") as file:
        lines = file.read().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        family = names.partition(":")[0].lower()
        found.update({(family, name): int(value)
                      for name, value in zip(names.split()[1:], values.split()[1:], strict=True)})
    with open("/proc/self/net/snmp6") as file:
        for line in file:
            name, value = line.split()
            family, mark, rest = name.partition("6")
            found[family.lower() + mark, rest] = int(value)
    return found


def main(command: list[str]) -> int:
    """Run it; the exit code of this program."""
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        enter()
    except OSError as error:
        print(f"no network namespace: {error.strerror}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # The command's to decide; what it did is counted all the same.
    code = subprocess.run(command, check=False, preexec_fn=_heed).returncode
    seen = counters()
    told = [f"{family} {name} {seen[family, name]}" for family, name in (*NO_ROUTE, *DATAGRAMS)]
    left = any(seen[key] for key in (*NO_ROUTE, *DATAGRAMS))
    print("network namespace:", ", ".join(told), "- SOMETHING TRIED TO LEAVE" if left else "- nothing tried to leave")
    return (code if code >= 0 else 128 - code) or int(left)


def _heed() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
