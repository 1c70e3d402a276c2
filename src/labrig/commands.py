"""The commands of `lab`: every folder of the library lists its own in its __init__.py; an example of each.

Plug-ins list theirs in the module of an entry point (plugins.py), and a project in
src/<package>/commands.py. The file of a command is imported when the command is called.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from . import env
from .errors import LabError
from .plugins import load_plugin, origin_of, plugins, say_broken
from .project import (
    PYPROJECT,
    Project,
    enter,
    installed_library,
    pin_in,
    say_once,
    settings_in,
)
from .providers import rooms
from .version import __version__

ANYWHERE = ("docs",)  # commands that need no project
MINOR = re.compile(r"\d+\.\d+")  # the part of a version that settings and files may change with


@dataclass(frozen=True)
class Command:
    """One command of `lab`."""

    words: str  # "train", "runs list"; "" is `lab` alone
    summary: str  # one line of help
    module: str
    function: str
    origin: str = ""  # the plug-in or file that adds it; "" for the library's own

    @property
    def group(self) -> str:
        """The first word: `runs` of `runs list`."""
        return self.words.partition(" ")[0]

    @property
    def member(self) -> str:
        """The second word: `list` of `runs list`; "" when there is none."""
        return self.words.partition(" ")[2]

    def run(self, args: list[str]) -> int | None:
        project = None
        if self.words not in ANYWHERE:
            project = Project.find()
            enter(project)
            say_what_differs(project)
        function = self.load()
        try:
            return function(project, args)
        except SystemExit as end:
            # argparse ends so after --help; after a mistake the code is 2
            if not end.code and self.words in EXAMPLES:
                print(f"\nexample: {EXAMPLES[self.words]}")
            raise

    def load(self) -> Callable[[Project | None, list[str]], int | None]:
        """The function behind the command.

        Raises:
            LabError: a plug-in or project names one that there is not.
        """
        try:
            return getattr(import_module(self.module), self.function)
        except (ModuleNotFoundError, AttributeError) as error:
            if self.origin and error.name in (self.module, self.function):
                raise LabError(
                    f"{self.origin} says that `lab {self.words}` is {self.function} of {self.module}, "
                    "which there is not. Correct the last word of its line in COMMANDS"
                ) from error
            raise


def say_what_differs(project: Project) -> None:
    """A line when this is another environment than the project's, or another labrig than it pins."""
    if project.frozen or env.ENVIRONMENT_READY in os.environ:
        return
    environment = project.root / ".venv"
    is_there = os.path.exists(environment)  # False too behind a closed directory
    if is_there and not environment.samefile(sys.prefix):
        say_once(f"this is the lab of {sys.prefix}; the project has its own: {environment}/bin/lab")
    pin, installed = pin_in(project.root), installed_library(project.root)
    if pin and installed not in ("", pin) and not os.path.isabs(installed):
        say_once(f"{installed} is installed, but {PYPROJECT} pins {pin}. Type: make setup")
    template = str((settings_in(project.root) or {}).get("template"))
    minor_versions = [MINOR.match(version) for version in (template, __version__)]
    if all(minor_versions) and len({match[0] for match in minor_versions if match}) > 1:
        say_once(f"labrig {__version__} runs, but the project is of {template}. Type: make setup")


def list_commands() -> list[Command]:
    """The library's commands, in the order of the folders and of their lists."""
    commands = []
    for package, module in rooms():
        commands += commands_in(getattr(module, "COMMANDS", ()), package)
    return commands


def added_commands(names: set[str]) -> list[Command]:
    """The commands of plug-ins and of the project around the current directory.

    Args:
        names: the words of the library's commands, which no other may have.

    A list that cannot be loaded, or names a command that there is, is named and left out.
    """
    added: list[Command] = []
    for plugin in plugins("commands"):
        package = plugin.value.rpartition(".")[0] or plugin.value
        try:
            added += new_commands(load_plugin(plugin), package, origin_of(plugin), names)
        except LabError as error:
            say_broken(str(error))
    try:
        project = Project.find()
    except LabError:
        return added
    file = project.source / "commands.py"
    if file.is_file():
        enter(project)
        try:
            module = import_module(f"{project.package}.commands")
            added += new_commands(module, project.package, str(file), names)
        except Exception as error:  # the commands of labrig live
            say_broken(f"{file} adds no command; correct it. {type(error).__name__}: {error}")
    return added


