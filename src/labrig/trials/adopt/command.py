"""`lab adopt PATH`: what it reads, what it writes, and what it leaves to a person.

A script is copied with the modules that it imports. Its options are its own: nothing of them is read.
"""

from __future__ import annotations

from pathlib import Path

from ...command_parser import CommandParser
from ...errors import LabError
from ...machine.text_formats import and_more, printable, printable_lines
from ...project import Project
from .hydra_template import adopt_hydra_template
from .plan import AdoptionPlan, trial_name
from .repository import FOLDERS, AdoptedRepository, Modules, configs_of

MAX_NAMED = 12  # files


def adopt_command(project: Project, args: list[str]) -> int:
    """`lab adopt`."""
    parser = CommandParser(
        prog="lab adopt",
        description="Brings code into this project that was written elsewhere: a repository of the "
        "lightning-hydra-template family, or a script. Reads it without running it, overwrites "
        "nothing, and prints what is left to decide.",
    )
    parser.add_argument("path", metavar="PATH", help="the repository, or one Python file")
    parser.add_argument(
        "--as", dest="name", metavar="NAME", help="of the trial and its code (default: PATH's)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print it, write nothing")
    options = parser.parse_args(args)
    plan = plan_of(project, Path(options.path).expanduser().resolve(), options.name)
    if options.dry_run:
        for name, content in plan.files.items():
            if name.endswith(".yaml"):
                print(f"--- {name}\n{printable_lines(content.decode())}")
    else:
        plan.write()
    print_plan(plan, options.dry_run)
    return 0


def plan_of(project: Project, path: Path, name: str | None) -> AdoptionPlan:
    """What adopting `path` would write."""
    if path.is_file():
        if path.suffix != ".py":
            raise LabError(f"{path} is no Python file. Name a repository, or its script")
        return adopt_script(project, path, name)
    if not path.is_dir():
        raise LabError(f"there is no directory or file {path}. Type: lab adopt PATH")
    repository = AdoptedRepository(path)
    with configs_of(repository) as configs:
        if configs is not None:
            return adopt_hydra_template(project, configs, trial_name(name or path.name))
    scripts = and_more(sorted(file.name for file in path.glob("*.py")), MAX_NAMED) or "none"
    raise LabError(
        f"{path} has no train.yaml in {', '.join(f'{name}/' for name in FOLDERS)}. "
        f"Name its script: lab adopt {path}/SCRIPT.py   Scripts: {scripts}"
    )


def print_plan(plan: AdoptionPlan, is_dry: bool) -> None:
    """The files, the differences, and last what a person must decide."""
    print("would write:" if is_dry else "wrote:")
    for name, content in plan.files.items():
        if content:
            print(f"  {name}")
    if plan.notes.different:
        print("different here:")
    for text in plan.notes.different:
        print(f"  {printable(text)}")
    print("next:")
    for name, origin in plan.trials.items():
        print(f"  lab check trial={name} && lab train trial={name}   ({origin})")
    print("to decide by hand:" if plan.notes.by_hand else "nothing is left to decide by hand")
    for n, text in enumerate(plan.notes.by_hand, 1):
        print(f"  {n}. {printable(text)}")


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
            f"not copied from next to {path.name}: {and_more(sorted(left), MAX_NAMED)}. The script works "
            "in the directory of the run: give the whole path of what it reads"
        )
    pages = sorted({f"lab docs {PAGES[package]}" for package in imported & PAGES.keys()})
    line = "from labrig.program import log, and log(step, {'loss': loss.item()}) in the loop; lab docs from-loop"
    names = {
        f"{one.module}.{name}"
        for each in needed
        for one in modules.imports(each)
        for name in (*one.names, "")
    }
    if not any(name.startswith("labrig.program") for name in names):
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
