"""`lab submit RUN`: continues a run as a job, in the same directory."""

from __future__ import annotations

from dataclasses import replace

from omegaconf import DictConfig

from ...config.recorded import read_recorded, with_changes
from ...config.resolve import load_variables, plain_values, resolve
from ...config.trial_names import trial_names
from ...errors import LabError, Refused
from ...project import Project
from ...record.read.attempt_files import attempt_numbers
from ...record.read.find import find_run
from ...record.read.run import Run, Stretch, run_roots, stretches_of
from ...record.read.status import UNENDED, status_of
from ...training.checkpoints.resume_point import is_complete, whole_checkpoint
from ..watch.job_states import job_state_of
from .after import options_of_after, split_after
from .budget import check_budget
from .plan import TRIAL_OF_COMMANDS, Plan, plan_of, points_of, with_after
from .send import Submitted, send_runs
from .submit import pack_code, unpacked

OF_SITE = ("site=", "site.")
ADVICE = (
    "A job that continues a run takes site=… and job.… only. "
    "To train longer, here: lab resume RUN trainer.max_epochs=N"
)


def named_run(words: list[str]) -> str | None:
    """The word among settings that names a run; None without one."""
    names = [word for word in words if "=" not in word and not word.startswith("~")]
    if len(names) > 1:
        raise LabError(
            f"{' and '.join(names)} are {len(names)} words without a setting. "
            "Name one run, or settings such as trial=NAME"
        )
    return names[0] if names else None


def plan_resumption(project: Project, words: list[str]) -> tuple[Plan, Run, Stretch]:
    """The plan of a job that continues the run that is named in `words`.

    Its code and settings are those of the last attempt, its job that of the run before; what was
    typed of `site` and `job` counts first.
    """
    words, after = split_after(words)
    name = named_run(words)
    assert name is not None  # which was just looked at
    if name in trial_names(project):
        raise LabError(f"{name!r} is a trial, not a run. Type: lab submit trial={name}")
    run = find_run(run_roots(project), name)
    check_resumable(run)
    if after and attempt_numbers(run.dir):
        raise LabError(f"{run.id} has begun, so it can come after no other run. Leave out after=…")
    stretch = stretches_of(run)[-1]
    if not stretch.code.get("commit"):
        raise LabError(
            f"the code of {run.id} was not recorded. To continue it: lab resume {run.id}"
        )
    load_variables(project)
    of_site = [word for word in words if word.startswith(OF_SITE)]
    of_job = [word for word in words if word != name and word not in of_site]
    site_before = (run.record.get("job") or {}).get("site")
    if site_before and not any(word.startswith("site=") for word in of_site):
        of_site.append(f"site={site_before}")
    chosen = points_of(project, of_site, ["resume"])[0]
    recorded = read_recorded(run.dir / "config.yaml")
    sections = plain_values(with_changes(recorded, of_job, ("job.",), ADVICE))
    sections["site"] = chosen.settings["site"]
    settings = plain_values(resolve(DictConfig(sections)))
    point = replace(chosen, settings=settings, recorded=sections, trial=run.trial)
    n = (attempt_numbers(run.dir) or [0])[-1] + 1
    # The script of an array must stay as it is: its other runs may be waiting.
    plan = replace(
        plan_of(project, [point]),
        runs=run.runs,
        script=f"job-{n}.sh",
        attempt=n,
        changed=(*of_site, *of_job),
    )
    if after:
        plan = with_after(plan, after)
    elif "after" in run.record and n == 1:  # it never began
        plan = replace(plan, after=run.record["after"])
        options_of_after(plan.after, plan.site.scheduler)  # or refuse
    return plan, run, stretch


def check_resumable(run: Run) -> None:
    """Makes sure that something of a run is left to do, and that nobody does it."""
    if run.trial == TRIAL_OF_COMMANDS:
        raise LabError(
            f"{run.id} ran a command, not a training."
            " Submit the command again: lab submit … -- COMMAND"
        )
    status = status_of(run.dir, job_state_of(), run.record)
    if status in UNENDED:
        raise Refused(f"{run.id} is {status}; nothing was submitted. To see its job: lab queue")
    if is_complete(run.dir, whole_checkpoint(run.checkpoints)):
        raise Refused(
            f"{run.id} is finished; nothing is left to do, and nothing was submitted.\n"
            f"To train longer, here: lab resume {run.id} trainer.max_epochs=N"
        )


def submit_resumption(plan: Plan, run: Run, stretch: Stretch, yes: bool) -> list[Submitted]:
    """Sends the plan of `plan_resumption`."""
    check_budget(plan, stretch.code["tree"], yes)
    with unpacked(plan, stretch.code, stretch.bundles) as frozen:
        archive = pack_code(plan, stretch.code, frozen)
    if plan.after:
        run.update(after=plan.after)
    return send_runs(plan, [run], archive)
