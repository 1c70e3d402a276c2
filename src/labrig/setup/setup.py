"""`lab setup`: the environment's place, packages, git repository and hooks. `make setup` calls it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from ..command_parser import CommandParser
from ..config.editor_schema import write_schema
from ..errors import LabError
from ..machine.caches import cache_variables
from ..machine.command import output_of
from ..machine.git import Git
from ..project import VENDORED, Project, installed_library, text_of
from ..update.origin import update_problem
from .environment import configured_path, lead_shell, move_to, packages_of_centre
from .installer import (
    added,
    index_variables,
    pin_of,
    pip_command,
    quiet,
    run,
    say,
    stop,
    succeeds,
    typed_requirements,
)
from .packages import install
from .torch_build import chosen_build

TARGETS = ("setup", "add", "kernel", "packages")


def setup_command(project: Project, args: list[str]) -> None:
    parser = CommandParser(
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
            install(project, environment, uv, build, centre, adds=True)
        return
    install(project, environment, uv, build, centre)
    if target == "packages":  # `lab submit on=HOST` has no repository there
        return
    if target == "kernel":
        register_kernel(project, environment, uv)
        return
    with suppress(LabError):  # a file of settings that is not YAML, which `lab check` tells
        write_schema(project)
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


# `make kernel`: notebooks on JupyterHub or in JupyterLab can choose the environment of the project.

REQUIREMENT = "ipykernel>=6.29"


def register_kernel(project: Project, environment: Path, uv: str | None) -> None:
    """Registers the environment as a kernel with the name of the package; again, it is replaced.

    The kernel lies in the user's Jupyter directory: JUPYTER_DATA_DIR, else ~/.local/share/jupyter.
    """
    python = environment / "bin" / "python"
    if not output_of(python, "-c", "import ipykernel; print('here')"):
        say(f"installing {REQUIREMENT.partition('>')[0]}")
        install = [*pip_command(environment, uv, "install"), *quiet(), REQUIREMENT]
        run(*install, variables=index_variables())
    name = project.package
    words = ["install", "--user", "--name", name, "--display-name", f"{name} ({project.root})"]
    run(python, "-m", "ipykernel", *words)
    say(f"reload the page of JupyterHub, and choose the kernel {name}")


# The git repository of the project: a first commit, and the hooks.


def require_no_conflicts(project: Project) -> None:
    """Stops while files hold both sides of an update, since no tool can read them."""
    if not shutil.which("git"):
        return
    names = Git(project.root).run("diff", "--name-only", "--diff-filter=U").stdout.splitlines()
    if names:
        files = "\n  ".join(names)
        stop(
            f"these files hold two versions of some lines:\n  {files}\n"
            "Open each file. Choose between the lines after <<<<<<< and those before >>>>>>>,\n"
            "delete the three lines of marks, then: git add FILE. Then again: make setup"
        )


def make_repository(project: Project, environment: Path) -> None:
    """`git init`, a first commit, the hooks; nothing of it inside a larger repository."""
    if not shutil.which("git"):
        stop("git is not installed, and every record needs it. Install it, then again: make setup")
    if not (project.root / ".git").exists():
        if succeeds("git", "ls-files", "--error-unmatch", "pyproject.toml"):
            say("the project is part of a larger git repository; its hooks stay as they are")
            return
        run("git", "init", "--quiet")
        run("git", "symbolic-ref", "HEAD", "refs/heads/main")
    if not succeeds("git", "rev-parse", "--quiet", "--verify", "HEAD"):
        make_first_commit()
    if "/worktrees/" in text_of(project.root / ".git"):
        say(
            "a linked worktree has the hooks of its main checkout. runs/ and data/ lie here, "
            "and go when the worktree is removed; paths.runs leads elsewhere"
        )
        return
    if not run(environment / "bin" / "pre-commit", "install", fatal=False):
        say("the hooks are not installed, see above. Before each commit type: make check")


def make_first_commit() -> None:
    author = succeeds("git", "var", "GIT_AUTHOR_IDENT")
    committer = succeeds("git", "var", "GIT_COMMITTER_IDENT")
    identity = []
    if not (author and committer):
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        say(
            "git does not know who you are, so the first commit is by `nobody`. For yours:\n"
            '  git config --global user.name "Your Name"\n'
            "  git config --global user.email you@example.org"
        )
    run("git", "add", "--all")
    run("git", *identity, "commit", "--quiet", "--message", "Start from the template")
