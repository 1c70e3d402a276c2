"""What is left of an allocation, as the centre's own command says."""

from __future__ import annotations

import re
import shlex
import sys

from ...errors import Failed
from ...machine.terminal import printable
from ..schedulers.command import run_scheduler_command
from .site import Site

PATIENCE_S = 10
MAX_LINES = 6


def print_balance(site: Site) -> None:
    """Prints what is left at the site; nothing where its profile names no command."""
    for line in balance_lines(site):
        print(f"balance: {line}", file=sys.stderr)


def balance_lines(site: Site) -> list[str]:
    """The lines of the profile's command that match its pattern, or one that says why not.

    Of a pattern with groups only the groups are shown.
    """
    rule = site["balance"]
    if not rule["command"]:
        return []
    try:
        answer = run_scheduler_command(*shlex.split(rule["command"]), timeout_s=PATIENCE_S)
        lines = matching_lines(answer, rule["pattern"] or r"\S")
    except Failed as error:
        return [f"not known: {printable(str(error).partition(chr(10))[0])}"]
    except (re.error, ValueError) as error:  # of the pattern, or an open quote in the command
        return [f"not known: {error}, in balance of {site.path}"]
    if not lines:
        reason = f"no line of {rule['command']} matches {rule['pattern']}"
        return [f"not known: {printable(reason)}"]
    return [printable(line) for line in lines[:MAX_LINES]]


def matching_lines(text: str, pattern: str) -> list[str]:
    matches = [(line, re.search(pattern, line)) for line in text.splitlines()]
    return [" ".join(match.groups("")) or line.strip() for line, match in matches if match]
