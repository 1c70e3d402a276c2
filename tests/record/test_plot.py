"""`lab runs plot`: of runs that filters choose the mean over the seeds, named by what differs."""

import math

import pytest
import test_experiments
from labrig.errors import LabError
from labrig.record.compare.plot import PlottedLine, curve_of
from labrig.record.files.metrics_file import MetricsLog
from record_package import call

repository = test_experiments.repository
project = test_experiments.project
made = test_experiments.made


@pytest.fixture
def two(project, made):
    """Two settings with three seeds each; val/loss is 1, 2, 4 of the first and 5 of the other."""
    for seed, loss in enumerate((1.0, 2.0, 4.0)):
        for lr, value in ((0.1, loss), (0.2, 5.0)):
            run_id = made(seed, lr=lr, metrics={"val/loss": value})
            log = MetricsLog(project.root / "runs/baseline" / run_id, 1)
            for step in (10, 20):
                log.append(step, 0, {"val/loss": value})
            log.close()
    return project


def test_a_curve_for_each_experiment_is_the_mean_of_its_seeds(two, capsys):
    call(two, "runs plot", "trial=baseline", "--metric", "val/loss")
    said = capsys.readouterr().out
    assert "lr=0.1, 3 seeds  last 2.33333 ± 1.5\n" in said
    assert "lr=0.2, 3 seeds  last 5\n" in said
    call(two, "runs plot", "lr=0.1", "--metric", "val/loss", "--x", "hours")
    assert capsys.readouterr().out.count("baseline 2") == 3, "hours have no mean"


def test_points_that_all_seeds_have_are_averaged(monkeypatch, capsys):
    curves = iter([[(0, 1.0), (5, 2.0), (9, 3.0)], [(0, 3.0), (9, 7.0)], []])
    monkeypatch.setattr("labrig.record.compare.plot.read_curve", lambda *_: next(curves))
    mean, deviations = curve_of(
        PlottedLine("x", [{"run_dir": name} for name in "abc"]), "m", "step"
    )
    assert mean == [(0, 2.0), (9, 5.0)]
    assert deviations == pytest.approx([math.sqrt(2), math.sqrt(8)])
    assert "lab: x: 2 of 3 runs have m, and the curve is of these\n" in capsys.readouterr().err


def test_a_pdf_is_written_and_a_filter_without_runs_refused(two, tmp_path, capsys):
    file = tmp_path / "loss.pdf"
    call(two, "runs plot", "trial=baseline", "--metric", "val/loss", "-o", str(file))
    assert file.read_bytes().startswith(b"%PDF")
    with pytest.raises(LabError, match="Runs: lab runs list"):
        call(two, "runs plot", "trial=nothing")
