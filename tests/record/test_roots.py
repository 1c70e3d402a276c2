"""Runs are found wherever they lie: in today's paths.runs, in another site's, or where they were moved to."""

import json
import shutil

import pytest
from labrig import errors
from labrig.project import Project
from labrig.record.read.find import find_run
from labrig.record.read.run import FILE, run_roots
from labrig.record.write.create import create_run
from record_package import PACKAGE, call, create, make_project, request
from repositories import write


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project that has its own configuration."""
    own_source = property(lambda self: self.root / "src" / PACKAGE)
    monkeypatch.setattr(Project, "source", own_source)
    project = make_project(tmp_path / "project")
    write(project.root, {f"src/{PACKAGE}/conf/config.yaml": ""})
    return project


def create_in(project, root):
    return create_run(project, root, request())


def listed(project, capsys):
    capsys.readouterr()
    call(project, "runs list", "--json")
    return [row["run_id"] for row in json.loads(capsys.readouterr().out)]


def choose_root(project, root):
    """The project with paths.runs in its configuration."""
    write(project.root, {f"src/{PACKAGE}/conf/config.yaml": f"paths:\n  runs: {root}\n"})
    return Project(project.root, PACKAGE)


@pytest.mark.release
@pytest.mark.slow
def test_a_run_in_another_root_is_listed_and_is_the_last(project, tmp_path, capsys):
    here = create(project)
    work = tmp_path / "work" / "runs"
    there = create_in(project, work)
    create_in(project, work)
    assert (project.root / FILE).read_text() == f"{work}\n"
    ids = listed(project, capsys)
    assert ids[1:] == [there.id, here.id]
    assert find_run(run_roots(project), "@last").id == ids[0]
    assert find_run(run_roots(project), there.id).dir == there.dir


@pytest.mark.release
@pytest.mark.slow
def test_runs_stay_in_sight_when_the_root_changes(project, tmp_path, capsys):
    first = create(project)
    there = choose_root(project, tmp_path / "a")
    second = create_in(there, there.paths.runs)
    later = choose_root(project, tmp_path / "b")
    assert listed(later, capsys) == [second.id, first.id]


@pytest.mark.release
@pytest.mark.slow
def test_a_root_is_listed_once_under_all_its_names(project, tmp_path, capsys):
    run = create(project)
    (tmp_path / "link").symlink_to(project.root / "runs")
    linked = choose_root(project, tmp_path / "link")
    assert listed(linked, capsys) == [run.id]


@pytest.mark.release
@pytest.mark.slow
def test_a_root_that_is_gone_is_named_until_its_line_is_changed(project, tmp_path, capsys):
    here = create(project)
    there = create_in(project, tmp_path / "old")
    shutil.move(tmp_path / "old", tmp_path / "new")
    call(project, "runs list", "--json")
    output = capsys.readouterr()
    assert [row["run_id"] for row in json.loads(output.out)] == [here.id]
    assert f"lab: {tmp_path}/old has runs and is not there now" in output.err
    assert f"its line in {project.root}/runs/.roots" in output.err
    (project.root / FILE).write_text(f"{tmp_path}/new\n")
    assert listed(project, capsys) == [there.id, here.id]


@pytest.mark.release
@pytest.mark.slow
def test_a_copy_in_another_root_is_noticed(project, tmp_path, capsys):
    run = create(project)
    create_in(project, tmp_path / "other")
    shutil.copytree(run.dir, tmp_path / "other/baseline" / run.id)
    with pytest.raises(errors.LabError, match="lies in 2 directories, so one is a copy"):
        find_run(run_roots(project), run.id)


def test_a_variable_leads_to_its_disk(project, monkeypatch, tmp_path):
    monkeypatch.setenv("WORK", str(tmp_path / "disk"))
    assert choose_root(project, "$WORK/runs").paths.runs == tmp_path / "disk/runs"


def test_a_variable_that_is_not_set_leads_to_runs_in_the_project(project, monkeypatch, capsys):
    monkeypatch.delenv("WORK", raising=False)
    elsewhere = choose_root(project, "$WORK/runs")
    assert elsewhere.paths.runs == project.root / "runs"
    assert "paths.runs is $WORK/runs, and the variable is not set here" in capsys.readouterr().err
