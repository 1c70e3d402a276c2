# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Errors with an exit code. A message says what was found, what was expected, what to type next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LabError(Exception):
    """The user's mistake: the command prints the message without a traceback, and exits."""

    exit_code = 2


class Failed(LabError):
    """Something was tried and failed, or two things differ."""

    exit_code = 1


class NotComparable(LabError):
    """Two things that cannot be compared, with the reason."""

    exit_code = 3


class Refused(LabError):
    """The command would lose or leak something. The message says how to insist."""

    exit_code = 4


def nearest(word: str, names: Iterable[str]) -> str:
    """The end of a message, "; did you mean: X", for the one of `names` nearest to `word`.

    It is empty when none is near.
    """
    matches = difflib.get_close_matches(word, list(names), n=1, cutoff=0.5)
    return f"; did you mean: {matches[0]}" if matches else ""
