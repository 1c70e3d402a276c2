"""Each callback that Lightning ships works in a run as it does in Lightning, and continues after a stop."""

from pathlib import Path

import lightning.pytorch.callbacks as stock
import pytest
import torch
from attempts import attempt, attempts
from labrig.errors import LabError
from labrig.project import Project
from labrig.training.check import check
from lightning.pytorch.callbacks import device_stats_monitor
from lightning_utilities.core.imports import RequirementCache
from projects import call, work_on
from trainings import SHORT, last, rows

EPOCHS = ("task._target_=attempts.Task", "trainer.max_epochs=3", "trainer.limit_train_batches=8")
# What a callback needs, by name; those of one line train together.
TOGETHER = {
    "watching": {
        "ModelCheckpoint": "monitor: val/loss, save_top_k: -1, save_last: true",
        "EarlyStopping": "monitor: val/loss, patience: 9",
        "LearningRateMonitor": "log_momentum: true",
        "GradientAccumulationScheduler": "scheduling: {0: 1, 1: 2}",
        "ModelSummary": "max_depth: 2",
        "RichModelSummary": "max_depth: 2",
        "Timer": "duration: '00:01:00:00'",
        "LambdaCallback": "on_fit_start: {_target_: attempts.say, _partial_: true}",
        "TQDMProgressBar": "refresh_rate: 1",
    },
    "averaging": {"StochasticWeightAveraging": "swa_lrs: 0.01, swa_epoch_start: 1"},
    "moving": {"EMAWeightAveraging": "decay: 0.9", "RichProgressBar": "refresh_rate: 1"},
    "any average": {"WeightAveraging": "use_buffers: true"},
    "rate": {"LearningRateFinder": "num_training_steps: 20"},
    "batch": {"BatchSizeFinder": "max_trials: 2, init_val: 8, steps_per_trial: 1"},
}
LONGEST = ("moving", "batch")
# Lightning itself does not save all that these change.
INEXACT = {
    "BackboneFinetuning": "unfreeze_backbone_at_epoch: 1",
    "ModelPruning": "pruning_fn: l1_unstructured, amount: 0.5",
}
# Its rows are times, which differ from run to run; and one that waits for an exception.
MEASURING = {
    "DeviceStatsMonitor": "cpu_stats: false",  # of a CPU it needs psutil, see the test below
    "ThroughputMonitor": "batch_size_fn: {_target_: hydra.utils.get_method, path: attempts.n_images}",
}
ON_EXCEPTION = "OnExceptionCheckpoint"
# They do nothing in a fit, or need what this machine has not; SpikeDetection of Lightning 2.6
# raises at each checkpoint.
NOT_TRIED = {
    *("BaseFinetuning", "BasePredictionWriter", "Callback", "Checkpoint", "ProgressBar"),
    "SpikeDetection",
}


def settings_of(callbacks):
    return [
        f"+callbacks.{name.lower()}={{_target_: lightning.pytorch.callbacks.{name}, {options}}}"
        for name, options in callbacks.items()
    ]


def test_each_is_tried():
    tried = {name for callbacks in TOGETHER.values() for name in callbacks}
    elsewhere = {*INEXACT, *MEASURING, ON_EXCEPTION}
    assert tried | elsewhere | NOT_TRIED == set(stock.__all__)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] * (kind in LONGEST)) for kind in TOGETHER],
)
def test_a_callback_continues_after_a_stop(home, tmp_path, kind):
    settings = (*EPOCHS, *settings_of(TOGETHER[kind]))
    whole = attempt(home, tmp_path / "whole", *settings)
    assert not whole.was_stopped
    parts = attempts(home, tmp_path / "parts", *settings, stops=["train:5", "epoch:1"])
    assert whole.differences(parts) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", INEXACT)
def test_where_lightning_forgets_the_record_says_so(home, tmp_path, name):
    settings = (*EPOCHS, *settings_of({name: INEXACT[name]}))
    stopped = attempt(home, tmp_path, *settings, stop="epoch:1")
    assert stopped.was_stopped
    resumed = attempt(home, tmp_path, *settings)
    assert not resumed.was_stopped
    assert resumed.start["inexact_because"] == [
        f"Lightning's {name} does not save all that it changes"
    ]


