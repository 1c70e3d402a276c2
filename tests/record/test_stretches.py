"""Which attempts made the result of a run, and how each is repeated."""

import json
from pathlib import Path

import pytest
from labrig import env
from labrig.cluster.submit.reproduce import only_stretch
from labrig.errors import LabError
from labrig.project import Paths, Project
from labrig.record.read.run import Run, note_beginning, stretches_of
from labrig.record.reproduce.command import config_here, variables_of, working_directory
from omegaconf import OmegaConf
from projects import SOURCE
from records import write_record

CODE = {"commit": "c" * 40, "prefix": "research/"}
FINISHED = {"status": "finished", "global_step": 20}
INTERRUPTED = {"status": "interrupted"}
KILLED = {}


@pytest.fixture
def run(tmp_path):
    """A run without attempts."""
    directory = tmp_path / "runs/baseline/20260101-000000-aaaaaa"
    directory.mkdir(parents=True)
    write_record(directory, code=CODE)
    (directory / "config.yaml").write_text("record:\n  env_vars: [MY_*]\n")
    return Run.open(directory)


def add_attempt(run, beginning, end, **start):
    """The next attempt; `beginning` is None for one whose training never began."""
    n = len(list(run.dir.glob("attempts/*"))) + 1
    folder = run.dir / "attempts" / str(n)
    folder.mkdir(parents=True)
    (folder / "start.json").write_text(json.dumps({"attempt": n, "started_unix_s": n} | start))
    if end:
        (folder / "end.json").write_text(json.dumps(end))
    if beginning is not None:
        note_beginning(run.dir, n, beginning)


def parts(run):
    return [(stretch.attempt.n, stretch.stop_step) for stretch in stretches_of(run)]


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([(0, FINISHED)], [(1, None)]),
        ([(None, {"status": "failed"})], [(1, None)]),
        ([(0, INTERRUPTED), (8, FINISHED)], [(1, 8), (2, None)]),
        ([(0, FINISHED), (20, FINISHED)], [(1, None), (2, None)]),
        ([(0, FINISHED), (10, FINISHED)], [(1, 10), (2, None)]),  # from an earlier checkpoint
        ([(0, KILLED), (8, KILLED), (8, FINISHED)], [(1, 8), (3, None)]),
        ([(0, KILLED), (8, KILLED), (4, FINISHED)], [(1, 4), (3, None)]),
        ([(0, KILLED), (0, INTERRUPTED), (5, FINISHED)], [(2, 5), (3, None)]),
        ([(0, KILLED), (None, {"status": "failed"}), (5, FINISHED)], [(1, 5), (3, None)]),
        ([(0, FINISHED), (20, {"status": "failed"})], [(1, None)]),
        ([(0, KILLED), (5, INTERRUPTED)], [(1, 5), (2, None)]),
    ],
)
def test_the_stretches_that_made_the_result(run, attempts, expected):
    for beginning, end in attempts:
        add_attempt(run, beginning, end)
    assert parts(run) == expected


def test_a_stretch_has_the_code_and_settings_of_its_attempt(run):
    add_attempt(run, 0, FINISHED, code={"same": True, "commit": CODE["commit"]})
    add_attempt(run, 20, FINISHED, code={"commit": "d" * 40}, overrides=["trainer.max_epochs=4"])
    second = run.dir / "attempts/2"
    (second / "config.yaml").touch()
    stretches = stretches_of(run)
    assert [stretch.code["commit"][0] for stretch in stretches] == ["c", "d"]
    assert [stretch.bundles for stretch in stretches] == [run.dir, second]
    assert [stretch.config.parent for stretch in stretches] == [run.dir, second]
    assert [stretch.overrides for stretch in stretches] == [[], ["trainer.max_epochs=4"]]


