"""Adopts a script: it is copied with the modules that it imports, and runs as it is.

Its options are its own: nothing of them is read here.
"""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...project import Project
from .modules import Modules
from .plan import AdoptionPlan, trial_name
from .repository import AdoptedRepository

# The page for what a script imports, the first that fits
PAGES = {
    "transformers": "from-huggingface",
    "timm": "from-torchvision",
    "torchvision": "from-torchvision",
}
PLAIN_PATH = re.compile(r"\w[\w.-]{0,80}(/[\w.-]{1,80}){0,8}/?")
HYDRA = {"hydra", "hydra_zen"}


def adopt_script(project: Project, path: Path, name: str | None) -> AdoptionPlan:
    """The plan for one file.

    Raises:
        LabError: it cannot be read as Python.
        Refused: there is a trial of that name.
    """
    modules = Modules(neighbours_of(path))
    modules.files.add(path.name)  # which no module need be able to import
    plan = AdoptionPlan(project, path.parent.name)
    name = trial_name(name or path.stem)
    needed = modules.needed({path.name})
    imports = modules.imports(path.name)
    imported = {one.module.partition(".")[0] for one in imports}
    settings: dict[str, Any] = {"program": path.name}
    if imported & HYDRA:
        settings["style"] = "key=value"
        plan.notes.tell(
            f"{path.name} imports Hydra, so its options are written key=value: style in config.yaml"
        )
    plan.add_trial(name, settings, path.name)
    folder = f"{plan.package}/trials/{name}"
    plan.files |= {f"{folder}/{file}": modules.repository.content(file) for file in needed}
    plan.unformatted.append(folder)
    option = "args.NAME=VALUE" if imported & HYDRA else "args.NAME=VALUE, or -- --NAME VALUE"
    plan.notes.tell(
        f"the options of {path.name} were not read: it reads them itself. lab train trial={name} {option}"
    )
    if any("LightningCLI" in one.names for one in imports):
        plan.notes.ask(
            f"{path.name} uses LightningCLI. Where it takes a command: lab train trial={name} "
            f"'argv=[fit]', or argv: [fit] in config.yaml"
        )
    for package, place in sorted(modules.packages(needed).items()):
        if package.isidentifier() and find_spec(package) is None:
            plan.notes.ask(f"{place} needs the package {package}: make add PACKAGE={package}")
    for line, text in sorted(neighbours_named(modules, path.name).items()):
        plan.notes.ask(
            f"{path.name}:{line} names {text}, which lies next to the script, and the script works in "
            "the directory of the run: write the whole path of what it reads"
        )
    plan.notes.ask(
        f"a curve: from labrig.program import log, and log(step, {{'loss': loss.item()}}) in the loop of "
        f"{path.name}. A run that is resumed calls the script again: lab docs from-loop"
    )
    if "task" in kinds_of_classes(modules, path.name):
        plan.notes.ask(
            f"{path.name} has a LightningModule. As a task of a trial it resumes in mid-epoch, and "
            "takes data=, optimizer= and lab bench: lab docs from-lightning"
        )
    page = next((page for package, page in PAGES.items() if package in imported), None)
    if page:
        plan.notes.ask(f"what {path.name} imports has a page: lab docs {page}")
    return plan


def kinds_of_classes(modules: Modules, file: str) -> set[str]:
    """What the classes of a file are; see `Modules.kind`."""
    names = [node.name for node in modules.tree(file).body if isinstance(node, ast.ClassDef)]
    return {modules.kind(file, name) for name in names}


def neighbours_named(modules: Modules, file: str) -> dict[int, str]:
    """The texts of a file that name something next to it, by line."""
    found: dict[int, str] = {}
    for node in ast.walk(modules.tree(file)):
        text = node.value if isinstance(node, ast.Constant) else None
        if not isinstance(text, str) or not PLAIN_PATH.fullmatch(text) or text in found.values():
            continue
        if (modules.repository.root / Path(text).parts[0]).exists():
            found[node.lineno] = text
    return found


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
