"""The processes of `lab train -m`: forks of this one, a number at a time, and what they print."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...machine.stop import PREEMPTION_SIGNALS, STOP

POLL_S = 0.05
SIGNALS = (*PREEMPTION_SIGNALS, signal.SIGINT)


@dataclass
class Started:
    """A point that runs. `unfinished` is the begin of a line that it has not ended yet."""

    title: str
    output: int | None  # this end of its pipe, which does not block; None: it prints by itself
    unfinished: bytes = b""

    def print_lines(self) -> None:
        """Prints the whole lines that came meanwhile, each after the title."""
        while self.output is not None and (text := read_now(self.output)):
            *lines, self.unfinished = (self.unfinished + text).split(b"\n")
            for line in lines:
                print(self.title, line.decode("utf-8", "replace"), flush=True)

    def close(self) -> None:
        """Prints the line that nothing ended."""
        if self.unfinished:
            print(self.title, self.unfinished.decode("utf-8", "replace"), flush=True)
        if self.output is not None:
            os.close(self.output)


class PointProcesses:
    """Starts points one by one; each waits until fewer than `n_jobs` others run.

    A signal that asks for a stop reaches every point, which saves a checkpoint, and no other starts.
    """

    def __init__(self, n_points: int, n_jobs: int) -> None:
        self.n_points = n_points
        self.n_jobs = n_jobs
        self.n_begun = 0
        self.running: dict[int, Started] = {}
        self.failures: list[int] = []  # exit codes
        self.passed_on = False
        STOP.listen(*SIGNALS)

    def has_forked(self, command: str) -> bool:
        """Starts the next point in a fork, unless this process was asked to stop.

        Returns:
            True in the fork, which now has to do the work; False in this process.
        """
        while len(self.running) >= self.n_jobs:
            self.wait_a_moment()
        if STOP.signum:
            return False
        self.n_begun += 1
        title = f"[{self.n_begun}/{self.n_points}]"
        print(f"{title} {command}")
        flush()
        if self.n_jobs == 1:
            pid, output, own_end = os.fork(), None, None
        else:
            output, own_end = os.pipe()
            os.set_blocking(output, False)
            pid = os.fork()
        if pid:
            if own_end is not None:
                os.close(own_end)
            self.running[pid] = Started(title, output)
            return False
        STOP.ignore(*SIGNALS)  # the training listens itself
        if own_end is not None:
            print_into(own_end)
        return True

    def exit_code(self) -> int:
        """Waits for all points, says which did not begin or failed, and gives the code of the whole."""
        while self.running:
            self.wait_a_moment()
        n_left = self.n_points - self.n_begun
        n_failed = len(self.failures)
        if n_failed:
            tell(f"{n_failed} of {self.n_points} runs did not finish, see above or: lab runs list")
        if n_left:
            tell(f"stopped: {n_left} of {self.n_points} runs were not begun")
            return 130
        codes = set(self.failures)
        if len(codes) > 1:
            return 1
        return codes.pop() if codes else 0

    def wait_a_moment(self) -> None:
        """Passes a signal on, prints what came meanwhile, and notes which points have ended."""
        time.sleep(POLL_S)
        if STOP.signum and STOP.signum != signal.SIGINT and not self.passed_on:
            self.passed_on = True  # Ctrl-C has reached them from the terminal
            for pid in self.running:
                with suppress(ProcessLookupError):
                    os.kill(pid, STOP.signum)
        for pid, point in list(self.running.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            point.print_lines()
            if done:
                point.close()
                del self.running[pid]
                self.note_end(point, os.waitstatus_to_exitcode(status))

    def note_end(self, point: Started, code: int) -> None:
        """Says how a point ended that did not finish; a negative code is a signal."""
        if code:
            code = code if code > 0 else 128 - code
            self.failures.append(code)
            tell(f"{point.title} ended with exit code {code}")


def read_now(pipe: int) -> bytes:
    """What lies in a pipe; nothing when it is empty or closed."""
    try:
        return os.read(pipe, 1 << 16)
    except BlockingIOError:
        return b""


def print_into(pipe: int) -> None:
    """Has this fork print into a pipe, line by line."""
    os.dup2(pipe, 1)
    os.dup2(pipe, 2)
    os.close(pipe)
    streams: list[Any] = [sys.stdout, sys.stderr]
    for stream in streams:
        stream.reconfigure(line_buffering=True)


def flush() -> None:
    """Writes what was printed: a fork would print it again."""
    sys.stdout.flush()
    sys.stderr.flush()


def tell(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)
