# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs reproduce` here or as a job."""

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
from .plan import plan_of, plan_submission
from .submit import TRIAL_OF_COMMANDS, print_submitted, submit_plan


def reproduce_command(project: Project, args: list[str]) -> int | None:
    """`lab runs reproduce RUN site=NAME job.…` sends the repetition as a job; without settings it runs here."""
    overrides = [word for word in args if "=" in word and not word.startswith("-")]
    words = [word for word in args if word not in overrides]
    if not overrides or len(words) != 1 or words[0].startswith("-"):
        return reproduce_here(project, args)
    original = find_run(project.paths["runs"], words[0])
    if original.trial == TRIAL_OF_COMMANDS:
        raise LabError(
            f"{original.id} ran a command, not a training; send that again: lab submit … -- COMMAND"
        )
    require_data(original)
    there = plan_submission(project, overrides, command=["reproduce"]).points[
        0
    ]  # whose site and job are taken
    config = read_recorded(original.dir / "config.yaml")
    config.site, config.job = there.config.site, there.config.job
    point = replace(
        there, config=resolve(config), yaml=OmegaConf.to_yaml(config), trial=original.trial
    )
    sent = submit_plan(
        plan := plan_of(project, [point]), why=f"repeats {original.id}", original=original
    )
    print_submitted(plan, sent)
    print(f"when it has ended: lab runs verify {original.id} {sent[0].run_id}")
