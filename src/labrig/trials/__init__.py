"""The tree of trials: each is a directory."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

COMMANDS = [
    ("trials tree", "the trials, where each came from, its numbers", "tree:tree_command"),
    ("trials new", "start one: lab trials new wide --from baseline", "new:new_command"),
    ("trials diff", "code and settings of two trials side by side", "diff:diff_command"),
    ("trials result", "write the numbers table of a README", "result:result_command"),
    ("trials drop", "remove one, with a line in TRIALS.md", "drop:drop_command"),
    ("trials restore", "bring a dropped one back", "restore:restore_command"),
    ("trials rename", "rename one; its runs follow", "rename:rename_command"),
]


class CallableModule(ModuleType):
    """`from <package>.lab import trials` gives this folder; `trials()` shall be the table."""

    def __call__(self, *args: Any, **options: Any) -> list[dict]:
        return import_module(".trial", __name__).trials(*args, **options)


sys.modules[__name__].__class__ = CallableModule
