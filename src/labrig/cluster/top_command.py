"""`lab top`: who uses which GPU, of this machine or of the nodes of a job."""

from __future__ import annotations

import argparse

from ..project import Project
from ..record.find import find_run
from ..record.roots import run_roots
from .top import top_here
from .top_in_job import top_in_job


def top_command(project: Project, args: list[str]) -> int:
    """`lab top`; 1 where there is no GPU.

    Raises:
        LabError: the job of the run does not run, or its node cannot be asked from here.
    """
    parser = argparse.ArgumentParser(
        prog="lab top",
        description="Who uses which GPU of this machine: run, share of the time in which a kernel "
        "ran, memory, power, age. With RUN: of the nodes on which its job runs.",
    )
    parser.add_argument("run", nargs="?", help="an id or its beginning, a tag, @last")
    parser.add_argument("--watch", action="store_true", help="again every 2 seconds")
    options = parser.parse_args(args)
    if options.run:
        return top_in_job(project, find_run(run_roots(project), options.run), options.watch)
    return top_here(options.watch)
