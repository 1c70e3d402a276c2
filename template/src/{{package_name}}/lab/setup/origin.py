# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Whether updates can start from the version of the template that .copier-answers.yml names."""

import os
import re
import shutil

from .process import ROOT, say, succeeds

ANSWERS = ".copier-answers.yml"
END = "so `copier update` cannot work"


def say_why_not_updatable():
    """One line when no update can start from this project; nothing is fetched for it."""
    problem = update_problem()
    if problem:
        say(problem)


def update_problem():
    """Why no update can start from this project; "" when one can, or when only a network would tell."""
    path = ROOT / ANSWERS
    if not path.exists():
        return f"{ANSWERS} is missing, {END}. Bring it back: git checkout HEAD -- {ANSWERS}"
    text = path.read_text(encoding="utf-8")
    commit = answer(text, "_commit")
    source = os.path.expanduser(answer(text, "_src_path"))
    if not commit:
        return f"the template was read without git, {END}. Make the project again from a git repository"
    if not os.path.isdir(source):  # an address, or a directory of another machine
        return ""
    if not os.path.isabs(source):
        return f"_src_path of {ANSWERS} is a relative path, {END}. Write the whole path: {os.path.abspath(source)}"
    if not shutil.which("git") or succeeds(
        "git", "-C", source, "cat-file", "-e", commit + "^{commit}"
    ):
        return ""
    return (
        f"{source} has no commit {commit}: it had changes that were not committed when this project was made, {END}.\n"
        f"Commit them there. Write the new commit behind _commit: in {ANSWERS}, and commit that here"
    )


def answer(text, name):
    """An answer of .copier-answers.yml that copier wrote itself, or ""; yaml is not installed yet."""
    line = re.search(f"^{name}: *(.*)$", text, re.MULTILINE)
    return line[1].strip().strip("'\"") if line else ""
