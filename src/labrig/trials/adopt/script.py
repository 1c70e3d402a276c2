"""Adopts a script: one for Lightning becomes task and data of a trial, any other a program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import LabError
from ...project import Project
from .composed import ForeignConfig
from .copied import add_modules
from .modules import Modules, dotted_parts, names_logged
from .plan import AdoptionPlan, trial_name
from .repository import AdoptedRepository
from .settings import MISSING, Translation

PROGRAM = '''"""Runs {script} as it is, with the record of a run. Yours to change: lab docs from-loop

It works in the directory of the run, so what it writes by a relative name is kept there.
"""

import os
import runpy
import sys


def main(config, log) -> None:
    """`lab_log(step, {{"loss": loss}})` in {script} writes a row of metrics.jsonl."""
    os.chdir(log.dir)
    sys.argv = ["{script}"]
    for name, value in config.program.items():
        if value is True:
            sys.argv.append(f"--{{name}}")
        elif value is not None and value is not False:
            sys.argv.append(f"--{{name}}={{value}}")
    runpy.run_module(f"{{__package__}}.{module}", {{"lab_log": log}}, run_name="__main__")
'''
# The page for what a script imports, the first that fits
PAGES = {
    "transformers": "from-huggingface",
    "timm": "from-torchvision",
    "torchvision": "from-torchvision",
}
CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")  # model_checkpoint of ModelCheckpoint
PLAIN_PATH = re.compile(r"\w[\w.-]{0,80}(/[\w.-]{1,80}){0,8}/?")
LIGHTNING = ("lightning", "pytorch_lightning", "lightning.pytorch")


@dataclass(frozen=True)
class Script:
    """A script and the modules that lie next to it.

    Args:
        file: relative to the directory of `modules`.
    """

    modules: Modules
    file: str
    plan: AdoptionPlan
    name: str

    @property
    def tree(self) -> ast.Module:
        return self.modules.tree(self.file)

    def classes(self, kind: str) -> list[str]:
        """The classes of the script that are a task or data."""
        names = [node.name for node in self.tree.body if isinstance(node, ast.ClassDef)]
        return [name for name in names if self.modules.kind(self.file, name) == kind]

    def imported(self) -> set[str]:
        """The packages that the script imports, as `torch`."""
        return {one.module.partition(".")[0] for one in self.modules.imports(self.file)}

    def adopt(self) -> None:
        """Fills the plan.

        Raises:
            LabError: the script cannot be read, or trains while it is imported.
        """
        tasks = self.classes("task")
        if len(tasks) == 1:
            self.adopt_lightning(tasks[0])
        elif tasks:
            raise LabError(
                f"{self.file} has {len(tasks)} LightningModules: {', '.join(tasks)}. Leave the one that "
                "is trained in a file of its own, and adopt that"
            )
        else:
            self.adopt_program()
        page = next((page for name, page in PAGES.items() if name in self.imported()), None)
        if page:
            self.plan.notes.ask(f"what {self.file} imports has a page: lab docs {page}")

    def adopt_lightning(self, task: str) -> None:
        """A trial whose task and data are classes of the script.

        Raises:
            LabError: the script trains while it is imported.
        """
        for line in lines_of_fit(self.tree):
            raise LabError(
                f"{self.file}:{line} trains while the file is imported. Put what follows the classes "
                'below `if __name__ == "__main__":`, and adopt again'
            )
        calls = list(calls_in(self.tree))
        data = self.classes("data")
        values: dict[str, Any] = {
            "model": self.built(task, calls),
            "trainer": self.trainer(calls),
            "callbacks": self.callbacks(calls),
            "seed": self.seed(calls),
        }
        if len(data) == 1:
            values["data"] = self.built(data[0], calls)
        else:
            self.plan.notes.ask(
                f"{self.file} has {len(data)} LightningDataModules, and one is needed: write it, and "
                "name it by data._target_ (lab docs from-lightning)"
            )
        package = f"${{package}}.{self.name}"
        there = Translation(self.modules, ForeignConfig(values, {}), package, True, self.plan.notes)
        overrides = []
        if device := there.device():
            overrides.append({"override /trainer": device})
        if data_section := there.section("data"):
            option = self.plan.free_option("data", self.name, "adopted")
            self.plan.add_option("data", option, data_section, self.file)
            overrides.append({"override /data": option})
        sections: dict[str, Any] = {"defaults": overrides, "task": there.section("model")}
        if callbacks := there.callbacks():
            sections["callbacks"] = callbacks
        if values["seed"] is not None:
            sections["seed"] = values["seed"]
        sections |= there.trainer()
        if monitor := there.monitor(lambda: names_logged(self.tree)):
            sections["checkpoint"] = monitor
        there.tell_of_the_rest()
        self.plan.add_trial(self.name, sections, self.file)
        add_modules(self.plan, self.modules, {self.file}, f"{self.plan.package}/{self.name}")

    def adopt_program(self) -> None:
        """A trial with a program.py that runs the script."""
        module = dotted_parts(self.file)[-1]
        if module == "program":
            raise LabError(f"{self.file} needs another name: a trial has a program.py of its own")
        folder = f"{self.plan.package}/trials/{self.name}"
        arguments = self.arguments()
        self.plan.add_trial(self.name, {"program": arguments}, self.file)
        add_modules(self.plan, self.modules, {self.file}, folder)
        text = PROGRAM.format(script=self.file, module=module)
        self.plan.files[f"{folder}/program.py"] = text.encode()
        name, sign = next(((name, "") for name in arguments), ("epochs", "+"))
        self.plan.notes.tell(
            f"--{name}=2 of {self.file} is {sign}program.{name}=2: lab train trial={self.name} "
            f"{sign}program.{name}=2"
        )
        if line := line_of_step(self.tree):
            self.plan.notes.ask(
                f"{self.file}:{line} is the step of the loop. To record the loss, add behind it: "
                'lab_log(step, {"loss": loss.item()})   Without it there is no curve, and a job is not '
                "saved before its time is over"
            )
        for line, name in sorted(self.neighbours().items()):
            self.plan.notes.ask(
                f"{self.file}:{line} names {name}, which lies next to the script, and the program works in "
                "the directory of the run: write the whole path of what it reads"
            )
        self.plan.notes.ask(
            "a resumed run calls the script again. To continue: let it save its state to "
            "lab_log.checkpoints, and read it at its beginning"
        )

    def arguments(self) -> dict[str, Any]:
        """The options that the script adds to an argparse parser, with their defaults."""
        found: dict[str, Any] = {}
        for call in calls_in(self.tree):
            if name_of(call) != "add_argument" or not call.args:
                continue
            names = [self.literal(node, "an argument") for node in call.args]
            name = max(map(str, names), key=len)
            given = {word.arg: word.value for word in call.keywords if word.arg}
            if not name.startswith("--"):
                self.plan.notes.ask(
                    f"{self.file}:{call.lineno} takes {name} without a name in front of its value: append "
                    "it to sys.argv in program.py"
                )
            elif "action" in given:
                found[name[2:]] = False  # a switch
            else:
                default = given.get("default")
                found[name[2:]] = self.literal(default, name) if default is not None else None
        return found

    def built(self, name: str, calls: list[ast.Call]) -> dict[str, Any]:
        """The section of a class, with the arguments that the script calls it with."""
        found = self.modules.definition(self.file, name)
        parameters = parameters_of(found[1]) if found else {}
        section: dict[str, Any] = {"_target_": f"{dotted_parts(self.file)[-1]}.{name}"}
        call = next((call for call in calls if name_of(call) == name), None)
        given = arguments_of(call, list(parameters)) if call else {}
        for key, node in given.items():
            section[key] = self.literal(node, f"{name}({key})")
        for key, is_needed in parameters.items():
            if is_needed and key not in section:
                section[key] = MISSING
        return section

    def trainer(self, calls: list[ast.Call]) -> dict[str, Any]:
        call = next((call for call in calls if name_of(call) == "Trainer"), None)
        given = {word.arg: word.value for word in call.keywords if word.arg} if call else {}
        given = {key: node for key, node in given.items() if key not in ("callbacks", "logger")}
        return {key: self.literal(node, f"Trainer({key})") for key, node in given.items()}

    def callbacks(self, calls: list[ast.Call]) -> dict[str, Any]:
        """The callbacks that the call of the Trainer makes in place."""
        call = next((call for call in calls if name_of(call) == "Trainer"), None)
        nodes = [word.value for word in call.keywords if word.arg == "callbacks"] if call else []
        made: dict[str, Any] = {}
        for node in nodes:
            for item in node.elts if isinstance(node, ast.List) else [node]:
                target = self.callback_target(item)
                if target is None or not isinstance(item, ast.Call):
                    self.plan.notes.ask(
                        f"{self.file}:{item.lineno}: the callback {ast.unparse(item)[:60]} is not read: "
                        "write it into the section callbacks (lab docs own-code)"
                    )
                    continue
                name = target.rpartition(".")[2]
                given = {word.arg: word.value for word in item.keywords if word.arg}
                made[CAPITAL.sub("_", name).lower()] = {"_target_": target} | {
                    key: self.literal(value, f"{name}({key})") for key, value in given.items()
                }
        return made

    def callback_target(self, node: ast.expr) -> str | None:
        """The name of the class that is called: Lightning's, or one of the script."""
        if not isinstance(node, ast.Call) or node.args:
            return None
        name = name_of(node)
        if self.modules.definition(self.file, name):
            return f"{dotted_parts(self.file)[-1]}.{name}"
        is_lightning = "callbacks" in ast.unparse(node.func) or any(
            name in one.names and one.module.partition(".")[0] in LIGHTNING
            for one in self.modules.imports(self.file)
        )
        return f"lightning.pytorch.callbacks.{name}" if is_lightning else None

    def seed(self, calls: list[ast.Call]) -> Any:
        call = next((call for call in calls if name_of(call) == "seed_everything"), None)
        if call is None or not call.args:
            return None
        value = self.literal(call.args[0], "seed")
        return value if isinstance(value, int) else None

    def literal(self, node: ast.expr, what: str) -> Any:
        """The value of an expression that is written out; else ???, and a question."""
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = MISSING
        if isinstance(value, tuple):
            value = list(value)
        if value is MISSING or not isinstance(value, bool | int | float | str | list | dict | None):
            text = ast.unparse(node)[:60]
            self.plan.notes.ask(f"{self.file}:{node.lineno}: {what} is {text}: write its value")
            return MISSING
        return value

    def neighbours(self) -> dict[int, str]:
        """The texts of the script that name something next to it, by line."""
        found: dict[int, str] = {}
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if PLAIN_PATH.fullmatch(node.value):
                first = self.modules.repository.root / Path(node.value).parts[0]
                if first.exists() and node.value not in found.values():
                    found[node.lineno] = node.value
        return found


