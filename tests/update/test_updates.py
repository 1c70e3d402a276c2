"""Every usual edit through six releases at once; what ends in a choice or a loss, also one by one.

`make test-updates` runs it, in memory and on all cores; tests/update/test_update.py has a thin slice.
"""

from itertools import pairwise

import pytest
from project_edits import EDITS
from releases import FIRST, LAST, make_history, tags
from repositories import commit, git, write
from update_rules import (
    broken_rules,
    compile_each_text_once,  # noqa: F401
    contents,
    executables,
    fresh_contents,
    render,
    solve,
    update,
)

pytestmark = pytest.mark.updates
# With these an update asks, deletes, or has much to merge.
HARD = ["a_large_life", *(name for name, edit in EDITS.items() if edit.conflicts or edit.lost)]


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return make_history(tmp_path_factory.mktemp("history") / "template")


@pytest.fixture(scope="module")
def fresh(history, tmp_path_factory):
    """tag -> the contents of a new project of that release."""
    folder = tmp_path_factory.mktemp("fresh")
    return {tag: fresh_contents(history, tag, folder / tag / "myproj") for tag in tags()}


@pytest.fixture
def project(history, tmp_path):
    """A new project of the first release, in no repository yet."""
    return render(history, FIRST, tmp_path / "work" / "myproj")


def commit_edit(folder, repository, edit):
    """The project as it was made is committed to the repository, then the edit."""
    commit(repository, "start")
    edit.apply(folder)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "--allow-empty", "-m", "my work")


def update_and_check(folder, edit, fresh, old, new):
    """An update from `old` to `new`, and its conflicts solved. Returns: the files in conflict."""
    before = contents(folder)
    modes = executables(folder)
    update(folder, new)
    assert broken_rules(before, contents(folder), fresh[old], fresh[new], edit) == []
    conflicts = solve(folder)
    assert modes - set(edit.lost) <= executables(folder)
    assert f"_commit: {new}\n" in (folder / ".copier-answers.yml").read_text()
    return conflicts


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_survives_six_releases_at_once(name, project, fresh):
    edit = EDITS[name]
    commit_edit(project, project, edit)
    assert update_and_check(project, edit, fresh, FIRST, LAST) == edit.conflicts


@pytest.mark.parametrize("layout", ["plain", "larger"])
@pytest.mark.parametrize("name", HARD)
def test_a_hard_one_survives_six_releases_one_by_one(name, project, fresh, layout):
    """In a repository of its own, and in a directory of a larger one."""
    edit = EDITS[name]
    repository = project if layout == "plain" else project.parent
    if layout == "larger":
        write(repository, {"paper.tex": "Mine.\n"})
    commit_edit(project, repository, edit)
    conflicts = set()
    for old, new in pairwise(tags()):
        conflicts |= update_and_check(project, edit, fresh, old, new)
    assert conflicts == edit.conflicts
