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
    modules = Modules(AdoptedRepository(path.parent))
    plan = AdoptionPlan(project, path.parent.name)
    name = trial_name(name or path.stem)
    needed = modules.needed({path.name})
    imports = modules.imports(path.name)
    imported = {one.module.partition(".")[0] for one in imports}
    settings = {"program": path.name}
    folder = f"{plan.package}/trials/{name}"
    words = "args.NAME=VALUE, or -- --NAME VALUE"
    if imported & {"hydra", "hydra_zen"}:
        settings["style"] = "key=value"
        words = f"args.NAME=VALUE (style: key=value, since {path.name} imports Hydra)"
    if any("LightningCLI" in one.names for one in imports):
        words = "-- fit --config FILE.yaml, or 'argv=[fit]' args.NAME=VALUE; without fit if it has run=False"
    plan.add_trial(name, settings, path.name)
    plan.add_code(folder, {file: modules.repository.content(file) for file in needed})
    plan.notes.tell(
        f"{path.name} reads its options itself: lab train trial={name} {words}. "
        f"Which there are: python {folder}/{path.name} --help"
    )
    plan.notes.ask_for_packages(modules.missing_packages(needed))
    copied = {file.partition("/")[0] for file in needed}
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