def test_variables_are_as_they_were(run, tmp_path, monkeypatch):
    recorded = {"PYTHONHASHSEED": "3", "MY_P": "0.5", "CUDA_VISIBLE_DEVICES": "7"}
    add_attempt(run, 0, INTERRUPTED, variables=recorded, threads=2)
    add_attempt(run, 5, FINISHED)
    for name in ("CUDA_VISIBLE_DEVICES", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    for name in ("PYTHONHASHSEED", "MY_P", "MY_OTHER", env.RUN_DIR, env.STOP_STEP):
        monkeypatch.setenv(name, "here")
    stretch = stretches_of(run)[0]
    variables = variables_of(Project(tmp_path, "myproj"), stretch, tmp_path / "code")
    assert {"PYTHONHASHSEED": "3", "MY_P": "0.5", env.STOP_STEP: "5"}.items() <= variables.items()
    assert variables["OMP_NUM_THREADS"] == "2"
    assert not {"MY_OTHER", "CUDA_VISIBLE_DEVICES", env.RUN_DIR} & variables.keys()
    code = tmp_path / "code"
    assert variables["PYTHONPATH"] == f"{code}/research/src:{code}/labrig-frozen"


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [
        ("/old/project", "research"),
        ("/old/project/sub/ignored", "research/sub/ignored"),
        ("/old", "."),
        ("/elsewhere", "research"),
        (None, "research"),
    ],
)
def test_the_directory_of_the_start_in_the_frozen_tree(run, tmp_path, cwd, expected):
    start = {"imported_from": "/old/project/src/myproj"}
    add_attempt(run, 0, FINISHED, **start | ({"cwd": cwd} if cwd else {}))
    (tmp_path / "code/research").mkdir(parents=True)
    directory = working_directory(stretches_of(run)[0], tmp_path / "code")
    assert directory == (tmp_path / "code" / expected)
    assert directory.is_dir()


def test_one_job_repeats_what_was_only_interrupted(run):
    project = {"imported_from": "/old/src/myproj", "cwd": "/old"}
    add_attempt(run, 0, INTERRUPTED, **project)
    add_attempt(run, 8, FINISHED, **project)
    assert only_stretch(run).attempt.n == 1
    add_attempt(run, 20, FINISHED, **project)
    with pytest.raises(LabError, match="was resumed with other code or settings"):
        only_stretch(run)


def test_a_job_does_not_begin_in_a_directory_of_the_project(run):
    add_attempt(run, 0, FINISHED, imported_from="/old/src/myproj", cwd="/old/sub")
    with pytest.raises(LabError, match="was started in /old/sub"):
        only_stretch(run)


@pytest.mark.parametrize(
    "start",
    [
        {"imported_from": "/old/src/myproj"},
        {"imported_from": "/node/code/src/myproj", "variables": {env.PROJECT: "/old"}},
    ],
)
def test_paths_of_the_old_project_become_paths_of_this_one(run, tmp_path, monkeypatch, start):
    add_attempt(run, 0, FINISHED, **start)
    here = Project(tmp_path / "new", "myproj")
    paths = Paths(tmp_path / "r", None, tmp_path / "s", None, [tmp_path / "d", tmp_path / "e"])
    monkeypatch.setattr(Project, "paths", paths)
    old = {
        "paths": {"runs": "/old/runs", "checkpoints": None, "scratch": "/big", "data": ["/old/d"]},
        "data": {"search": ["/old/d"], "lr": 1e-5, "name": "1e-5"},
        "callbacks": {"own": {"dirpath": "/old/runs/own", "cache": "/big/c", "weights": "/old/w"}},
        "note": "/older/runs and ${oc.env:TOKEN}",
    }
    (run.dir / "config.yaml").write_text(OmegaConf.to_yaml(old))
    new = OmegaConf.create(config_here(here, run, run.dir / "config.yaml"))
    new = OmegaConf.to_container(new)
    assert new["paths"] == {
        "runs": str(paths.runs),
        "checkpoints": None,
        "scratch": str(paths.scratch),
        "data": [str(path) for path in paths.data],
    }
    assert new["data"] == old["data"] | {"search": new["paths"]["data"]}
    own = {"dirpath": f"{paths.runs}/own", "cache": f"{paths.scratch}/c"}
    assert new["callbacks"]["own"] == own | {"weights": f"{tmp_path}/new/w"}
    assert new["note"] == old["note"]


def test_a_configuration_stays_as_it_is_in_its_own_project(run):
    here = Project(Path(SOURCE).parent, "myproj")
    add_attempt(run, 0, FINISHED, imported_from=str(SOURCE / "myproj"))
    text = (
        "paths:\n  runs: {}\n  checkpoints: null\n  data:\n  - {}\n  scratch: null\nlr: 1.0e-05\n"
    )
    text = text.format(here.paths.runs, here.paths.data[0])
    (run.dir / "config.yaml").write_text(text)
    assert config_here(here, run, run.dir / "config.yaml") == text
