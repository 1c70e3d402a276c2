"""A project that no update can start from says so when it is made, and again at `make setup`."""

import shutil

import copier
import pytest
from labrig.update import origin
from rendering import copy_template
from repositories import commit, git

NEVER = "This project cannot be updated"


@pytest.fixture
def template(tmp_path):
    """A repository of the template, with everything committed."""
    folder = copy_template(tmp_path / "template")
    commit(folder, "The template")
    return folder


def make_project(template, folder, capfd):
    """What copier says when it makes a project."""
    copier.run_copy(str(template), folder, defaults=True, vcs_ref="HEAD")
    return capfd.readouterr().err


def test_from_a_committed_template(template, tmp_path, capfd):
    printed = make_project(template, tmp_path / "p", capfd)
    assert NEVER not in printed
    assert "make setup" in printed
    assert origin.update_problem(tmp_path / "p") == ""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Dirty template changes")
def test_from_a_template_with_changes_that_are_not_committed(template, tmp_path, capfd):
    (template / "template/notes.md").write_text("half done\n")
    printed = make_project(template, tmp_path / "p", capfd)
    assert f"{NEVER}: the template has changes that are not committed." in printed
    assert f"Commit them in {template}, delete the project" in printed
    problem = origin.update_problem(tmp_path / "p")
    assert "It had changes that were not committed" in problem

    # What the line says, done: updates arrive again
    commit(template, "Done")
    project = tmp_path / "p"
    old = next(line for line in answers(project).splitlines() if line.startswith("_commit"))
    new = git(template, "rev-parse", "HEAD")
    (project / origin.ANSWERS).write_text(answers(project).replace(old, f"_commit: {new}"))
    assert origin.update_problem(project) == ""
    commit(project, "Start")
    (template / "template/later.md").write_text("new\n")
    commit(template, "Later")
    copier.run_update(project, defaults=True, overwrite=True, quiet=True, vcs_ref="HEAD")
    assert (project / "later.md").read_text() == "new\n"


def test_from_a_directory_without_git(template, tmp_path, capfd):
    shutil.rmtree(template / ".git")
    printed = make_project(template, tmp_path / "p", capfd)
    assert f"{NEVER}: the template was read without git." in printed
    assert "the template came without git" in origin.update_problem(tmp_path / "p")


def answers(project):
    return (project / origin.ANSWERS).read_text(encoding="utf-8")


def test_other_reasons(tmp_path):
    assert "is missing" in origin.update_problem(tmp_path)
    path = tmp_path / origin.ANSWERS
    for source in (".", "../template"):
        path.write_text(f"_commit: 0.1.0\n_src_path: {source}\n")
        assert "is a relative path" in origin.update_problem(tmp_path)
    for source in ("gh:org/template", "https://example.org/t.git", "/of/another/machine"):
        path.write_text(f"_commit: 0.1.0\n_src_path: {source}\n")
        assert origin.update_problem(tmp_path) == ""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("gh:org/template", True),
        ("https://example.org/t.git", True),
        ("git+file:///srv/t", True),
        ("git@forge.example:org/t.git", True),
        ("alias:org/t.git", True),
        ("/srv/template", False),
        ("~/template", False),
        ("../a:b", False),
    ],
)
def test_an_address_is_no_path(source, expected):
    assert origin.is_address(source) is expected
