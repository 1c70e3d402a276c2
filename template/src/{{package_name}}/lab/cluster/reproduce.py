# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs reproduce`, here or as a job."""

from __future__ import annotations

from dataclasses import replace

from omegaconf import OmegaConf

from ..config.recorded import read_recorded
from ..config.resolve import resolve
from ..errors import LabError
from ..project import Project
from ..record.find import find_run
from ..record.reproduce import reproduce_command as reproduce_here
from ..record.reproduce import require_data
from ..record.run import Run
from .plan import TRIAL_OF_COMMANDS, Plan, plan_of, plan_submission
from .submit import SubmitOptions, submit_repetition
from .submit_command import print_submitted


def reproduce_command(project: Project, args: list[str]) -> int | None:
    """`lab runs reproduce RUN site=NAME job.…` sends a job; without settings it runs here.

    Raises:
        LabError: the run was a command, or its data changed.
    """
    overrides = [word for word in args if "=" in word and not word.startswith("-")]
    words = [word for word in args if word not in overrides]
    names_one_run = len(words) == 1 and not words[0].startswith("-")
    if not overrides or not names_one_run:
        return reproduce_here(project, args)
    original = find_run(project.paths.runs, words[0])
    if original.trial == TRIAL_OF_COMMANDS:
        raise LabError(
            f"{original.id} ran a command, not a training."
            " Submit the command again: lab submit … -- COMMAND"
        )
    require_data(original)
    plan = plan_repetition(project, original, overrides)
    options = SubmitOptions(why=f"repeats {original.id}")
    submitted = submit_repetition(plan, options, original)
    print_submitted(plan, submitted)
    print(f"when it has ended: lab runs verify {original.id} {submitted[0].run_id}")
    return None


def plan_repetition(project: Project, original: Run, overrides: list[str]) -> Plan:
    """The recorded configuration of a run, with the site and job that `overrides` choose."""
    # composed only for its site and job; its command is not sent
    chosen = plan_submission(project, overrides, command=["reproduce"]).points[0]
    recorded = read_recorded(original.dir / "config.yaml")
    sections = OmegaConf.to_container(recorded, resolve=False)
    sections |= {"site": chosen.config.site, "job": chosen.config.job}
    config = OmegaConf.create(sections)
    point = replace(
        chosen,
        config=resolve(config),
        yaml=OmegaConf.to_yaml(config),
        trial=original.trial,
    )
    return plan_of(project, [point])