@pytest.mark.release
@pytest.mark.slow
def test_ready_callbacks_are_chosen_by_name(home):
    chosen = "callbacks=[early_stopping,ema,lr_monitor,pictures]"
    settings = ("trial=baseline", *SHORT, "log.every_n_steps=5", "callbacks.ema.decay=0.5")
    call(home, "lab", "train", *settings, chosen)
    record = last(home)
    assert set(record["settings"]["callbacks"]) == {
        "early_stopping",
        "ema",
        "lr_monitor",
        "pictures",
    }
    assert record["settings"]["callbacks"]["early_stopping"]["monitor"] == "val/loss"
    assert any("lr-AdamW-weight_decay" in row for row in rows(record))
    assert not [name for name in record["metrics"] if name.startswith("lr-")], "no result of a run"
    assert list(Path(record["run_dir"], "pictures").glob("samples-*.png"))
    said = call(home, "lab", "config", "trial=baseline", "callbacks=emma", rc=2)
    assert "ema" in said


@pytest.mark.slow
def test_own_checkpoints_are_written_where_they_belong(home, tmp_path):
    elsewhere = tmp_path / "not" / "there" / "yet"
    keep = "+callbacks.keep={_target_: lightning.pytorch.callbacks.ModelCheckpoint, save_top_k: -1, save_last: true}"
    other = (
        "+callbacks.other={_target_: lightning.pytorch.callbacks.ModelCheckpoint, monitor: val/loss, "
        f"dirpath: {elsewhere}, filename: 'loss-{{step}}'}}"
    )
    failed = f"+callbacks.failed={{_target_: lightning.pytorch.callbacks.{ON_EXCEPTION}, dirpath: {tmp_path}/failed}}"
    settings = (*EPOCHS, keep, other, failed, *settings_of(MEASURING))
    stopped = attempt(home, tmp_path / "run", *settings, stop="epoch:1")
    assert stopped.was_stopped
    assert (tmp_path / "run" / "requeue").exists(), "the scheduler is asked to start it again"
    assert list((tmp_path / "failed").glob("*.ckpt"))
    attempt(home, tmp_path / "run", *settings)
    files = sorted(path.name for path in (tmp_path / "run/checkpoints/keep").glob("*.ckpt"))
    assert files == [
        "epoch=0-step=8.ckpt",
        "epoch=1-step=16.ckpt",
        "epoch=2-step=24.ckpt",
        "last.ckpt",
    ]
    (best,) = elsewhere.glob("[!.]*")
    assert best.name.startswith("loss-step=")
    assert torch.load(best, weights_only=True)["state_dict"]
    names = sorted(path.name for path in (tmp_path / "run/checkpoints").glob("[!.]*"))
    assert names == ["best.ckpt", "keep", "last.ckpt", "previous.ckpt"]


@pytest.mark.slow
def test_a_disk_that_takes_no_own_checkpoint_is_reported(home, tmp_path):
    (tmp_path / "file").touch()
    keep = f"+callbacks.keep={{_target_: lightning.pytorch.callbacks.ModelCheckpoint, dirpath: {tmp_path}/file/below}}"
    with pytest.raises(OSError, match="Not a directory"):
        attempt(home, tmp_path / "run", *EPOCHS, keep)


def test_device_stats_of_a_cpu_name_their_package(home, monkeypatch):
    """audit-2, row 153: the advice ended with PACKAGE= and nothing."""
    monkeypatch.setattr(device_stats_monitor, "_PSUTIL_AVAILABLE", RequirementCache("psutill"))
    monkeypatch.chdir(home)
    monitor = "{_target_: lightning.pytorch.callbacks.DeviceStatsMonitor}"
    words = ["trial=baseline", *SHORT, f"+callbacks.device={monitor}"]
    with pytest.raises(LabError, match=r"make add PACKAGE=psutill$"):
        check(work_on(Project.find(home)), words)
