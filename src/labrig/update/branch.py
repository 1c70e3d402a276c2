"""`lab update-branch`: the update to the template's newest release, on the branch template-update.

A weekly job of a forge runs it with nobody there to answer. It needs copier and git, and no package
of the project. Without a newer release there is no branch. The message of the commit is the title
and the text of the change request.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from ..command_parser import CommandParser
from ..errors import Failed
from ..project import Project
from .origin import ANSWERS, is_address

BRANCH = "template-update"
BOT = {
    "GIT_AUTHOR_NAME": "template",
    "GIT_AUTHOR_EMAIL": "template@localhost",
    "GIT_COMMITTER_NAME": "template",
    "GIT_COMMITTER_EMAIL": "template@localhost",
}
NEWER = 2  # exit code of copier check-update
BY_HAND = "git switch -c update && copier update --defaults"


def update_branch_command(project: Project, args: list[str]) -> None:
    CommandParser(
        prog="lab update-branch",
        description="Makes the branch template-update with the template's newest release.",
    ).parse_args(args)
    os.chdir(project.root)
    print(update())


def update() -> str:
    """Makes the branch, and says what it brings.

    Raises:
        Failed: uncommitted files, or a command fails.
    """
    source, old = answer("_src_path"), answer("_commit")
    if not is_address(source) and not Path(source).expanduser().is_dir():
        return f"nothing to do: there is no template at {source}"
    if run("git", "status", "--porcelain").stdout:
        raise Failed("there are uncommitted files; commit them, or type: git stash")
    checked = run("copier", "check-update", "--quiet", allowed=(0, NEWER))
    if checked.returncode == 0:
        return f"nothing to do: {old} is the newest release of {source}"
    run("git", "switch", "--quiet", "--force-create", BRANCH)
    run("copier", "update", "--defaults", "--quiet")
    conflicts = run("git", "diff", "--name-only", "--diff-filter=U").stdout.split()
    run("git", "add", "--all")
    title = f"Update the template from {old} to {answer('_commit')}"
    text = request_text(conflicts)
    run("git", "commit", "--no-verify", "-qm", title, "-m", text)
    return f"{title}\n\n{text}"


def request_text(conflicts: list[str]) -> str:
    """What the owner of the project does with the update."""
    if not conflicts:
        return f"No file needs a decision. By hand the same is: {BY_HAND}"
    names = "\n".join(f"- {name}" for name in conflicts)
    return (
        "These files hold two versions of some lines, yours and the template's:\n\n"
        f"{names}\n\nChoose, and delete the lines of marks. By hand: {BY_HAND}"
    )


def answer(name: str) -> str:
    """A line of the answers file.

    Raises:
        Failed: there is no such line, or no file.
    """
    text = Path(ANSWERS).read_text(encoding="utf-8") if Path(ANSWERS).exists() else ""
    match = re.search(rf"^{name}: *(.+)$", text, re.MULTILINE)
    if match is None:
        raise Failed(f"{ANSWERS} has no {name}; run this at the top of a project")
    return match[1].strip("'\"")


def run(*command: str, allowed: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    """Runs a command; commits are the template's.

    Raises:
        Failed: it is not installed, or its exit code is none of `allowed`.
    """
    name = " ".join(command[:2])
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | BOT)
    except FileNotFoundError as error:
        raise Failed(
            f"{command[0]} is not installed. In the file of this job, install it before this step"
        ) from error
    if done.returncode not in allowed:
        raise Failed(f"{name} fails: {last_line(done)}. In a clone, type: {BY_HAND}")
    return done


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1].strip(" .") if lines else f"exit code {done.returncode}"
