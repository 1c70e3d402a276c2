"""The request to stop: a signal only sets a flag, and the program decides when it stops."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

# The time limit's, the user's own, the scheduler's: all mean the same.
PREEMPTION_SIGNALS = (signal.SIGUSR2, signal.SIGUSR1, signal.SIGTERM)


class StopRequest:
    """Remembers the first signal that asked this process to stop; `signum` is 0 until then."""

    def __init__(self) -> None:
        self.signum = 0
        self._previous: dict[int, Any] = {}

    def listen(self, *signums: int) -> list[int]:
        """Takes these signals over and returns those that were not listened to before. Main thread only."""
        new = [signum for signum in signums if signum not in self._previous]
        for signum in signums:
            self._previous.setdefault(signum, signal.signal(signum, self._remember))
        return new

    def ignore(self, *signums: int) -> None:
        """Gives these signals back to who had them before `listen`."""
        for signum in signums:
            if signum in self._previous:
                signal.signal(signum, self._previous.pop(signum))

    def is_listening(self) -> bool:
        return bool(self._previous)

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        pressed_again = signum == signal.SIGINT and self.signum
        if pressed_again:  # a second Ctrl-C stops at once
            raise KeyboardInterrupt
        self.signum = self.signum or signum


STOP = StopRequest()
