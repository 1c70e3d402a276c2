# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Updates the project to the template's newest release, on the branch template-update.

A weekly job of a forge runs it with nobody there to answer: python3 src/*/lab/hooks/update_branch.py
It needs copier and git, and no package of the project. Without a newer release there is no branch.
The message of the commit is the title and the text of the change request.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BRANCH = "template-update"
ANSWERS = Path(".copier-answers.yml")
BOT = ("-c", "user.name=template", "-c", "user.email=template@localhost")
NEWER = 2  # exit code of copier check-update


class UpdateError(Exception):
    """What keeps the update from being made, for the log of the job."""


def main() -> int:
    try:
        print(update())
    except UpdateError as error:
        print(f"update: {error}", file=sys.stderr)
        return 1
    return 0


def update() -> str:
    """Makes the branch, and says what it brings.

    Raises:
        UpdateError: no project here, uncommitted files, or copier refuses.
    """
    source, old = answer("_src_path"), answer("_commit")
    is_address = "://" in source or re.match(r"(gh:|gl:|git@)", source)
    if not is_address and not Path(source).is_dir():
        return f"nothing to do: there is no template at {source}"
    if run("git", "status", "--porcelain").stdout:
        raise UpdateError("there are uncommitted files; commit them, or type: git stash")
    checked = run("copier", "check-update", "--quiet")
    if checked.returncode == 0:
        return f"nothing to do: {old} is the newest release of {source}"
    if checked.returncode != NEWER:
        raise UpdateError(f"copier check-update fails: {last_line(checked)}")
    run("git", "switch", "--quiet", "--force-create", BRANCH)
    updated = run("copier", "update", "--defaults", "--quiet")
    if updated.returncode:
        raise UpdateError(f"copier update fails: {last_line(updated)}")
    conflicts = run("git", "diff", "--name-only", "--diff-filter=U").stdout.split()
    run("git", "add", "--all")
    title = f"Update the template from {old} to {answer('_commit')}"
    text = request_text(conflicts)
    committed = run("git", *BOT, "commit", "--no-verify", "-qm", title, "-m", text)
    if committed.returncode:
        raise UpdateError(f"git commit fails: {last_line(committed)}")
    return f"{title}\n\n{text}"


def request_text(conflicts: list[str]) -> str:
    """What the owner of the project does with the update."""
    commands = "git switch -c update && copier update --defaults"
    if not conflicts:
        return f"No file needs a decision. By hand the same is: {commands}"
    names = "\n".join(f"- {name}" for name in conflicts)
    return (
        "These files hold two versions of some lines, yours and the template's:\n\n"
        f"{names}\n\nChoose, and delete the lines of marks. By hand: {commands}"
    )


def answer(name: str) -> str:
    """A line of the answers file.

    Raises:
        UpdateError: there is no such line, or no file.
    """
    text = ANSWERS.read_text(encoding="utf-8") if ANSWERS.exists() else ""
    match = re.search(rf"^{name}: *(.+)$", text, re.MULTILINE)
    if match is None:
        raise UpdateError(f"{ANSWERS} has no {name}; run this at the top of a project")
    return match[1].strip("'\"")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command.

    Raises:
        UpdateError: it is not installed.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise UpdateError(f"{command[0]} is not installed") from error


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
