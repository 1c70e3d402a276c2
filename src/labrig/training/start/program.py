"""Runs a trial that is a program, with the record of a training: a script as it is (script.py), or
`main(config, log)` of its program.py. Neither torch nor Lightning is imported, unless it or a logger does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import ModuleType

from omegaconf import DictConfig

from ...config.program import script_of
from ...errors import Failed, LabError
from ...machine.ranks import discover
from ...machine.stop import PREEMPTION_SIGNALS, STOP
from ...project import this_project
from ...record.read.run import Run
from ...record.write.recording import Recording
from .program_log import ProgramLog
from .script import begin, check_script, n_processes_of, run_script
from .script_process import seed_generators


def run_program(config: DictConfig, run: Run, recording: Recording) -> None:
    """One attempt of a program. A resumed one is called again: it finds its files in `log.dir`."""
    if script_of(config) is not None:
        run_script(config, run, recording)
        return
    ranks = discover()
    if ranks.world_size == 1 and n_processes_of(config) > 1:
        raise LabError(
            f"trainer.devices is {config.trainer.devices}, and a program.py starts its processes itself. "
            f"Leave it out, or type: torchrun --nproc-per-node={config.trainer.devices} -m labrig train "
            f"trial={config.trial}"
        )
    with ExitStack() as stack:
        if config.profile:
            mark_lines(config)
        module = load_program(config.trial)
        seed_generators(config.seed)
        begin(recording, ranks.world_size)
        log = ProgramLog(config, run, recording.n, is_first=ranks.rank == 0)
        stack.callback(log.close)
        stack.callback(STOP.ignore, *STOP.listen(*PREEMPTION_SIGNALS))
        if config.profile:
            log.after_row = start_profile(stack, config, run.dir / "profile", module)
        try:
            module.main(config, log)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise Failed(f"the program ended with exit code {end.code}") from end
        recording.metrics = log.metrics
        recording.measured |= {"global_step": log.step}


def check_program(config: DictConfig) -> None:
    """Makes sure that a program can be started; a program.py is imported, a script is not."""
    if script_of(config) is not None:
        check_script(config)
    else:
        load_program(config.trial)


def load_program(trial: str) -> ModuleType:
    """The module of a trial's program.py."""
    name = trial.partition("/")[0]
    module = import_module(f"{this_project().package}.trials.{name}.program")
    main = getattr(module, "main", None)
    if not inspect.isfunction(main) or len(inspect.signature(main).parameters) != 2:
        raise LabError(f"trials/{name}/program.py needs a function: def main(config, log):")
    return module


def mark_lines(config: DictConfig) -> None:
    """Prepares the profiler, before the program is imported."""
    from ..watch.profilers import enable_line_marks, require_profiler  # torch

    if config.profile.kind == "simple":
        raise LabError(
            "profile=simple times the actions of a Trainer, and a program has none. "
            "Use profile=cprofile, line, memory or torch"
        )
    require_profiler(config)
    enable_line_marks(config)


def start_profile(
    stack: ExitStack, config: DictConfig, folder: Path, module: ModuleType
) -> Callable[[], None] | None:
    """Profiles until `stack` closes; returns what to call after each row, if the profiler counts them."""
    from ..watch.profilers import profiler_kind, start_profiler  # torch

    rank = discover().rank
    kind = profiler_kind(config)
    if kind is None or rank not in config.profile.ranks:
        return None
    return start_profiler(stack, kind, config.profile, folder, rank, module)
