"""`lab train -m`: the runs of a list of settings on this machine, one after the other or `--jobs` at a time.

Each run is a fork of this process, which has imported torch and Lightning and computed nothing. So a
run starts without the seconds of these imports, and as fresh as after `lab train`: random numbers,
threads, switches of torch, variables, Hydra and the modules of the project are its own. Whatever
`lab train` can do, a fork can too, several devices and programs among them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ...config.compose import compose
from ...config.overrides import parse_overrides, sweep_points
from ...config.program import is_program
from ...config.resolve import load_variables
from ...errors import LabError
from ...machine.stop import PREEMPTION_SIGNALS, STOP
from ...machine.text_formats import counted
from ...project import Project
from ...record.files.schema import Code
from ...record.write.create import RunRequest, code_of_request
from ...record.write.inputs import with_data_of_run, with_fixed_weights

PRELOADED = ("labrig.train", "labrig.data", "labrig.callbacks", "h5py")  # with torch and Lightning


@dataclass(frozen=True)
class ListedPoints:
    """The runs of a list. Their code is frozen before the first of them begins: an edit while they run
    changes none. (A run whose settings files were edited meanwhile is refused.)

    Attributes:
        overrides: the settings of each.
        codes: the frozen code of each, see `freeze_code`.
        need_torch: whether one of them trains by Lightning.
    """

    overrides: list[list[str]]
    codes: list[Code]
    need_torch: bool


Train = Callable[[Project, list[str]], int]


def train_points(project: Project, options: argparse.Namespace, train: Train) -> int:
    """Trains each point of the typed lists; one that fails does not end the others.

    In a fork it returns what that run returned.

    Args:
        train: `lab train` of one run.

    Returns:
        0 when all runs finished; the exit code of those that did not, 1 when they have several;
        130 when Ctrl-C or a signal left some out.
    """
    if options.jobs < 1:
        raise LabError(f"--jobs is {options.jobs}, expected at least 1. For example: --jobs 2")
    parse_overrides(options.overrides, one_run=False)  # says once what has no effect
    points = read_points(project, options)
    if points is None:
        return 0
    n_points = len(points.overrides)
    how = "one after the other" if options.jobs == 1 else f"{options.jobs} at a time"
    print(
        f"{counted(n_points, 'run')}, {how} on this machine. "
        f"As one job array: lab submit {shlex.join(options.overrides)}"
    )
    load_variables(project)
    if points.need_torch:
        for module in PRELOADED:
            import_module(module)
    gc.freeze()  # else the garbage collection of each run copies the memory of all modules
    processes = PointProcesses(n_points, options.jobs)
    folder = Path(tempfile.mkdtemp(prefix="lab-points-"))
    parent = os.getpid()
    try:
        for n, overrides in enumerate(points.overrides):
            code = folder / f"{n}.json"
            code.write_text(json.dumps(points.codes[n]), encoding="utf-8")
            words = [*overrides, *options_of_point(options), "--frozen", str(code)]
            if processes.has_forked(f"lab train {shlex.join(overrides)}"):
                return train_in_fork(project, words, train)
        return processes.exit_code()
    finally:
        if os.getpid() == parent:
            shutil.rmtree(folder, ignore_errors=True)


def read_points(project: Project, options: argparse.Namespace) -> ListedPoints | None:
    """Composes every point and freezes its code, in a fork: what the project's modules do while composing stays there.

    Returns:
        None in the fork, which has nothing left to do.
    """
    answer, question = os.pipe()
    flush()
    pid = os.fork()
    if pid == 0:
        os.close(answer)
        with open(question, "w", encoding="utf-8") as pipe:
            json.dump(asdict(composed_points(project, options)), pipe)
        return None
    os.close(question)
    with open(answer, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(os.waitstatus_to_exitcode(status))
    return ListedPoints(**json.loads(text))


def composed_points(project: Project, options: argparse.Namespace) -> ListedPoints:
    points = ListedPoints([], [], need_torch=False)
    compositions = []
    for point in sweep_points(options.overrides):
        composition = with_data_of_run(compose(project, point), project)
        # Now: for a later point, @last would be the run of an earlier one.
        compositions.append(with_fixed_weights(composition, project, may_come=False))
    codes: dict[str, Code] = {}  # by trial
    for composition in compositions:
        if composition.trial not in codes:
            request = RunRequest.of(composition, argv=[], allow=options.allow)
            runs = Path(composition.config.paths.runs)
            codes[composition.trial] = code_of_request(project, runs, request)
        points.overrides.append(composition.overrides)
        points.codes.append(codes[composition.trial])
    needs = [not is_program(composition.config) for composition in compositions]
    return replace(points, need_torch=any(needs))


def options_of_point(options: argparse.Namespace) -> list[str]:
    """The options of `lab train` that each run gets."""
    words = []
    if options.why is not None:
        words += ["--why", options.why]
    if options.parent is not None:
        words += ["--parent", options.parent]
    if options.allow:
        words.append("--allow")
    if options.if_changed:
        words.append("--if-changed")
    return words


def train_in_fork(project: Project, words: list[str], train: Train) -> int:
    """What `lab train WORDS` does, in this fork or, where one must not compute, in its place."""
    if not may_compute():
        os.execv(sys.executable, [sys.executable, "-m", "labrig", "train", *words])
    sys.argv[1:] = ["train", *words]
    return train(project, words)


def may_compute() -> bool:
    """Whether a fork of this process can train: not after another thread, or a GPU, was in use."""
    torch = sys.modules.get("torch")
    uses_gpu = torch is not None and torch.cuda.is_initialized()
    return sys.platform == "linux" and threading.active_count() == 1 and not uses_gpu


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
