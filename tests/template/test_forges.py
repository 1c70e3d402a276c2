"""What GitHub and GitLab run in a project: checks of each change, and a weekly request that brings a newer release."""

import os
import shutil
import subprocess
import sys

import copier
import pytest
import yaml
from projects import PROJECT
from release_history import FIRST, release
from repositories import IDENTITY, NO_SETTINGS_OF_THIS_MACHINE, commit, git, write

WORKFLOWS = sorted((PROJECT / ".github/workflows").glob("*.yml"))
CHECKS = ["make setup TORCH=cpu", "make check", "make test"]
UPDATE = "python3 tools/bootstrap.py update-branch"  # of labrig, in an environment that it makes


@pytest.fixture
def old(tmp_path):
    """A project of 0.1.0 that knows its template by an address, and the template with two releases."""
    write(tmp_path / "template", FIRST)
    release(tmp_path / "template", "0.1.0")
    address = f"git+file://{tmp_path}/template"
    copier.run_copy(address, tmp_path / "project", defaults=True, quiet=True)
    commit(tmp_path / "project", "Start")
    return tmp_path / "project"


def newer(old):
    template = old.parent / "template"
    write(template, {"template/Makefile": "all: more\n"})
    release(template, "0.2.0")


def update_branch(folder, path=f"{sys.prefix}/bin:{os.environ['PATH']}"):
    """`lab update-branch`, as the bootstrap of a weekly job starts it."""
    caches = {"COPIER_CACHE_DIR": str(folder.parent / "copier")}
    return subprocess.run(
        [sys.executable, "-m", "labrig", "update-branch"],
        cwd=folder,
        env=os.environ | IDENTITY | NO_SETTINGS_OF_THIS_MACHINE | caches | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.release
@pytest.mark.slow
def test_a_newer_release_comes_as_a_branch(old):
    done = update_branch(old)
    assert done.returncode == 0
    assert "0.1.0 is the newest release" in done.stdout
    assert git(old, "branch", "--list", "template-update") == ""
    newer(old)
    (old / "README.md").write_text("my thesis\n")
    commit(old, "mine")
    done = update_branch(old)
    assert (done.returncode, done.stderr) == (0, "")
    assert git(old, "log", "-1", "--format=%s", "template-update").endswith("from 0.1.0 to 0.2.0")
    assert "No file needs a decision" in git(old, "log", "-1", "--format=%b", "template-update")
    assert git(old, "show", "template-update:Makefile") == "all: more"
    assert git(old, "show", "template-update:README.md") == "my thesis"
    assert git(old, "log", "-1", "--format=%s", "main") == "mine"


@pytest.mark.release
@pytest.mark.slow
def test_files_in_two_versions_are_named(old):
    newer(old)
    (old / "Makefile").write_text("all: mine\n")
    commit(old, "mine")
    assert update_branch(old).returncode == 0
    assert "- Makefile\n" in git(old, "log", "-1", "--format=%b", "template-update")


@pytest.mark.slow
def test_what_keeps_it_from_an_update_is_one_line(old, tmp_path):
    newer(old)
    (old / "new.txt").write_text("")
    done = update_branch(old)
    assert done.returncode == 1
    assert done.stderr == "lab: there are uncommitted files; commit them, or type: git stash\n"
    (old / "new.txt").unlink()
    answers = old / ".copier-answers.yml"
    written = answers.read_text()
    answers.write_text(written.replace("git+file://", "/nowhere"))
    assert "there is no template at /nowhere" in update_branch(old).stdout
    answers.write_text(written.replace("_src_path: git+file://", "_src_path: git+file:///nowhere"))
    commit(old, "wrong")
    assert update_branch(old).stderr.startswith("lab: copier check-update fails: ")
    answers.unlink()
    assert update_branch(old).stderr == (
        "lab: .copier-answers.yml has no _src_path; run this at the top of a project\n"
    )
    assert update_branch(tmp_path).returncode == 2, "there is no project"


def test_a_missing_copier_is_named(old, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(shutil.which("git"))
    done = update_branch(old, path=f"{tmp_path}/bin")
    assert done.stderr.startswith("lab: copier is not installed. In the file of this job, ")


@pytest.mark.release
@pytest.mark.slow
def test_a_release_that_cannot_be_rendered_says_how_to_see_it(old):
    write(old.parent / "template", {"template/new.txt.jinja": "{% if %}"})
    release(old.parent / "template", "0.2.0")
    done = update_branch(old)
    assert done.returncode == 1
    assert done.stderr.startswith("lab: copier update fails: ")
    assert done.stderr.endswith("git switch -c update && copier update --defaults\n")


@pytest.mark.slow
def test_nothing_is_updated_where_git_cannot_make_the_branch(old):
    newer(old)
    (old / ".git/refs/heads/template-update.lock").touch()
    done = update_branch(old)
    assert done.returncode == 1
    assert done.stderr.startswith("lab: git switch fails: ")
    assert "_commit: 0.1.0\n" in (old / ".copier-answers.yml").read_text()


def test_both_forges_run_the_same_checks_with_a_limit_and_no_gpu():
    github, gitlab = (
        yaml.safe_load((PROJECT / name).read_text())
        for name in (".github/workflows/check.yml", ".gitlab/lab.yml")
    )
    steps = github["jobs"]["check"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == CHECKS
    assert gitlab["check"]["script"] == CHECKS
    assert github["jobs"]["check"]["timeout-minutes"] <= 15
    versions = {step["with"].get("python-version") for step in steps if "with" in step}
    assert gitlab["check"]["image"] == f"python:{(versions - {None}).pop()}"
    weekly = yaml.safe_load((PROJECT / ".github/workflows/update.yml").read_text())
    assert UPDATE in [step.get("run") for step in weekly["jobs"]["update"]["steps"]]
    assert UPDATE in gitlab["update"]["script"]
    assert yaml.safe_load((PROJECT / ".gitlab-ci.yml").read_text()) == {
        "include": [{"local": ".gitlab/lab.yml"}]
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_may_do_little(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert "concurrency" in workflow
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if "uses" in step:
                assert len(step["uses"].partition("@")[2]) == 40
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
