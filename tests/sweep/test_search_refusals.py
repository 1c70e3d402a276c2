"""What a sweep refuses."""

from types import SimpleNamespace

import pytest
from labrig.errors import LabError
from labrig.sweep import show, worker
from labrig.sweep.begin import grid_of, require_same_samples
from labrig.sweep.definition import directions_of, parse_setting, space_of
from labrig.sweep.folder import Sweep, find_sweep
from labrig.sweep.pruning import NotLogged, Pruned, Pruning, require_metrics
from omegaconf import OmegaConf
from record_package import make_project, train
from search import make_search


def test_what_a_sweep_cannot_search():
    with pytest.raises(LabError, match=r"nothing to search: no setting has several values"):
        space_of([], [], [])
    with pytest.raises(
        LabError, match=r"one sweep searches in one trial. For several: lab submit trial=a,b"
    ):
        space_of([], ["trial=a,b"], [])
    base = SimpleNamespace(config=SimpleNamespace(checkpoint=None))
    with pytest.raises(LabError, match=r"for 1 metric.*write minimize or maximize for each"):
        directions_of([("val/loss", None)], ["down"], base)
    with pytest.raises(
        LabError, match=r"this grid has .* points, .* are allowed. Some of them, at random"
    ):
        grid_of([parse_setting(f"a{n}=range(1,1000)") for n in range(3)])
    with pytest.raises(
        LabError, match=r"lab sweep worker is started by lab sweep. To search: lab sweep key=a,b"
    ):
        worker.run_worker(None, [])


@pytest.mark.parametrize("limit", [1, 0.5])
def test_points_that_would_be_measured_on_other_samples(limit):
    """One batch of 16 and one of 64: the smaller one won."""
    settings = [parse_setting("data.batch_size=16,64"), parse_setting("optimizer.lr=1,2")]
    search = SimpleNamespace(settings=settings, metrics=["val/loss"])
    trainer = OmegaConf.create({"limit_val_batches": limit, "limit_test_batches": 1.0})
    with pytest.raises(LabError, match=r"Measure on all: trainer.limit_val_batches=1.0"):
        require_same_samples(search, trainer)
    for fine in (SimpleNamespace(settings=settings[1:], metrics=["val/loss"]), search):
        assert require_same_samples(fine, trainer) is None
        trainer.limit_val_batches = 1.0


def test_sweeps_that_are_not_there(tmp_path):
    with pytest.raises(LabError, match=r"has no sweep.json, so it is no sweep. Sweeps: sweeps/"):
        Sweep.open(tmp_path)
    with pytest.raises(
        LabError, match=r"there are no sweeps in .* yet. Make one: lab sweep trial=baseline"
    ):
        find_sweep([tmp_path], None)
    for name in ("a1", "a2"):
        (tmp_path / "sweeps" / name).mkdir(parents=True)
        (tmp_path / "sweeps" / name / "sweep.json").write_text('{"schema": 99}')
    with pytest.raises(
        LabError, match=r"has schema 99, but this lab reads up to .*Type: copier update"
    ):
        Sweep.open(tmp_path / "sweeps/a1")
    with pytest.raises(LabError, match=r"'a' means 2 sweeps.*Sweeps: a"):
        find_sweep([tmp_path], "a")


def test_sweeps_without_numbers(tmp_path):
    points = SimpleNamespace(trials=lambda _: [])
    with pytest.raises(
        LabError, match=r"no point was trained to its end yet.*Wait for one: lab queue"
    ):
        show.draw_plots(points, tmp_path)
    pruning = Pruning()
    pruning.should_stop = True
    trainer = SimpleNamespace(global_step=7)
    with pytest.raises(Pruned, match=r"pruned at step 7: the others were better at this time$"):
        pruning.on_train_batch_start(trainer)


@pytest.mark.slow
def test_a_metric_that_is_not_logged(tmp_path):
    """That of a run is: some log a metric in a few validations. One of the test comes later."""
    project = make_project(tmp_path / "project")
    trainer = SimpleNamespace(callback_metrics={"val/loss": 1})
    for metric in ("val/loss", "val/loss_best", "test/acc", "train/loss"):
        require_metrics(trainer, make_search(project, "x=1,2", metrics=[metric]).sweep)
    sweep = make_search(project, "x=1,2", metrics=["val/los"]).sweep
    said = r"sweep.metric=val/los is not logged in validation; did you mean: val/loss. Logged: val/"
    with pytest.raises(NotLogged, match=said):
        require_metrics(trainer, sweep)
    train(project, metrics={"val/los": 1.0})
    require_metrics(trainer, sweep)
