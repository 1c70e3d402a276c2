# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Runs a command with the frozen code of a run, when the code of today is another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from .. import env
from ..machine.stop import PREEMPTION_SIGNALS
from ..project import Project
from .frozen import frozen_code, frozen_directory, repository_top, unpack_code
from .frozen_files import filtered_hashes, frozen_hashes, git_hash
from .git import Git
from .run import Run
from .schema import Code


def files_that_differ(code: Code, project: Project) -> list[str]:
    """The files below src/ that are not as in `code`, relative to the project.

    Raises:
        GitFailed: git does not have the commit of `code`.
    """
    if frozen_directory():
        same = frozen_code()["commit"] == code["commit"]
        return [] if same else [f"src/{project.package}"]
    top = repository_top(project.root, code)
    git = Git(top)
    source = f"{code['prefix']}src"
    names = set(git.paths("ls-files", "-c", "-o", "--exclude-standard", "-z", "--", source))
    names |= set(git.paths("ls-tree", "-r", "-z", "--name-only", code["commit"], "--", source))
    recorded = frozen_hashes(code, top, sorted(names))
    differing = [name for name in sorted(names) if not is_same(top / name, recorded.get(name))]
    filtered = filtered_hashes(git, [name for name in differing if (top / name).is_file()])
    return [
        name.removeprefix(code["prefix"])
        for name in differing
        if name not in filtered or filtered[name] != recorded.get(name)
    ]


def is_same(path: Path, recorded: str | None) -> bool:
    """Whether a file has the recorded content; links and what neither has are not compared."""
    if path.is_symlink() or not path.is_file():
        return recorded is None
    return recorded is not None and git_hash(path.read_bytes(), recorded) == recorded


def has_trial(project: Project, trial: str) -> bool:
    """Whether the code that runs has a trial, given as NAME or NAME/VARIANT."""
    return (project.source / "trials" / trial.partition("/")[0] / "config.yaml").is_file()


def format_names(names: list[str]) -> str:
    """`src/a.py differs` or `src/a.py and 3 more files differ`."""
    if len(names) == 1:
        return f"{names[0]} differs"
    return f"{names[0]} and {len(names) - 1} more files differ"


def run_with_frozen_code(run: Run, project: Project, words: list[str]) -> int:
    """Runs `lab WORDS` with the frozen code of a run; data and runs stay where they are.

    Returns:
        Its exit code; 128 + the signal's number when a signal ended it.

    Raises:
        LabError: the code of the run is gone, or was not recorded.
    """
    code = run.record["code"]
    with tempfile.TemporaryDirectory(prefix="lab-frozen-") as temporary:
        directory = Path(temporary).resolve() / "code"
        unpack_code(code, project.root, run.dir, directory)
        frozen = env.frozen_environment(directory, code["prefix"], project.root, code["commit"])
        command = [sys.executable, "-m", f"{project.package}.lab", *words]
        with subprocess.Popen(command, env=os.environ | frozen) as process:
            for signum in PREEMPTION_SIGNALS:
                signal.signal(signum, lambda number, frame: process.send_signal(number))
            exit_code = wait_for(process)
    return exit_code if exit_code >= 0 else 128 - exit_code


def wait_for(process: subprocess.Popen) -> int:
    """The exit code of a process, which gets Ctrl-C itself and decides when it ends."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