def adopt_script(project: Project, path: Path, name: str | None) -> AdoptionPlan:
    """The plan for one file.

    Raises:
        LabError: it cannot be read or adopted.
    """
    repository = neighbours_of(path)
    plan = AdoptionPlan(project, path.parent.name)
    Script(Modules(repository), path.name, plan, trial_name(name or path.stem)).adopt()
    return plan


def neighbours_of(path: Path) -> AdoptedRepository:
    """The Python files in the directory of a script, and in the packages of that directory."""
    root = path.parent
    folders = [root, *(file.parent for file in sorted(root.glob("*/__init__.py")))]
    files = [
        file.relative_to(root).as_posix()
        for folder in folders
        if not folder.is_symlink()
        for file in sorted(folder.glob("*.py"))
        if file.is_file() and not file.is_symlink()
    ]
    return AdoptedRepository(root, tuple(files))


def calls_in(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def name_of(call: ast.Call) -> str:
    """The last word of what is called: Trainer of L.Trainer(...)."""
    return ast.unparse(call.func).rpartition(".")[2]


def arguments_of(call: ast.Call, parameters: list[str]) -> dict[str, ast.expr]:
    """The arguments of a call by the names of the parameters."""
    given = dict(zip(parameters, call.args, strict=False))
    return given | {word.arg: word.value for word in call.keywords if word.arg}


def parameters_of(node: ast.ClassDef) -> dict[str, bool]:
    """The parameters of `__init__` without self, and whether each must be given."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            arguments = [*item.args.posonlyargs, *item.args.args][1:]
            n_needed = len(arguments) - len(item.args.defaults)
            named = {one.arg: n < n_needed for n, one in enumerate(arguments)}
            defaults = zip(item.args.kwonlyargs, item.args.kw_defaults, strict=True)
            return named | {one.arg: default is None for one, default in defaults}
    return {}


def lines_of_fit(tree: ast.Module) -> list[int]:
    """The lines that call `.fit(` while the file is imported."""
    running = [node for node in tree.body if not is_guard(node)]
    running = [
        node
        for node in running
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    return [call.lineno for node in running for call in calls_in(node) if name_of(call) == "fit"]


def is_guard(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def line_of_step(tree: ast.Module) -> int | None:
    """The line of the optimizer's step inside a loop; else that of backward."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    calls = [call for loop in loops for call in calls_in(loop)]
    for word in ("step", "backward"):
        lines = [call.lineno for call in calls if name_of(call) == word]
        if lines:
            return max(lines)
    return None
