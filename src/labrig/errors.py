"""Errors with an exit code. A message says what was found, what was expected, what to type next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# What users of other libraries type, and the name here
SYNONYMS = {
    "batchsize": "batch_size",
    "bs": "batch_size",
    "epochs": "max_epochs",
    "file": "path",
    "gpus": "devices",
    "learning_rate": "lr",
    "num_classes": "n_classes",
    "num_epochs": "max_epochs",
    "wd": "weight_decay",
}


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
    names = list(names)
    section, dot, last = word.rpartition(".")
    synonym = section + dot + SYNONYMS.get(last, "")
    matches = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    match = synonym if synonym in names else "".join(matches)
    return f"; did you mean: {match}" if match else ""
