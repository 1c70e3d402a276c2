"""Settings in lists: shown where they differ, filtered by, and averaged over seeds."""

import csv
import io
import json
import subprocess
import sys

import pytest
from labrig import errors
from labrig.machine.text_formats import format_mean
from labrig.record.files.atomic import write_file
from labrig.record.read.find import find_run
from labrig.record.read.rows import read_row
from projects import SOURCE
from record_package import call, make_project, train

CONFIG = """
seed: {seed}
trial: {trial}
optimizer:
  _target_: torch.optim.{optimizer}
  lr: {lr}
  betas: [0.9, 0.999]
data:
  seed: {seed}
  workers: null
trainer:
  max_epochs: 20
  fast: true
log:
  every_n_steps: {log}
paths:
  runs: /somewhere/{seed}
"""


def config(seed=0, lr=0.001, trial="baseline", optimizer="AdamW", log=50):
    return CONFIG.format(seed=seed, lr=lr, trial=trial, optimizer=optimizer, log=log)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Two learning rates with seeds, and a run of another trial. Shared: do not change it."""
    project = make_project(tmp_path_factory.mktemp("settings") / "project")
    for lr, seed, accuracy, overrides in (
        (0.001, 0, 0.90, []),
        (0.001, 1, 0.94, ["optimizer.lr=1e-3", "seed=1"]),
        (0.003, 0, 0.70, ["optimizer.lr=3e-3"]),
        (0.003, 1, 0.80, ["optimizer.lr=3e-3", "seed=1"]),
    ):
        metrics = {"val/loss": 1 - accuracy, "test/acc": accuracy}
        train(
            project,
            config_yaml=config(seed, lr, log=50 + seed),
            overrides=overrides,
            metrics=metrics,
        )
    metrics = {"val/loss": 0.01, "test/acc": float("nan")}
    train(
        project,
        trial="wide",
        config_yaml=config(2, trial="wide", optimizer="SGD"),
        metrics=metrics,
    )
    return project


def listed(project, capsys, *words):
    call(project, "runs list", *words, "--json")
    return json.loads(capsys.readouterr().out)


def test_the_settings_that_differ_are_columns(project, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    call(project, "runs list")
    head, *lines = capsys.readouterr().out.splitlines()
    # the seed last; data.seed says the same, and log.* and paths.* change no number
    names = ["run", "status", "trial", "val/loss", "test/acc", "lr", "seed", "optimizer"]
    assert head.split() == names
    assert lines[0].split()[2:] == ["wide", "0.01", "nan", "0.001", "2", "SGD"]
    assert lines[1].split()[2:] == ["baseline", "0.2", "0.8", "0.003", "1", "AdamW"]
    call(project, "runs list", "seed=1", "trial=baseline")
    assert capsys.readouterr().out.split()[:6] == [*names[:5], "lr"]


@pytest.mark.parametrize(
    ("filters", "n"),
    [
        (["optimizer.lr=1e-3"], 3),
        (["optimizer.lr=0.001", "seed=1"], 1),
        (["optimizer.lr=1e-3,3e-3", "trial=baseline"], 4),
        (["optimizer.lr!=1e-3"], 2),
        (["lr=1e-3"], 3),
        (["optimizer=SGD"], 1),
        (["optimizer=sgd"], 1),
        (["max_epochs=20"], 5),
        (["optimizer.lr>=2e-3"], 2),
        (["optimizer._target_=SGD"], 1),
        (["optimizer._target_=torch.*"], 5),
        (["optimizer.betas=[0.9, 0.999]"], 5),
        (["trainer.fast=True"], 5),
        (["trainer.fast=1"], 0),
        (["data.workers=none"], 5),
        (["paths.runs=/somewhere/2"], 1),
        (["test/acc=nan"], 1),
        (["since=7d"], 5),
        (["since=12h", "before=2100-01"], 5),
        (["before=2w"], 0),
    ],
)
def test_filters(project, capsys, filters, n):
    assert len(listed(project, capsys, *filters)) == n


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["trainer=20"], "is a section. Its settings: trainer.max_epochs, trainer.fast"),
        (["lrr=1"], "no run has a metric or setting 'lrr'"),
        (["trainer.max_epoch=20"], "did you mean: trainer.max_epochs"),
        (["optimizer.lr<fast"], "< compares numbers; write one, not 'fast'"),
        (["since=lastweek"], "'lastweek' is no time. Write 12h, 7d or 2w"),
        (["since=7m"], "no time"),
        (["--columns", "optimizer.lrr"], "did you mean: optimizer.lr"),
        (["--sort", "optimizer.lrr"], "did you mean: optimizer.lr"),
    ],
)
def test_mistakes_name_the_choices(project, words, advice):
    with pytest.raises(errors.LabError, match=advice):
        call(project, "runs list", *words)


def test_options_and_filters_in_any_order(project, capsys):
    rows = listed(project, capsys, "val/loss>0", "--sort", "optimizer.lr", "since=2026-01-01")
    assert [row["settings"]["optimizer.lr"] for row in rows] == [0.001] * 3 + [0.003] * 2
    call(project, "runs prune", "status=failed", "--keep-best", "1", "since=7d")
    assert "0 B would be freed" in capsys.readouterr().out


def test_columns_that_are_asked_for(project, capsys):
    call(project, "runs list", "--columns", "data.workers,test/acc,who,optimizer.betas", "seed=2")
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[3:] == ["data.workers", "test/acc", "who", "optimizer.betas"]
    assert line.split()[3:5] == ["null", "nan"]
    assert line.split()[-1] == "[0.9,0.999]"
    (row,) = listed(project, capsys, "seed=2", "--columns", "data.workers,optimizer.lr")
    assert row["settings"] == {"data.workers": None, "optimizer.lr": 0.001}
    call(project, "runs list", "--csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["optimizer.lr"] for row in rows] == ["0.001", "0.003", "0.003", "0.001", "0.001"]


def test_show_says_which_point_of_a_sweep_a_run_is(project, capsys):
    (row,) = listed(project, capsys, "optimizer.lr=3e-3", "seed=1")
    call(project, "runs show", row["run_id"])
    assert "  settings    optimizer.lr=3e-3 seed=1\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_resumed_run_has_the_settings_of_its_last_attempt(tmp_path):
    run = train(make_project(tmp_path / "project"), config_yaml=config())
    write_file(run.dir / "attempts/1/config.yaml", config().replace("epochs: 20", "epochs: 40"))
    (run.dir / "summary.json").unlink()
    assert read_row(str(run.dir))["settings"]["trainer"]["max_epochs"] == 40


def test_the_best_run_may_be_limited_to_a_trial_and_its_last_value_counts(project, capsys):
    runs = project.root / "runs"
    assert find_run([runs], "@best:val/loss").trial == "wide"
    said = capsys.readouterr().err
    assert "best last value of val/loss in 5 finished runs: 0.01" in said
    best = find_run([runs], "@best:val/loss:baseline")
    assert best.record["settings"]["seed"] == 1
    assert "in 4 finished runs: 0.06" in capsys.readouterr().err
    with pytest.raises(errors.LabError, match="did you mean: baseline"):
        find_run([runs], "@best:val/loss:basline")


@pytest.mark.slow
def test_a_point_that_was_not_pruned_is_a_run_like_any_other(tmp_path, capsys):
    """The callback that could have stopped it is no setting, and an empty section is none."""
    project = make_project(tmp_path / "project")
    pruning = "  sweep_pruning: {_target_: labrig.callbacks.Pruning}"
    for seed, callbacks, loss in ((0, "callbacks: {}", 0.5), (1, f"callbacks:\n{pruning}", 0.3)):
        train(project, config_yaml=config(seed) + callbacks + "\n", metrics={"val/loss": loss})
    call(project, "runs list")
    head = capsys.readouterr().out.splitlines()[0]
    assert head.split() == ["run", "status", "trial", "val/loss", "seed"]
    call(project, "runs table", "--by", "optimizer.lr")
    output = capsys.readouterr()
    assert output.out.splitlines()[1].split() == ["0.001", "0.40", "±", "0.14", "2"]
    assert "also differ" not in output.err


def test_table_of_means_over_seeds(project, capsys):
    call(project, "runs table", "--by", "optimizer.lr", "trial=baseline")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["optimizer.lr", "test/acc", "n"],
        ["0.001", "0.920", "±", "0.028", "2"],  # the default and the typed one are one group
        ["0.003", "0.750", "±", "0.071", "2"],
    ]
    call(project, "runs table", "trial=baseline", "--metric", "val/loss", "--by", "seed", "--md")
    output = capsys.readouterr()
    assert "| seed | optimizer.lr | val/loss | n |" in output.out
    assert output.out.count("| 1 |\n") == 4, "two seeds of two learning rates: none is joined"
    assert "the runs also differ in optimizer.lr: a column for each" in output.err
    call(project, "runs table", "--by", "optimizer._target_,trial", "--latex")
    latex = capsys.readouterr().out
    assert r"optimizer.\_target\_ & trial & optimizer.lr & {test/acc} & {n} \\" in latex
    assert r"AdamW & baseline & 0.001 & 0.920 +- 0.028 & 2 \\" in latex
    assert r"SGD & wide & 0.001 & {nan} & 1 \\" in latex, "what is no number is shown"


@pytest.mark.slow
def test_table_counts_a_repetition_once_and_says_so(tmp_path, capsys):
    project = make_project(tmp_path / "project")
    for loss in (0.5, 0.3):
        train(project, config_yaml=config(log=int(loss * 10)), metrics={"val/loss": loss})
    train(project, "failed", config_yaml=config(seed=1), metrics={"val/loss": 9.0})
    call(project, "runs table", "--by", "optimizer.lr")
    output = capsys.readouterr()
    assert output.out.splitlines()[1].split() == ["0.001", "0.3", "1"]
    assert "left out: 1 older run with the same settings and seed" in output.err
    assert "left out: 1 unfinished run; status=... takes others" in output.err
    call(project, "runs table", "seed=1")
    output = capsys.readouterr()
    assert output.out == "none of 3 runs\n"
    assert "left out: 1 unfinished run" in output.err, "why there is none"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0.5], "0.5"),
        ([0.5, 0.5], "0.5 ± 0"),
        ([0.9512, 0.9543], "0.9527 ± 0.0022"),
        ([100.0, 200.0], "150 ± 71"),
    ],
)
def test_a_mean_has_as_many_decimals_as_its_deviation(numbers, text):
    assert format_mean(numbers) == text


def test_lists_need_neither_hashes_nor_schedulers(project):
    program = """
import sys
from labrig.cli import main
main(["runs", "list"])
slow = {"hashlib", "csv", "labrig.record.freeze.snapshot", "labrig.cluster.schedulers.local"}
sys.exit(f"imported {slow & set(sys.modules)}" if slow & set(sys.modules) else 0)
"""
    variables = {"PYTHONPATH": str(SOURCE), "LAB_PROJECT": str(project.root)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
