"""Runs that were evaluated on other samples are not compared: other data, a fold, a part of the split."""

import json

import pytest
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.read.evaluations import alike
from labrig.record.read.find import find_run
from labrig.record.read.rows import read_rows
from labrig.record.write.begin import begin_attempt
from labrig.report.gather import gather_sets
from labrig.trials.numbers import number_trials
from labrig.trials.result import result_table
from record_package import call, create, make_project

FILE = {"sha256": "a" * 64, "path": "/data/cells.h5"}
FOLD = {**FILE, "rows": {"val": "f" * 64, "train": "e" * 64}}
OTHER_FILE = {**FILE, "sha256": "b" * 64}
NO_CODE = {"dirty": None, "reason": "a test"}  # git takes most of the time
SETTINGS = """\
seed: {seed}
checkpoint: {{monitor: val/iou, mode: max}}
data: {{fold: {fold}, batch_size: {batch_size}}}
trainer: {{limit_val_batches: {limit}, overfit_batches: {overfit}}}
"""


def train_on(project, data, iou, seed=0, trial="baseline", **changed):
    """A finished run that read these data."""
    usual = {"fold": "null", "limit": 1.0, "overfit": 0, "batch_size": 64}
    settings = SETTINGS.format(seed=seed, **usual | changed)
    run = create(project, trial=trial, seed=seed, config_yaml=settings, overrides=[], code=NO_CODE)
    attempt = begin_attempt(run, project, **({"data": data} if data else {}))
    MetricsLog(run.dir, attempt.n).append(10, 0, {"val/iou": iou, "val/loss": 1 - iou})
    (run.checkpoints / "best.ckpt").write_bytes(b"weights")
    attempt.end("finished")
    return run


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


def rows_of(project):
    return read_rows([project.root / "runs"])


