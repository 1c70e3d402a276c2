"""`lab adopt PATH`: what it reads, what it writes, and what it leaves to a person."""

from __future__ import annotations

from pathlib import Path

from ...command_parser import CommandParser
from ...errors import LabError
from ...machine.terminal import printable, printable_lines
from ...project import Project
from .composed import FOLDERS, configs_of
from .hydra_template import adopt_hydra_template
from .plan import AdoptionPlan, shortened, trial_name
from .repository import AdoptedRepository
from .script import adopt_script


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
    scripts = shortened([file.name for file in path.glob("*.py")]) or "none"
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
