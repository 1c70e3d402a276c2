"""The code of today next to that of a run, and commands that run with the code of the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ... import env
from ...config.trial_names import name_of_today
from ...errors import LabError
from ...machine.stop import PREEMPTION_SIGNALS
from ...machine.text_formats import counted
from ...project import LIBRARY, Project, read_yaml
from ...version import __version__
from ..files.code_section import library_name, same_code
from ..files.schema import Code
from ..freeze.frozen import (
    frozen_code,
    frozen_directory,
    repository_top,
    unpack_code,
    unpack_library,
)
from ..freeze.frozen_files import filtered_hashes, frozen_hashes, git_hash, is_readme
from ..freeze.git import Git, GitFailed
from ..freeze.imported import ImportedCode
from ..freeze.library import is_this_library, name_of_this_library
from ..read.run import Run


def files_that_differ(code: Code, project: Project) -> list[str]:
    """The files below src/ that are not as in `code`, relative to the project; and the library.

    READMEs do not count: `lab trials result` writes them.

    Raises:
        GitFailed: git does not have the commit of `code`.
    """
    if frozen_directory():
        same = same_code(frozen_code(), code)
        return [] if same else [f"src/{project.package}"]
    top = repository_top(project.root, code)
    git = Git(top)
    source = f"{code['prefix']}src"
    listed = set(git.paths("ls-files", "-c", "-o", "--exclude-standard", "-z", "--", source))
    listed |= set(
        git.paths(
            "ls-tree", "-r", "-z", "--name-only", "--end-of-options", code["commit"], "--", source
        )
    )
    compared = sorted(name for name in listed if not is_readme(name))
    recorded = frozen_hashes(code, top)
    differing = [name for name in compared if not is_same(top / name, recorded.get(name))]
    filtered = filtered_hashes(git, [name for name in differing if (top / name).is_file()])
    names = [
        name.removeprefix(code["prefix"])
        for name in differing
        if name not in filtered or filtered[name] != recorded.get(name)
    ]
    return names if is_this_library(code) else [*names, f"labrig {__version__}"]


def is_same(path: Path, recorded: str | None) -> bool:
    """Whether a file has the recorded content; links and what neither has are not compared."""
    if path.is_symlink() or not path.is_file():
        return recorded is None
    return recorded is not None and git_hash(path.read_bytes(), recorded) == recorded


def has_trial(project: Project, trial: str) -> bool:
    """Whether the code that runs has a trial, given as NAME or NAME/VARIANT."""
    return (project.source / "trials" / trial.partition("/")[0] / "config.yaml").is_file()


def what_the_project_lacks(project: Project, run: Run, trial: str) -> str | None:
    """Why a run can be used with its own code only; None when that of today may do.

    Args:
        trial: of the run, as it is called in the code that would be used.
    """
    if not has_trial(project, trial):
        return f"this project has no trial {run.trial!r} any more"
    package = read_yaml(run.dir / "config.yaml").get("package", project.package)
    if package != project.package:
        return f"the package was called {package} then"
    return None


def format_names(names: list[str]) -> str:
    """`src/a.py differs` or `src/a.py and 3 more files differ`."""
    if len(names) == 1:
        return f"{names[0]} differs"
    return f"{names[0]} and {counted(len(names) - 1, 'more file')} differ"


def config_of_today(run: Run, project: Project) -> str:
    """The recorded configuration of a run, whose classes are in its trial as it is called today."""
    text = (run.dir / "config.yaml").read_text(encoding="utf-8")
    old = f"{project.package}.trials.{run.trial.partition('/')[0]}."
    new = f"{project.package}.trials.{name_of_today(run.trial).partition('/')[0]}."
    return text.replace(old, new)


def require_own_code(run: Run, project: Project) -> None:
    """Makes sure that today's code has the trial and the package of a run."""
    lacking = what_the_project_lacks(project, run, name_of_today(run.trial))
    if lacking:
        raise LabError(
            f"{lacking}. Load it with its own code: load({run.id!r}, frozen=True)\n"
            f"Look at that code: lab runs code {run.id} DIRECTORY"
        )


def print_difference(run: Run, project: Project) -> None:
    """One line when an imported file is not as it was in the code of a run."""
    code = run.record["code"]
    if not code.get("commit"):
        return
    try:
        imported = ImportedCode(project, code).compare()
    except GitFailed as error:
        print(f"lab: cannot compare with the code of {run.id}: {error}", file=sys.stderr)
        return
    names = [file["path"] for file in imported if file["kind"] == "changed"]
    if names:
        print(
            f"lab: {format_names(names)} from the code of {run.id}: lab runs code {run.id}",
            file=sys.stderr,
        )


def run_with_frozen_code(run: Run, project: Project, words: list[str]) -> int:
    """Runs `lab WORDS` with the frozen code of a run; data and runs stay where they are.

    Returns:
        Its exit code; 128 + the signal's number when a signal ended it.
    """
    code = run.record["code"]
    with tempfile.TemporaryDirectory(prefix="lab-frozen-") as temporary:
        directory = Path(temporary).resolve() / "code"
        unpack_code(code, project.root, run.dir, directory)
        frozen = env.frozen_environment(
            directory,
            code["prefix"],
            project.root,
            code["commit"],
            env.paths_outside(project.root),
        )
        return run_lab(words, frozen)


def run_with_its_library(run: Run, project: Project, words: list[str]) -> int:
    """Runs `lab WORDS` with the library that a run began with, and the project as it is.

    Where that library is gone, it says so, and runs the installed one.

    Returns:
        Its exit code, as `run_with_frozen_code`.
    """
    code = run.record["code"]
    with tempfile.TemporaryDirectory(prefix="lab-frozen-") as temporary:
        directory = Path(temporary).resolve()
        try:
            unpack_library(code, run.dir, directory)
        except LabError as error:
            print(f"lab: continues with {name_of_this_library()}: {error}", file=sys.stderr)
            return run_lab(words, {env.LIBRARY: str(LIBRARY.parent)})
        print(
            f"lab: continues with {library_name(code)}, as the run began; "
            f"installed is {name_of_this_library()}",
            file=sys.stderr,
        )
        earlier_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        paths = [str(directory), str(project.source.parent), *filter(None, earlier_path)]
        variables = {env.LIBRARY: str(directory), "PYTHONPATH": os.pathsep.join(paths)}
        return run_lab(words, variables)


def run_lab(words: list[str], variables: dict[str, str]) -> int:
    """Runs `lab WORDS` with further variables; its exit code, 128 + the number of a signal."""
    command = [sys.executable, "-m", "labrig", *words]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONSAFEPATH": "1"} | variables)
    with process, signals_passed_on(process):
        exit_code = wait_for(process)
    return exit_code if exit_code >= 0 else 128 - exit_code


@contextmanager
def signals_passed_on(process: subprocess.Popen) -> Iterator[None]:
    """Sends the signals that ask for a stop to `process`, within the block."""

    def pass_on(signum: int, frame: FrameType | None) -> None:
        process.send_signal(signum)

    previous = {signum: signal.signal(signum, pass_on) for signum in PREEMPTION_SIGNALS}
    try:
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


def wait_for(process: subprocess.Popen) -> int:
    """The exit code of a process, which gets Ctrl-C itself and decides when it ends."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
