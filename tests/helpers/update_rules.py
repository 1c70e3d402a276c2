"""What must hold after every update, whatever the user did before."""

import difflib
import os
from functools import cache
from pathlib import Path

import copier
import jinja2
import pytest
from pathspec import PathSpec
from releases import LATE_SEED
from rendering import COPIER
from repositories import commit, git

ANSWERS = ".copier-answers.yml"
OPTIONS = {"defaults": True, "quiet": True, "unsafe": False, "overwrite": True}
SEEDS = PathSpec.from_lines("gitignore", [*COPIER["_skip_if_exists"], LATE_SEED])
MARKS = ("<<<<<<< ", "=======", ">>>>>>> ")


@pytest.fixture(scope="module", autouse=True)
def compile_each_text_once():
    """copier compiles the same patterns again for each path, which is most of its time here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jinja2.Environment, "from_string", cache(jinja2.Environment.from_string))
        yield


def render(template, tag, folder):
    """A fresh project of a release."""
    copier.run_copy(str(template), folder, vcs_ref=tag, **OPTIONS)
    return folder


def fresh_contents(template, tag, folder):
    """The contents of a fresh project of a release."""
    render(template, tag, folder)
    git(folder, "init", "-q")
    return contents(folder)


def update(folder, tag):
    copier.run_update(folder, vcs_ref=tag, **OPTIONS)


def solve(folder):
    """Keeps both versions of all lines, and commits, as a user may do after an update.

    Returns: the files in two versions.
    """
    names = git(folder, "diff", "--name-only", "--relative", "--diff-filter=U", "-z").split("\0")
    conflicts = {name for name in names if name}
    for name in conflicts:
        lines = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
        both = [line for line in lines if not line.startswith(MARKS)]
        (folder / name).write_text("".join(both), encoding="utf-8")
    commit_all(folder, "update")
    return conflicts


def commit_all(folder, message):
    """Commits everything in the repository around `folder`."""
    commit(Path(git(folder, "rev-parse", "--show-toplevel")), message)


def executables(folder):
    """The files that git records as executable."""
    entries = git(folder, "ls-files", "-s", "-z").split("\0")
    return {entry.partition("\t")[2] for entry in entries if entry.startswith("100755")}


def contents(folder):
    """Path -> bytes of every file that git would commit; of a link, where it leads."""
    names = git(folder, "ls-files", "-co", "--exclude-standard", "--deduplicate", "-z").split("\0")
    read = {}
    for name in names:
        path = folder / name
        if path.is_symlink():
            read[name] = os.readlink(path).encode()
        elif path.is_file():
            read[name] = path.read_bytes()
    return read


def broken_rules(before, after, old, new, edit):
    """What an update from `old` to `new` (fresh renders) did wrong to a project, as sentences.

    Args:
        before, after: contents of the project around the update.
        edit: what the user did (project_edits.Edit).
    """
    broken = [f"left behind: {name}" for name in after if name.endswith((".rej", ".orig"))]
    for name in sorted({*before, *after, *old, *new} - {ANSWERS}):
        broken += broken_rules_of(name, before, after, old, new, edit)
    return broken


def broken_rules_of(name, before, after, old, new, edit):
    """The same for one file."""
    was_deleted = name in old and name not in before
    if was_deleted:
        return [f"came back: {name}"] if name in after else []
    is_seed = SEEDS.match_file(name)
    is_edited = name in before and plain(before[name]) != plain(old.get(name))
    if is_edited and not is_seed and name in old:
        return broken_rules_of_edited(name, before, after, old, new, edit)
    if is_edited or is_seed:
        return [] if after.get(name) == before.get(name) else [f"the user's file changed: {name}"]
    if plain(after.get(name)) != plain(new.get(name)):
        return [f"not as in a fresh project: {name}"]
    return []


def broken_rules_of_edited(name, before, after, old, new, edit):
    """The same for a merged file, or one of the template's, that the user edited."""
    if name in edit.lost and name not in new:
        return [] if name not in after else [f"was to be lost: {name}"]
    if name not in after:
        return [f"lost: {name}"]
    lines = lines_of(after[name])
    has_marks = any(line.startswith(MARKS) for line in lines)
    return [
        *[f"lost in {name}: {line}" for line in added_lines(old[name], before[name]) - lines],
        *[
            f"did not arrive in {name}: {line}"
            for line in added_lines(old[name], new[name]) - lines
        ],
        *([f"in conflict: {name}"] if has_marks and name not in edit.conflicts else []),
    ]


def added_lines(old, new):
    """The lines that `new` has and `old` had not."""
    lines = difflib.ndiff(list_of_lines(old), list_of_lines(new))
    return {line[2:] for line in lines if line.startswith("+ ") and line[2:].strip()}


def lines_of(content):
    return set(list_of_lines(content))


def list_of_lines(content):
    return plain(content).decode("utf-8", "surrogateescape").split("\n")


def plain(content):
    """A file as git holds it: .gitattributes ends all lines alike."""
    return content if content is None else content.replace(b"\r\n", b"\n")
