"""A person at a terminal, with an executable in front of it."""

import fcntl
import os
import select
import subprocess
import termios
import time
from collections.abc import Sequence

import support
from support import Done, Home

ASKED = "Grant it? [y/N] "


class Person:
    """A terminal of its own with ls-consent in front of it, and what is typed there. `before` is a program, with
    its arguments, that runs it."""

    def __init__(self, home: Home, *args: str | bytes, stdin: bytes = b"", typed: bytes = b"",
                 before: Sequence[str] = ()) -> None:
        self.master, slave = os.openpty()
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        if typed:
            os.write(self.master, typed)

        def take_terminal() -> None:
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [*before, *support.command("ls-consent", *args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=home.env(), cwd=home.home, start_new_session=True, pass_fds=[slave],
            preexec_fn=take_terminal,
        )
        os.close(slave)
        assert self.process.stdin is not None
        self.process.stdin.write(stdin)
        self.process.stdin.close()
        self.process.stdin = None  # Else communicate() would flush it.
        self.screen = ""

    def sees(self, words: str) -> bool:
        """Wait for words on the screen; False if the program has ended before."""
        deadline = time.monotonic() + support.PATIENCE
        while words not in self.screen:
            assert time.monotonic() < deadline, self.screen
            if not select.select([self.master], [], [], 0.2)[0]:
                if self.process.poll() is not None:
                    return False
                continue
            try:
                self.screen += os.read(self.master, 1 << 16).decode()
            except OSError:
                return False
        return True

    def read_until(self, words: str) -> str:
        """What is on the screen once `words` are."""
        if not self.sees(words):
            raise AssertionError((self.screen, self.process.communicate()))
        return self.screen

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def end(self) -> Done:
        out, err = self.process.communicate(timeout=support.PATIENCE)
        os.close(self.master)
        return Done(self.process.returncode, out, err)
