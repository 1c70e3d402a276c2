"""An edit of a user's, and how one is declared."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """An edit, and what the six later releases may do to it.

    Args:
        conflicts: the files in which the user must choose, since a release changes the same lines.
        lost: the edited files that a release renames or deletes; the hook names them.
    """

    apply: Callable[[Path], None]
    conflicts: frozenset[str] = field(default_factory=frozenset)
    lost: frozenset[str] = field(default_factory=frozenset)


EDITS = {}


def edit(*, conflicts=(), lost=()):
    def register(function):
        EDITS[function.__name__] = Edit(function, frozenset(conflicts), frozenset(lost))
        return function

    return register


def replace(folder, name, old, new):
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{name} has changed; change tests/helpers/edits_of_*.py with it"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def append(folder, name, text):
    with open(folder / name, "a", encoding="utf-8") as file:
        file.write(text)