OTHERS = {
    "a fold": {"data": FOLD},
    "a fold that a setting chooses": {"data": FILE, "fold": 0},
    "a part of the split": {"data": FILE, "limit": 0.1},
    "one batch": {"data": FILE, "limit": 1},
    "the first batches, to overfit": {"data": FILE, "overfit": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS)
def test_the_best_is_of_the_whole_split(project, capsys, other):
    """new-user 13: @best:val/iou took a fold."""
    train_on(project, FILE, 0.5)
    best = train_on(project, FILE, 0.6, seed=1)
    fold = train_on(project, iou=0.9, **OTHERS[other])
    for word in ("@best", "@best:val/iou", "@best:val/iou:baseline:max", "@best:val/loss"):
        assert find_run([project.root / "runs"], word).id == best.id
    assert "left aside: 1 run on other samples of it" in capsys.readouterr().err
    call(project, "runs list", "--sort", "val/iou", "--json")
    listed = capsys.readouterr()
    assert [row["metrics"]["val/iou"] for row in json.loads(listed.out)] == [0.6, 0.5, 0.9]
    assert "below the others: 1 run on other samples" in listed.err
    assert fold.id == json.loads(listed.out)[-1]["run_id"]


def test_one_batch_of_another_size_is_another_part(project):
    """One batch of 4 samples with all of them right stood before one of 128."""
    for seed, (limit, batch_size) in enumerate([(1, 4), (1, 128), (1, 4), (1.0, 4), (1.0, 128)]):
        train_on(project, FILE, 0.5, seed=seed, limit=limit, batch_size=batch_size)
    rows = rows_of(project)
    sizes = [row["settings"]["data"]["batch_size"] for row in alike(rows, "val/iou").rows]
    assert sorted(sizes) == [4, 128]  # of all samples, whose batches do not matter
    limits = [row["settings"]["trainer"]["limit_val_batches"] for row in rows]
    parts = [row for row, limit in zip(rows, limits, strict=True) if isinstance(limit, int)]
    assert len(alike(parts, "val/iou").rows) == 2
    assert len(alike(rows, "test/iou").rows) == 5


def test_the_data_of_the_newest_run_are_those_one_compares_on(project, capsys):
    train_on(project, FILE, 0.9)
    train_on(project, FILE, 0.8, seed=1)
    best = train_on(project, OTHER_FILE, 0.5)
    assert find_run([project.root / "runs"], "@best").id == best.id
    assert "left aside: 2 runs on other data" in capsys.readouterr().err


def test_folds_compare_where_there_is_nothing_else(project):
    """Of several folds the one that most runs have; equal ones are all compared."""
    for seed, iou in enumerate((0.7, 0.6)):
        train_on(project, FOLD, iou, seed=seed)
    train_on(project, {**FILE, "rows": {"val": "c" * 64}}, 0.9)
    compared = alike(rows_of(project), "val/iou")
    assert sorted(row["metrics"]["val/iou"] for row in compared.rows) == [0.6, 0.7]
    # of the test split all have the same samples
    assert len(alike(rows_of(project), "test/iou").rows) == 3


def test_runs_whose_data_nobody_recorded_compare_with_each_other(project):
    for seed in range(2):
        train_on(project, None, 0.5, seed=seed)
    assert alike(rows_of(project), "val/iou").remark == ""


def test_the_numbers_of_trials_are_of_the_same_samples(project):
    train_on(project, FILE, 0.5)
    train_on(project, FILE, 0.6, seed=1)
    train_on(project, FOLD, 0.9)
    train_on(project, OTHER_FILE, 0.99, trial="wide")
    train_on(project, FILE, 0.4, trial="wide", seed=1)
    train_on(project, FILE, 0.3, trial="wide", seed=2)
    numbers = number_trials(project, rows_of(project), ["baseline", "wide"])
    assert (numbers["baseline"].best, numbers["wide"].best) == (0.6, 0.4)
    assert numbers["baseline"].mean == pytest.approx(0.55)
    assert numbers["baseline"].aside == "left aside: 1 run on other samples of it"
    assert numbers["wide"].aside == "left aside: 1 run on other data"
    table = result_table(project, "baseline")
    assert "0.9" not in table.replace("0.95", "")
    assert "Left aside: 1 run on other samples of it." in table


def test_a_trial_on_data_of_its_own_is_told(project):
    train_on(project, OTHER_FILE, 0.99, trial="wide")
    train_on(project, FILE, 0.5)
    numbers = number_trials(project, rows_of(project), ["baseline", "wide"])
    assert numbers["wide"].best == 0.99
    assert numbers["wide"].aside == "on other data or samples than other trials"
    assert numbers["baseline"].aside == ""


def test_prune_keeps_the_best_of_each_data_set(project, capsys):
    kept = [train_on(project, FILE, 0.5), train_on(project, FOLD, 0.9)]
    deleted = [train_on(project, FILE, 0.4, seed=1), train_on(project, FOLD, 0.8, seed=1)]
    call(project, "runs prune", "--records", "status=finished", "--keep-best", "1")
    lines = capsys.readouterr().out.splitlines()
    said = "\n".join(line for line in lines if line.startswith("would delete"))
    assert all(run.id in said for run in deleted)
    assert not any(run.id in said for run in kept)


def test_the_page_compares_the_runs_of_one_set(project):
    train_on(project, FILE, 0.5)
    train_on(project, FOLD, 0.9)
    train_on(project, FILE, 0.6, seed=1)
    rows = rows_of(project)
    assert gather_sets(rows, "val") == [0, 1, 0]
    assert gather_sets(rows, "test") == [0, 0, 0]


@pytest.mark.parametrize(
    "data", [{"sha256": ["a"]}, {"rows": ["val"]}, {"sha256": {}, "rows": {"val": [1]}}, {}]
)
def test_a_damaged_record_of_the_data_hides_no_run(project, data):
    run = train_on(project, FILE, 0.5)
    train_on(project, FILE, 0.6, seed=1)
    summary = json.loads((run.dir / "summary.json").read_text())
    (run.dir / "summary.json").write_text(json.dumps(summary | {"data": data}))
    assert len(rows_of(project)) == 2
    compared = alike(rows_of(project), "val/iou")
    assert len(compared.rows) + len(compared.other_data) + len(compared.other_samples) == 2
