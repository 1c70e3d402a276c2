"""`lab train` and `lab resume`."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ... import env
from ...config.compose import check_packages, compose
from ...config.overrides import SettingsParser
from ...config.program import is_program, script_of
from ...config.recorded import compose_from_record, read_recorded, with_changes
from ...config.resolve import load_variables, resolve
from ...errors import Failed, LabError
from ...failure import debugging, describe, shown_path
from ...hdf5.file.find import require_data_files
from ...machine.ranks import (
    discover,
    hear_first_rank,
    leave_group,
    rank_of_process,
    store_of,
    tell_other_ranks,
)
from ...machine.stop import STACKS, stacks_on_request
from ...project import Project, this_project
from ...record.files.atomic import write_file
from ...record.files.schema import StartRecord
from ...record.freeze.frozen import frozen_directory
from ...record.freeze.library import is_this_library
from ...record.freeze.loading import OWN
from ...record.list.cost import cost_line
from ...record.read.attempt_files import read_attempt, read_attempts
from ...record.read.find import RUN_HELP, find_run
from ...record.read.ranking import split_of
from ...record.read.rows import read_rows
from ...record.read.run import Run, run_roots
from ...record.reproduce.today import (
    run_with_frozen_code,
    run_with_its_library,
    what_the_project_lacks,
)
from ...record.write.attempt import complete_record
from ...record.write.claim import in_use
from ...record.write.create import RunRequest, code_of_request, create_run
from ...record.write.inputs import with_data_of_run
from ...record.write.ran import WORKERS, RanCode, code_of_process, imported_code, places_in
from ...record.write.recording import Recording, note_failure, record_attempt, status_for
from ..checkpoints.resume_point import is_complete, whole_checkpoint
from ..exact.stopped import Stopped
from ..parts.kept_data import with_kept_data
from ..watch.messages import check_notify, notify_end
from .multirun import train_points
from .script import attempt_config, attempt_of_process, check_script, policy_of
from .unchanged import IF_CHANGED_HELP, unchanged_run

NOTHING_TO_DO = "nothing"
# What an attempt may do differently from the run's first.
MAY_CHANGE = ("trainer.max_epochs", "trainer.max_steps", "trainer.max_time", "job.")
ADVICE = (
    "It cannot change within a run: lab resume can change only trainer.max_epochs, "
    "trainer.max_steps, trainer.max_time and job.*. For other settings start a new run: lab train ..."
)


def train_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab train", "Trains trial=NAME here, now, and records it.")
    parser.add_argument("--why", metavar="TEXT", help="what this run is for; kept in its record")
    parser.add_argument(
        "--parent", metavar="RUN", help="the run that this one repeats or continues from"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a composed configuration, instead of composing one"
    )
    # Of a list of runs, whose code was frozen before the first of them began.
    parser.add_argument("--frozen", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--allow", action="store_true", help="record also what looks like a secret")
    parser.add_argument("--if-changed", action="store_true", help=IF_CHANGED_HELP)
    parser.takes_words = True
    parser.add_argument(
        "-m",
        "--multirun",
        action="store_true",
        help="lists of values: their runs, one after the other",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="with -m: N runs at a time (1)"
    )
    options = parser.read(args)
    joined = join_if_other(options.multirun)
    if joined is not None:
        return joined
    OWN.watch(project.root)  # before a check imports a class of the project
    if options.parent:
        options.parent = parent_id(project, options.parent)
    if options.multirun:
        return train_points(project, options, train_command)
    if options.jobs != 1:
        raise LabError("--jobs is for the runs of a list. Type: lab train … seed=1,2 -m --jobs 2")
    if options.config:
        composition = compose_from_record(project, Path(options.config))
    else:
        composition = with_data_of_run(compose(project, options.overrides), project)
    config = composition.config
    check_notify(config, project)
    check_packages(config)
    if script_of(config) is not None:
        check_script(config)
    elif not is_program(config):
        data = config.get("data")
        require_data_files(resolve(data) if data else {})
    hidden = [] if options.frozen is None else ["--frozen", str(options.frozen)]
    typed = [word for word in sys.argv if word not in hidden]
    request = RunRequest.of(
        composition, argv=typed, why=options.why, parent=options.parent, allow=options.allow
    )
    runs = Path(config.paths.runs)
    if options.frozen:
        request = replace(request, code=json.loads(options.frozen.read_text(encoding="utf-8")))
    if options.if_changed:
        code = request.code or code_of_request(project, runs, request)
        request = replace(request, code=code)
        unchanged = unchanged_run(project, composition, code, read_rows(run_roots(project)))
        if unchanged:
            print(
                f"run {unchanged['run_id']}  unchanged: the same code, settings and inputs as on "
                f"{unchanged['created']}"
            )
            tell_if_several(NOTHING_TO_DO)
            return 0
    run = create_run(project, runs, request)
    return train_attempt(project, run, overrides=[])


def parent_id(project: Project, word: str) -> str:
    """The id of the run that --parent names."""
    # The repetition of a run names an id; that run may lie in another directory of runs.
    return word if frozen_directory() else find_run(run_roots(project), word).id


def resume_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab resume", "Continues RUN from its last checkpoint, in the same directory.", RUN_HELP
    )
    options = parser.read(args)
    joined = join_if_other()
    if joined is not None:
        return joined
    run = find_run(run_roots(project), options.run)
    # The attempt is claimed seconds later.
    with in_use(run.dir):
        return resume_run(project, run, options.overrides)


def resume_run(project: Project, run: Run, overrides: list[str]) -> int:
    """Continues a run with its own code, which may be another process."""
    # Before seconds go into imports.
    checkpoint = whole_checkpoint(run.checkpoints)
    if not overrides and is_complete(run.dir, checkpoint):
        for line in complete_record(run.dir):
            print(line)
        print(f"{run.id} is finished; nothing is left to do. {how_to_go_on(run)}")
        tell_if_several(NOTHING_TO_DO)
        return 0
    lacking = None if frozen_directory() else what_the_project_lacks(project, run, run.trial)
    if lacking:
        print(f"lab: {lacking}; continues with the code of {run.id}", file=sys.stderr)
        return run_with_frozen_code(run, project, ["resume", str(run.dir), *overrides])
    if not (frozen_directory() or env.LIBRARY in os.environ or is_this_library(run.record["code"])):
        return run_with_its_library(run, project, ["resume", str(run.dir), *overrides])
    return train_attempt(project, run, overrides, when_built=True)


def how_to_go_on(run: Run) -> str:
    """What one may want of a finished run."""
    if is_program(run.config):
        return f"Look: lab runs show {run.id}"
    return (
        f"To train longer: lab resume {run.id} trainer.max_epochs=N\n"
        f"To test it again: lab eval {run.id}"
    )


def train_attempt(
    project: Project, run: Run, overrides: list[str], *, when_built: bool = False
) -> int:
    """One attempt of a run in this process.

    Args:
        overrides: settings that differ from the recorded ones; only those of MAY_CHANGE.
        when_built: record the attempt once its parts are built; else from now on.

    Raises:
        LabError: a setting cannot change, or a mistake in the settings.
        Failed: the training failed; the record says why.
        Stopped: a signal ended it, after a checkpoint.
    """
    load_variables(project)
    recorded = read_recorded(run.dir / "config.yaml")
    config = with_changes(recorded, overrides, MAY_CHANGE, ADVICE)
    print(f"run {run.id}  in {shown_path(run.dir)}", flush=True)
    readable = with_kept_data(config, run, project)
    recording = None
    try:
        with record_attempt(
            run,
            project,
            env_policy=config.record.env,
            policy=policy_of(config),
            elsewhere=places_in(resolve(config.paths)),
            when_built=when_built,
            overrides=overrides,
        ) as recording:
            if overrides:
                write_file(attempt_config(run, recording.n), OmegaConf.to_yaml(config))
            tell_if_several(f"{recording.n} {run.dir}")
            call_train(readable, run, recording)
        print_end(config, run, recording)
    finally:
        if recording and recording.has_started:
            print(cost_line(run.dir), flush=True)
            notify_end(config, run, project)
    return 0


def join_if_other(is_multirun: bool = False) -> int | None:
    """Trains as another process of an attempt, whose first has the record; None on the first."""
    if env.ATTEMPT in os.environ:
        return join_attempt()
    ranks = discover()
    if is_multirun and ranks.world_size > 1:
        raise LabError(
            f"-m makes one run after the other, and {ranks.source} started {ranks.world_size} "
            "processes for one. Leave out -m, or start one process"
        )
    if ranks.rank:
        text = hear_first_rank(ranks)
        if text == NOTHING_TO_DO:
            return 0
        os.environ[env.ATTEMPT], os.environ[env.RUN_DIR] = text.split(" ", 1)
        return join_attempt()
    if ranks.world_size > 1:
        store_of(ranks)  # the others connect to it, and see when a mistake ends this one
    return None


def tell_if_several(text: str) -> None:
    """Tells the other processes of a launcher such as torchrun which attempt they are part of.

    In a job the job script has told them.
    """
    ranks = discover()
    if ranks.world_size > 1 and env.NEXT_ATTEMPT not in os.environ:
        tell_other_ranks(ranks, text)


def join_attempt() -> int:
    """Trains as another rank of an attempt that the first rank began, with its settings."""
    project = this_project()
    run, attempt, config = attempt_of_process()
    # Empty if this rank is faster than the first rank of the first attempt.
    attempts = read_attempts(run.dir)
    first_attempt: StartRecord = attempts[0].start if attempts else {}
    # Only the first rank writes the record.
    code = code_of_process(run, read_attempt(run.dir, attempt).start)
    OWN.report_to(run.dir / "attempts" / str(attempt))
    ran = RanCode(imported_code(project, code), policy_of(config), places_in(resolve(config.paths)))
    readable = with_kept_data(config, run, project, quiet=True)
    try:
        call_train(readable, run, Recording(None, attempt, first_attempt, ran))
    except BaseException as error:
        if status_for(error) != "failed":
            raise
        rank = rank_of_process()
        file = note_failure(run.dir, attempt, rank, platform.node(), error)
        if debugging():
            raise
        raise Failed(
            f"rank {rank} on {platform.node()} failed. Its whole traceback:\n{file}\n{describe(error)}"
        ) from error
    return 0


def call_train(config: DictConfig, run: Run, recording: Recording) -> None:
    """Calls `train` of the project's train.py, which imports torch; or the program of the trial."""
    stacks = STACKS.format(rank=rank_of_process())
    with stacks_on_request(run.dir / "attempts" / str(recording.n) / stacks):
        train_or_program(config, run, recording)


