"""Asks for messages about a run, which the room notify sends where it is installed."""

from __future__ import annotations

from omegaconf import DictConfig

from ...errors import LabError
from ...project import Project
from ...providers import provided
from ...record.read.run import Run


def check_notify(config: DictConfig, project: Project) -> None:
    """Makes sure that the messages that a configuration asks for can be sent."""
    check = provided("check_notify")
    if check:
        check(config, project)
    elif config.get("notify"):
        raise LabError(
            "notify= needs labrig.training.notify. Install all of labrig, or leave it out"
        )


def notify_end(config: DictConfig, run: Run, project: Project) -> None:
    """Tells that a run has ended."""
    notify = provided("notify_end")
    if notify:
        notify(config, run, project)


def notify_idle(config: DictConfig, run: Run, project: Project, minutes: float) -> None:
    """Tells that the GPU of a run has done nothing for some minutes."""
    notify = provided("notify_idle")
    if notify:
        notify(config, run, project, minutes)
