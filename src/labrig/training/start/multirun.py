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
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path

from ...config.compose import compose
from ...config.overrides import parse_overrides, sweep_points
from ...config.program import is_program
from ...config.resolve import load_variables
from ...errors import LabError
from ...machine.counted import counted
from ...project import Project
from ...record.files.schema import Code
from ...record.write.create import RunRequest, code_of_request
from ...record.write.data_of_run import with_data_of_run
from ...record.write.initial_weights import with_fixed_weights
from .point_processes import PointProcesses, flush

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
