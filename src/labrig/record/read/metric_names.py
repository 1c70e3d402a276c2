"""What the name of a metric says: of which split it is, and whether it is a main one. Any name is a
name: `test/loss`, `test_loss` and `loss` are shown alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MAIN = ("val/loss", "val/acc", "test/loss", "test/acc", "train/loss")
SPLIT = re.compile(r"(train|val|test)(?:ing|id|idation)?[/_.-]", re.IGNORECASE)


def split_of(name: str) -> str | None:
    """`train`, `val` or `test` by the beginning of a name; None when it says nothing."""
    beginning = SPLIT.match(name)
    return beginning.group(1).lower() if beginning else None


def main_first(names: Iterable[str], monitors: Sequence[str] = ()) -> list[str]:
    """The names, each once, the main ones first.

    Args:
        monitors: those that runs were saved by, see `monitors_of`: they come before all others. After
            them comes the test of one that is not in MAIN, such as test/dice for val/dice.
    """
    quantities = {SPLIT.sub("", name, count=1) for name in monitors}

    def place(name: str) -> int:
        if name in monitors:
            return monitors.index(name) - len(monitors) - 1
        quantity = SPLIT.sub("", name, count=1).lower().removesuffix("_epoch")
        usual = f"{split_of(name)}/{quantity}"
        if usual in MAIN:
            return MAIN.index(usual)
        is_test = split_of(name) == "test" and SPLIT.sub("", name, count=1) in quantities
        return -1 if is_test else len(MAIN)

    return sorted(dict.fromkeys(names), key=place)
