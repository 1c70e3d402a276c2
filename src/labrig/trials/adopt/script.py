"""Adopts a script: it is copied with the modules that it imports, and runs as it is.

Its options are its own: nothing of them is read here.
"""

from __future__ import annotations

from pathlib import Path

from ...project import Project
from .modules import Modules
from .plan import AdoptionPlan, shortened, trial_name
from .repository import AdoptedRepository

# The page for what a script imports
PAGES = {
    "transformers": "from-huggingface",
    "lightning": "from-lightning",
    "pytorch_lightning": "from-lightning",
    "timm": "from-torchvision",
    "torchvision": "from-torchvision",
}


def adopt_script(project: Project, path: Path, name: str | None) -> AdoptionPlan:
    """The plan for one file."""
    modules, file = modules_of(path)
    plan = AdoptionPlan(project, modules.repository.root.name)
    name = trial_name(name or path.stem)
    needed = modules.needed({file})
    imports = modules.imports(file)
    imported = {one.module.partition(".")[0] for one in imports}
    settings = {"program": file}
    folder = f"{plan.package}/trials/{name}"
    words = "args.NAME=VALUE, or -- --NAME VALUE"
    if imported & {"hydra", "hydra_zen"}:
        settings["style"] = "key=value"
        words = f"args.NAME=VALUE (style: key=value, since {path.name} imports Hydra)"
    if any("LightningCLI" in one.names for one in imports):
        words = "-- fit --config FILE.yaml, or 'argv=[fit]' args.NAME=VALUE; without fit if it has run=False"
    plan.add_trial(name, settings, path.name)
    plan.add_code(folder, {one: modules.repository.content(one) for one in needed})
    plan.notes.tell(
        f"{path.name} reads its options itself: lab train trial={name} {words}. "
        f"Which there are: python {folder}/{file} --help"
    )
    plan.notes.ask_for_packages(modules.missing_packages(needed))
    copied = {part for one in needed for part in Path(one).parts}
    left = {one.name for one in path.parent.iterdir() if one.name[0] not in "._"} - copied
    if left:
        plan.notes.ask(
            f"not copied from next to {path.name}: {shortened(left)}. The script works "
            "in the directory of the run: give the whole path of what it reads"
        )
    pages = sorted({f"lab docs {PAGES[package]}" for package in imported & PAGES.keys()})
    line = "from labrig.program import log, and log(step, {'loss': loss.item()}) in the loop; lab docs from-loop"
    plan.notes.ask(f"a curve, and a run that can be resumed: {', '.join(pages) or line}")
    return plan


def modules_of(path: Path) -> tuple[Modules, str]:
    """The modules that a script may import, and its name there: from its directory, or one of the two above
    it, such as that of a repository with tools/train.py, where that has more of what it imports.
    """
    found = []
    for root in path.parents[:3]:
        file = path.relative_to(root).as_posix()
        modules = Modules(AdoptedRepository(root), file.removesuffix(path.name))
        found.append((len(modules.missing_packages(modules.needed({file}))), modules, file))
    return min(found, key=lambda one: one[0])[1:]
