"""Branch coverage of every process that the tests start, through a descriptor that is open before lock-down.

Python imports this at its start where the folder is on PYTHONPATH; without LSPIPE_COVERAGE, which names the folder
for what was measured, it does nothing. An executable locks itself down, ends by a signal, or forks stages that close
all their descriptors and leave by `os._exit`: what coverage does by itself would get lost in each of these cases.
"""

import atexit
import fcntl
import os
import sys
import tempfile
from typing import Any, NoReturn

FOLDER = os.environ.get("LSPIPE_COVERAGE", "")


class Measured:
    """What this process and its forks have run so far."""

    def __init__(self) -> None:
        import coverage

        package = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "lspipe")
        self.coverage = coverage.Coverage(data_file=None, branch=True, include=[package + "/*"], config_file=False)
        self.open()
        self.coverage.start()

    def open(self) -> None:
        """A file of this process's own, on a descriptor that nobody counts on."""
        self.pid, self.fd = os.getpid(), -1
        try:
            fd, _path = tempfile.mkstemp(".coverage", f"{self.pid}-", FOLDER)
        except OSError:  # It was forked after lock-down, to become another program.
            return
        self.fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
        os.close(fd)

    def save(self) -> None:
        """Once, at the end of the process."""
        if self.fd >= 0 and self.pid == os.getpid():
            self.coverage.stop()
            left = memoryview(self.coverage.get_data().dumps())
            while left:
                left = left[os.write(self.fd, left):]
            self.fd = -1


def _begin() -> None:
    measured = Measured()
    leave, kill, close_range = os._exit, os.kill, os.closerange

    def leaving(code: int) -> NoReturn:
        measured.save()
        leave(code)

    def killing(pid: int, number: int) -> None:
        if pid == os.getpid() and number:
            measured.save()
        kill(pid, number)

    def closing(low: int, high: int) -> None:
        if low <= measured.fd < high:
            close_range(low, measured.fd)
            low = measured.fd + 1
        close_range(low, high)

    changed: Any = os
    changed._exit, changed.kill, changed.closerange = leaving, killing, closing
    os.register_at_fork(after_in_child=measured.open)
    atexit.register(measured.save)


if FOLDER and "coverage" not in sys.modules:
    _begin()
