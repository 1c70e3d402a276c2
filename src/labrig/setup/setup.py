"""`lab setup`: the environment's place, packages, git repository and hooks. `make setup` calls it."""

from __future__ import annotations

import argparse
import os
import shutil

from ..machine.caches import cache_variables
from ..project import VENDORED, Project, installed_library, text_of
from ..update.origin import update_problem
from .add import added, typed_requirements
from .centre import packages_of_centre
from .environment import configured_path, lead_shell, move_to
from .kernel import register_kernel
from .packages import install
from .process import say
from .repository import make_repository, require_no_conflicts
from .requirements import pin_of
from .torch_build import chosen_build

TARGETS = ("setup", "add", "kernel", "packages")


def setup_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab setup", description="What `make setup` does once labrig is in the environment."
    )
    parser.add_argument(
        "target",
        nargs="?",
        default="setup",
        choices=TARGETS,
        help="add: the packages of PACKAGE=; kernel: for notebooks; packages: no git, no hooks",
    )
    target = parser.parse_args(args).target
    uv = shutil.which("uv")
    caches = configured_path(project, "caches")
    os.environ.update(cache_variables(caches))
    require_no_conflicts(project)
    requirements = typed_requirements() if target == "add" else []
    centre = packages_of_centre(project)
    if centre is not None:
        uv = None  # it does not see the packages below an environment, and installs them again
    environment = move_to(project, target, on_centre=centre is not None)
    build = chosen_build(environment)
    lead_shell(environment, caches)
    if requirements:
        with added(project, requirements):
            install(project, environment, uv, build, centre)
        return
    install(project, environment, uv, build, centre)
    if target == "packages":  # `lab submit on=HOST` has no repository there
        return
    if target == "kernel":
        register_kernel(project, environment, uv)
        return
    make_repository(project, environment)
    say_where_labrig_is_from(project)
    problem = update_problem(project.root)
    if problem:
        say(problem)
    print("\nReady. To call `lab` in this shell:\n  . .venv/bin/activate\nThen: lab --help")


def say_where_labrig_is_from(project: Project) -> None:
    """A line when that is a copy, or a place that others do not have."""
    pin, installed = pin_of(project), installed_library(project.root)
    vendored = text_of(project.root / VENDORED).partition("\n")[0]
    if os.path.isabs(installed):
        say(f"labrig is the copy {installed}. What is pinned: make setup LABRIG=pinned")
    elif vendored not in ("", pin):
        say("vendor/ has the wheel of another labrig than is pinned. Type: lab vendor")
    elif "file://" in pin and not vendored:
        say("only this machine can install labrig from its pin. For others: lab vendor")
