"""`lab doctor`: what is wrong with this machine, and what to do about it."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable

from ..project import Project
from .doctor_balance import balance
from .doctor_checks import CHECKS
from .doctor_nodes import examine_nodes
from .doctor_template import template_files
from .finding import Finding

WIDTH = 80  # columns


def doctor_command(project: Project, args: list[str]) -> int:
    """Prints the findings; exit code 1 when something is wrong."""
    if "--nodes" in args:
        return examine_nodes(project, [word for word in args if word != "--nodes"])
    parser = argparse.ArgumentParser(prog="lab doctor", description=__doc__)
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
