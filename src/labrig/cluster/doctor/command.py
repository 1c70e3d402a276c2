"""`lab doctor`: what is wrong with this machine, or what nodes have otherwise than their site says."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ...command_parser import CommandParser
from ...errors import Failed
from ...project import Project
from ...record.read.status import status_of
from ..schedulers.job import JobRequest
from ..sites.site import Site
from ..watch.job_states import job_state_of
from ..watch.queue import poll_interval_s
from .checks import CHECKS, balance
from .node_check import OF_NCCL, NodeReport, bad_nodes, format_reports
from .template import Finding, template_files

WIDTH = 80  # columns


def doctor_command(project: Project, args: list[str]) -> int:
    """Prints the findings; exit code 1 when something is wrong."""
    asks_for_help = "--help" in args or "-h" in args
    if "--nodes" in args and not asks_for_help:
        return examine_nodes(project, [word for word in args if word != "--nodes"])
    parser = CommandParser(
        prog="lab doctor",
        description="What is wrong with this machine, or what nodes have otherwise than their site says.",
    )
    parser.add_argument(
        "--nodes",
        action="store_true",
        help="send a short job that examines nodes; with job.* and site=",
    )
    parser.parse_args(args)
    something_is_wrong = False
    for check in (*CHECKS, balance, template_files):
        findings = findings_of(check, project)
        if check is balance and not findings:
            continue  # the site has no command for it
        print(check.__name__.replace("_", " "))
        for finding in findings:
            print(format_finding(finding))
            if finding.level == "wrong":
                something_is_wrong = True
    return int(something_is_wrong)


def findings_of(check: Callable, project: Project) -> list[Finding]:
    """The findings of one check; a check that fails is a finding too."""
    try:
        return list(check(project))
    except Exception as error:  # the doctor looks at broken things
        return [
            Finding(
                "wrong",
                f"the check failed: {type(error).__name__}: {error}",
                "fix that, then run again: lab doctor",
            )
        ]


def format_finding(finding: Finding) -> str:
    """The level and the text, and below them the advice, wrapped."""
    lines = textwrap.wrap(
        finding.text,
        WIDTH,
        initial_indent=f"  {finding.level:<5}  ",
        subsequent_indent=" " * 9,
    )
    lines += textwrap.wrap(
        finding.advice,
        WIDTH,
        initial_indent=" " * 9 + "-> ",
        subsequent_indent=" " * 12,
    )
    return "\n".join(lines)


# `lab doctor --nodes`: sends a short job that examines nodes, and names the bad ones.

WAIT_S = 1800  # for the job
READ_EVERY_S = 1.0
ALL_BAD = (
    "All nodes fail, so the fault is not in a node: look at the network between them, and choose its "
    "interface with GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME in site.env. See: lab docs several-hosts"
)


def examine_nodes(project: Project, overrides: list[str]) -> int:
    """Sends the job, waits for it, prints its table; 1 when a node is bad."""
    # imported only here: lab doctor itself must work where these cannot be imported
    from ..submit.plan import plan_program
    from ..submit.submit import SubmitOptions, submit_plan

    plan = plan_program(project, overrides, "doctor.node_check", "doctor", time="00:10:00")
    (submitted,) = submit_plan(plan, SubmitOptions(why="lab doctor --nodes", batch=False))
    print(
        f"job {submitted.job_id}, log {submitted.log}\n"
        "waiting for it (Ctrl-C stops the waiting, not the job)",
        flush=True,
    )
    run_dir = Path(submitted.run_dir)
    reports = wait_for_reports(
        run_dir, plan.request.n_tasks, poll_interval_s(project, plan.site.name)
    )
    if not reports:
        raise Failed(f"the job ended without a result. Read its log: {submitted.log}")
    reports = with_silent_ranks(reports, plan.request.n_tasks)
    print(format_reports(reports))
    for finding in advise(plan.site, plan.request, reports):
        print(format_finding(finding))
    bad = bad_nodes(reports)
    print(format_verdict(bad, plan.request.nodes))
    return int(bool(bad))


def wait_for_reports(run_dir: Path, n_ranks: int, poll_s: float) -> list[NodeReport]:
    """The reports of the ranks, once all are complete or the job is over."""
    end_s = time.monotonic() + WAIT_S
    asked_s = time.monotonic()
    status = "queued"
    reports: list[NodeReport] = []
    while status in ("queued", "running") and sum(report.done for report in reports) < n_ranks:
        if time.monotonic() > end_s:
            raise Failed(
                f"the job is not over after {WAIT_S // 60} minutes, and stays queued or running."
                f" Its log: lab logs {run_dir.name}"
            )
        if time.monotonic() > asked_s + poll_s:
            status = status_of(run_dir, job_state_of())
            asked_s = time.monotonic()
        time.sleep(READ_EVERY_S)
        reports = read_reports(run_dir)
    return reports


def read_reports(run_dir: Path) -> list[NodeReport]:
    """What the ranks have written so far."""
    files = run_dir.glob("nodes/*.json")
    return [NodeReport(**json.loads(file.read_text(encoding="utf-8"))) for file in files]


def with_silent_ranks(reports: list[NodeReport], n_ranks: int) -> list[NodeReport]:
    """In order of ranks, with an empty report for each rank that wrote none."""
    silent_ranks = set(range(n_ranks)) - {report.rank for report in reports}
    silent = [NodeReport(rank=rank, host="?") for rank in silent_ranks]
    return sorted([*reports, *silent], key=lambda report: report.rank)


def format_verdict(bad: dict[str, list[str]], n_nodes: int) -> str:
    if not bad:
        return "all nodes compute alike"
    lines = [f"bad: {host}: {'; '.join(reasons)}" for host, reasons in bad.items()]
    if len(bad) > 1 and len(bad) == n_nodes:
        return "\n".join([*lines, ALL_BAD])
    hosts = ",".join(host for host in bad if host != "?")
    return "\n".join([*lines, f"leave them out with: job.exclude={hosts}"])


NOT_SET = "not set"


def advise(site: Site, request: JobRequest, reports: list[NodeReport]) -> list[Finding]:
    """What is set differently, each with what to write.

    Args:
        reports: of the ranks; one without a report is left out.
    """
    there = [report for report in reports if report.cores is not None]
    return [
        *other_values(site, there),
        *unknown_variables(site, there),
        *binding(site, request, there),
    ]


def other_values(site: Site, reports: list[NodeReport]) -> Iterator[Finding]:
    """Variables of the profile that ranks have with another value."""
    for name, value in site["env"].items():
        for found, hosts in by_value(reports, value_of(name)).items():
            if found != str(value):
                yield Finding(
                    "note",
                    f"{name} is {found} on {hosts}, but {value} in env of {site.path}",
                    "take out what changes it on the node, such as a line of ~/.bashrc",
                )


def unknown_variables(site: Site, reports: list[NodeReport]) -> Iterator[Finding]:
    """Variables of NCCL that the profile does not know: they came with the shell that submitted."""
    names = {name for report in reports for name in report.variables if name.startswith(OF_NCCL)}
    for name in sorted(names - site["env"].keys()):
        for found, hosts in by_value(reports, value_of(name)).items():
            if found != NOT_SET:
                yield Finding(
                    "note",
                    f"{name}={found} on {hosts} is of your shell, not of {site.path}",
                    f"unset {name}, or write there: env: {{{name}: {found}}}",
                )


def binding(site: Site, request: JobRequest, reports: list[NodeReport]) -> Iterator[Finding]:
    """Ranks with fewer cores than they asked for, or that do not see the GPUs of the others."""
    option = {"srun": "--cpu-bind=none", "mpirun": "-bind-to none"}.get(site["launcher"])
    for found, hosts in by_value(reports, lambda report: report.cores).items():
        if int(found) < request.cpus_per_task:
            text = f"a process may use {found} of its {request.cpus_per_task} cores on {hosts}"
            yield Finding("note", text, what_to_write(site, option))
    option = {"srun": "--gpu-bind=none"}.get(site["launcher"])
    with_gpus = [report for report in reports if report.n_gpus is not None]
    for found, hosts in by_value(with_gpus, lambda report: report.n_gpus).items():
        if int(found) < request.gpus:
            text = f"a process sees {found} of its node's {request.gpus} GPUs on {hosts},"
            text += " and NCCL needs the others"
            yield Finding("note", text, what_to_write(site, option))


def what_to_write(site: Site, option: str | None) -> str:
    """Where an option of the launcher goes."""
    if option is None:
        return f"ask the help desk how {site['launcher']} leaves them to each process"
    options = ", ".join(f'"{each}"' for each in [*site["launcher_options"], option])
    return f"write in {site.path}: launcher_options: [{options}]"


def value_of(name: str) -> Callable[[NodeReport], str]:
    return lambda report: report.variables.get(name, NOT_SET)


def by_value(
    reports: list[NodeReport], value: Callable[[NodeReport], str | int | None]
) -> dict[str, str]:
    """Each value that ranks have -> the hosts where they have it."""
    hosts: dict[str, dict[str, None]] = {}
    for report in reports:
        hosts.setdefault(str(value(report)), {})[report.host] = None
    return {found: ", ".join(names) for found, names in hosts.items()}
