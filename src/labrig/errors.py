"""Errors with an exit code. A message says what was found, what was expected, what to type next."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from importlib.util import find_spec

# What users of other libraries type, and the name here
SYNONYMS = {
    "batchsize": "batch_size",
    "bs": "batch_size",
    "delete": "prune",
    "ls": "list",
    "epochs": "max_epochs",
    "file": "path",
    "gpus": "devices",
    "learning_rate": "lr",
    "num_classes": "n_classes",
    "num_epochs": "max_epochs",
    "wd": "weight_decay",
}


NEAR = 0.5  # ratio of difflib from which a name may be what was meant


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


def require_package(module: str, what: str, packages: str = "") -> None:
    """Makes sure that an optional package is installed.

    Args:
        module: as it is imported.
        what: what needs it, as the user typed it: "lab sweep".
        packages: what `make add` takes; "" when it is called like the module.
    """
    if find_spec(module) is None:
        add = shlex.quote(packages or module)
        raise LabError(f"{what} needs the package {module}: make add PACKAGE={add}")


def nearest(word: str, names: Iterable[str]) -> str:
    """The end of a message, "; did you mean: X", for the one of `names` nearest to `word`.

    It is empty when none is near. A section that both names begin with makes them no nearer. A word
    without a section means the setting of that name in one: lr is optimizer.lr. Where several sections
    have it, all are named.
    """
    names = list(names)
    if word.startswith("--"):  # the dashes make nothing nearer
        named = nearest(word[2:], [name[2:] for name in names if name.startswith("--")])
        return named.replace("mean: ", "mean: --")
    section, dot, last = word.rpartition(".")
    meant = SYNONYMS.get(last, last)
    in_sections = [name for name in names if not dot and name.endswith(f".{meant}")]
    if in_sections and word not in names:
        fewest = min(name.count(".") for name in in_sections)
        near = [name for name in in_sections if name.count(".") == fewest]
        return f"; did you mean: {' or '.join(list(dict.fromkeys(near))[:3])}"
    synonym = section + dot + SYNONYMS.get(last, "")
    matches = [
        name
        for name in difflib.get_close_matches(word, names, n=5, cutoff=NEAR)
        if not (dot and name.startswith(f"{section}.")) or _are_near(last, name[len(section) + 1 :])
    ]
    match = synonym if synonym in names else "".join(matches[:1])
    return f"; did you mean: {match}" if match else ""


def _are_near(word: str, name: str) -> bool:
    return difflib.SequenceMatcher(None, name, word).ratio() >= NEAR