def new_commands(module: Any, package: str, origin: str, names: set[str]) -> list[Command]:
    """The commands in COMMANDS of a module; their words are added to `names`."""
    try:
        commands = commands_in(module.COMMANDS, package, origin)
    except (AttributeError, TypeError, ValueError) as error:
        raise LabError(
            f"{origin} has no list of commands, such as\n"
            '  COMMANDS = [("grades", "the grades of all trials", "grades:grades_command")]\n'
            "To see how: lab docs lab"
        ) from error
    taken = [command.words for command in commands if command.words in names]
    if taken:
        raise LabError(f"{origin} adds the command `lab {taken[0]}`, which there is. Rename it")
    names |= {command.words for command in commands}
    return commands


def commands_in(listed: Sequence[Sequence[Any]], package: str, origin: str = "") -> list[Command]:
    """A list of (words, summary, "file:function"), where the file lies in `package`."""
    commands = []
    for words, summary, place in listed:
        file, function = place.split(":")
        commands.append(Command(words, summary, f"{package}.{file}", function, origin))
    return commands


EXAMPLES = {
    "adopt": "lab adopt ../lightning-hydra-template --as mnist",
    "bench": "lab bench trial=baseline --sweep batch=8..1024",
    "cancel": "lab cancel @last",
    "check": "lab check trial=baseline model.width=64",
    "completion": "lab completion bash",
    "config": "lab config trial=baseline --origin",
    "data append": "lab data append digits raw/more",
    "data bench": "lab data bench digits",
    "data info": "lab data info digits",
    "data list": "lab data list /group/data",
    "data pack": "lab data pack pets raw/pets --as images --size 64 64",
    "data pull": "lab data pull digits",
    "data push": "lab data push digits /group/data",
    "data stage": "lab data stage digits --to shm",
    "data verify": "lab data verify digits",
    "docs": "lab docs first-day",
    "doctor": "lab doctor --nodes job.nodes=2",
    "eval": "lab eval @best:val/loss --checkpoint best",
    "hooks": "lab hooks --skip=imports",
    "image build": "lab image build site=slurm site.python=packed",
    "logs": "lab logs @last -f",
    "predict": "lab predict @last split=val",
    "prefetch": "lab prefetch trial=baseline init_from=hf:ORG/MODEL",
    "queue": "lab queue --watch",
    "report": "lab report trial=baseline since=30d -o page.html",
    "resume": "lab resume @last trainer.max_epochs=40",
    "runs archive": "lab runs archive tag=paper -o paper.zip",
    "runs code": "lab runs code @last /tmp/code",
    "runs compare": "lab runs compare @last:wide @best:val/acc --metric acc",
    "runs cost": "lab runs cost",
    "runs diff": "lab runs diff @last @best:val/loss",
    "runs export-model": "lab runs export-model @best:val/loss release --onnx",
    "runs export": "lab runs export tag=paper -o results.tex",
    "runs list": "lab runs list status=finished 'val/loss<0.3' since=7d --sort val/acc",
    "runs note": 'lab runs note @last "the learning rate was too high"',
    "runs plot": "lab runs plot trial=wide,deep --metric val/loss -o loss.pdf",
    "runs prune": "lab runs prune status=failed --yes",
    "runs pull": "lab runs pull @last --checkpoints",
    "runs reproduce": "lab runs reproduce @last --check",
    "runs show": "lab runs show @last",
    "runs table": "lab runs table --by optimizer.lr trial=baseline --latex",
    "runs tag": "lab runs tag @best:val/loss paper",
    "runs verify": "lab runs verify @last",
    "setup": "lab setup",
    "shell": "lab shell job.gpus=1 job.time=00:30:00",
    "site init": "lab site init ourcluster",
    "site show": "lab site show slurm",
    "site verify": "lab site verify site=slurm",
    "snapshot": "lab snapshot --json",
    "submit": "lab submit trial=baseline seed=0,1,2 site=slurm --dry-run",
    "support": "lab support @last >ticket.txt",
    "sweep": "lab sweep trial=baseline 'optimizer.lr=tag(log,interval(1e-4,1e-1))'",
    "sweep show": "lab sweep show --plot",
    "sync": "lab sync",
    "top": "lab top",
    "train": 'lab train trial=baseline optimizer.lr=3e-4 --why "a smaller step"',
    "trials diff": "lab trials diff wide baseline",
    "trials drop": 'lab trials drop wide --why "no better, and twice as slow"',
    "trials new": 'lab trials new wide --from baseline -m "Does twice the width help?"',
    "trials rename": "lab trials rename wide wider",
    "trials restore": "lab trials restore wide",
    "trials result": "lab trials result wide",
    "trials tree": "lab trials tree --metric val/acc",
    "update-branch": "lab update-branch",
    "vendor": "lab vendor --all",
}