def train_or_program(config: DictConfig, run: Run, recording: Recording) -> None:
    if is_program(config):
        from .program import run_program  # NumPy

        run_program(resolve(config), run, recording)
        return
    with without_collections():
        from ...hdf5.read.loader import PRELOADED  # torch

        if WORKERS not in PRELOADED:
            PRELOADED.insert(0, WORKERS)
        train = import_module(f"{this_project().package}.train").train
    try:
        train(resolve(config), run, recording)
    except Stopped:
        leave_group()
        raise
    leave_group()


@contextmanager
def without_collections() -> Iterator[None]:
    """Meanwhile Python does not look for garbage, which takes 2 of the 6 s in which Lightning is imported.

    It does not look through these modules later either.
    """
    if "lightning" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def print_end(config: DictConfig, run: Run, recording: Recording) -> None:
    if is_program(config):
        shown = [f"{name} {value:.4g}" for name, value in recording.metrics.items()]
    else:
        metrics = metrics_of_test(recording)
        shown = [f"{name} {value:.4f}" for name, value in metrics.items()]
        if metrics:
            tested = read_attempt(run.dir, recording.n).start.get("tested_weights") or "last"
            shown.append(f"(weights: {tested}.ckpt)")
        else:
            is_tested = recording.tested not in (None, False)
            shown.append("(tested, but it logged nothing)" if is_tested else "(not tested)")
    print("  ".join(["finished", *shown]))
    print(f"look: lab runs show {run.id}")


def metrics_of_test(recording: Recording) -> dict[str, float]:
    """What the test gave, under any names; {} without a test."""
    tested = recording.tested
    if isinstance(tested, bool | None):
        # A train.py of one's own, which does not give the names.
        return {
            name: value for name, value in recording.metrics.items() if split_of(name) == "test"
        }
    return {name: value for name, value in recording.metrics.items() if name in tested}
