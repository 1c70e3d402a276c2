"""`lab runs reproduce RUN site=NAME`: a run again, as a job."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from ...config.resolve import plain_values, resolve
from ...errors import LabError
from ...project import Project
from ...record.freeze.bundle import STORE, store_bundles
from ...record.read.run import Run, Stretch, stretches_of
from ...record.reproduce.command import config_here, repeated_variables
from .command import print_submitted
from .plan import TRIAL_OF_COMMANDS, Plan, plan_of, plan_submission
from .submit import SubmitOptions, submit_repetition


def reproduce_as_job(project: Project, original: Run, overrides: list[str]) -> None:
    """`lab runs reproduce RUN site=NAME job.…`: sends the job that repeats a run."""
    if original.trial == TRIAL_OF_COMMANDS:
        raise LabError(
            f"{original.id} ran a command, not a training."
            " Submit the command again: lab submit … -- COMMAND"
        )
    stretch = only_stretch(original)
    plan = plan_repetition(project, original, stretch, overrides)
    store_bundles(stretch.code, stretch.bundles, plan.runs / STORE)
    options = SubmitOptions(why=f"repeats {original.id}")
    submitted = submit_repetition(plan, options, original, stretch)
    print_submitted(plan, submitted)
    print(f"when it has ended: lab runs verify {original.id} {submitted[0].run_id}")


def only_stretch(original: Run) -> Stretch:
    """What a job repeats of a run: without interruption it gives the result of all stretches."""
    stretches = stretches_of(original)
    kinds = {(stretch.code.get("commit"), stretch.config) for stretch in stretches}
    was_extended = any(stretch.stop_step is None for stretch in stretches[:-1])
    here = f"Repeat it here: lab runs reproduce {original.id}"
    if len(kinds) > 1 or was_extended:
        raise LabError(
            f"{original.id} was resumed with other code or settings, which one job cannot "
            f"repeat. {here}"
        )
    start = stretches[0].attempt.start
    if "cwd" in start and Path(start["cwd"]) != Path(start["imported_from"]).parents[1]:
        raise LabError(
            f"{original.id} was started in {start['cwd']}, but a job begins in the project. {here}"
        )
    return stretches[0]


def plan_repetition(
    project: Project, original: Run, stretch: Stretch, overrides: list[str]
) -> Plan:
    """The recorded configuration of a run, with the site and job that `overrides` choose.

    The job sets the recorded variables that change numbers.
    """
    # composed only for its site and job; its command is not sent
    chosen = plan_submission(project, overrides, command=["reproduce"]).points[0]
    recorded = OmegaConf.create(config_here(project, original, stretch.config))
    sections = plain_values(cast("DictConfig", recorded))
    sections["job"] = chosen.settings["job"]
    sections["site"] = deepcopy(chosen.settings["site"])
    sections["site"]["env"] |= repeated_variables(stretch)
    settings = plain_values(resolve(DictConfig(sections)))
    point = replace(chosen, settings=settings, recorded=sections, trial=original.trial)
    return plan_of(project, [point])
