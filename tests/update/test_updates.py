"""Every usual edit × six releases, one by one and at once × a repository of its own and a directory of a larger one.

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
LAYOUTS = ("plain", "larger")
PACES = ("at once", "one by one")


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return make_history(tmp_path_factory.mktemp("history") / "template")


@pytest.fixture(scope="module")
def fresh(history, tmp_path_factory):
    """tag -> the contents of a new project of that release."""
    folder = tmp_path_factory.mktemp("fresh")
    return {tag: fresh_contents(history, tag, folder / tag / "myproj") for tag in tags()}


@pytest.fixture
def project(history, tmp_path, request):
    """A new project of the first release, in a repository of its own or in a larger one."""
    folder = render(history, FIRST, tmp_path / "work" / "myproj")
    if request.param == "larger":
        write(folder.parent, {"paper.tex": "Mine.\n"})
    commit(folder if request.param == "plain" else folder.parent, "start")
    return folder


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("project", LAYOUTS, indirect=True)
@pytest.mark.parametrize("name", EDITS)
def test_every_edit_survives_every_update(name, project, pace, fresh):
    edit = EDITS[name]
    edit.apply(project)
    git(project, "add", "-A", git(project, "rev-parse", "--show-toplevel"))
    git(project, "commit", "-q", "--allow-empty", "-m", "my work")
    conflicts = set()
    steps = [(FIRST, LAST)] if pace == "at once" else list(pairwise(tags()))
    for old, new in steps:
        before = contents(project)
        modes = executables(project)
        update(project, new)
        after = contents(project)
        assert broken_rules(before, after, fresh[old], fresh[new], edit) == []
        conflicts |= solve(project)
        assert modes - set(edit.lost) <= executables(project)
        assert f"_commit: {new}\n" in (project / ".copier-answers.yml").read_text()
    assert conflicts == edit.conflicts
