"""What ranks of `lab doctor --nodes` have otherwise than their site says: network variables, cores, GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..schedulers.request import JobRequest
from ..sites.site import Site
from .node_report import OF_NCCL, NodeReport
from .template import Finding

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
