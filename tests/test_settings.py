"""Settings: where the options of a group may lie, and what each key that makes a step faster or smaller changes."""

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from conftest import call
from trainings import add_trial, last

LION = "_target_: torch.optim.AdamW\n_partial_: true\nlr: {lr}\n"


def test_options_are_files_and_the_projects_own_come_first(own_project):
    folder = own_project / "src/myproj/conf/optimizer"
    folder.mkdir()
    (folder / "lion.yaml").write_text(LION.format(lr=0.5))
    (folder / "sgd.yaml").write_text(LION.format(lr=0.25))

    def origin(option):
        return call(
            own_project, "lab", "config", "trial=baseline", f"optimizer={option}", "--origin"
        )

    assert "optimizer.lr=0.5  # src/myproj/conf/optimizer/lion.yaml" in origin("lion")
    assert "optimizer.lr=0.25  # src/myproj/conf/optimizer/sgd.yaml" in origin("sgd"), (
        "in place of the template's"
    )
    assert "optimizer.lr=0.001  # src/myproj/lab/conf/optimizer/adam.yaml" in origin("adam")
    assert "momentum" not in origin("sgd")
    said = call(own_project, "lab", "config", "trial=baseline", "optimizer=lyon", rc=2)
    assert "did you mean: lion. Options of optimizer: adam, adamw, lamb, lars, lion, sgd" in said


LINEAR = """
from torch import nn


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Linear(64, 16)
        self.head = nn.Linear(16, 10)

    def forward(self, image_B1HW):
        return self.head(self.features(image_B1HW.flatten(1)).relu())
"""
WIDE = """
from torch import nn


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 10)

    def forward(self, image_B3HW):
        return self.head(self.conv(image_B3HW).mean((2, 3)))
"""
DATA = """
import time

from .data import Digits


class Colour(Digits):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        image_B1HW, label_B = super().on_after_batch_transfer(batch, dataloader_idx)
        return image_B1HW.expand(-1, 3, -1, -1), label_B


class Slow(Digits):
    def transform(self, batch, rng):
        time.sleep(0.03)
        return batch
"""


@pytest.fixture(scope="module")
def trials(home):
    """The shared project with three trials of small networks."""
    package, text = home / "src/myproj", (home / "src/myproj/conf/data/digits.yaml").read_text()
    (package / "more_data.py").write_text(DATA)
    for name in ("Colour", "Slow"):
        (package / f"conf/data/{name.lower()}.yaml").write_text(
            text.replace("data.Digits", f"more_data.{name}")
        )
    model = "model:\n  _target_: .model."
    add_trial(home, "linear", config_yaml=f"{model}Linear\n", model_py=LINEAR)
    add_trial(
        home,
        "tinted",
        config_yaml=f"defaults:\n  - override /data: colour\n{model}Wide\n",
        model_py=WIDE,
    )
    add_trial(
        home,
        "late",
        config_yaml=f"defaults:\n  - override /data: slow\n{model}Linear\n",
        model_py=LINEAR,
    )
    return home


SHORT = ("trainer=cpu", "trainer.threads=1", "trainer.max_epochs=2", "trainer.devices=2")


def sharded(trials):
    """The records of a training without and with speed.fsdp, what lab eval says of the second, and its resumption."""
    records = []
    for fsdp in ("false", "true"):
        call(trials, "lab", "train", "trial=linear", f"speed.fsdp={fsdp}", *SHORT)
        records.append(last(trials))
    one = json.loads(
        call(trials, "lab", "eval", "@last", "trainer.devices=1", "--json").splitlines()[-1]
    )
    states = [
        torch.load(f"{r['run_dir']}/checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for r in records
    ]
    return records, states, one, call(trials, "lab", "resume", "@last", "trainer.max_epochs=3")


@pytest.fixture(scope="module")
def started(trials):
    """Two things at a time: one process that trains with every setting, and what takes two processes."""
    compiler = ["--compile"] if shutil.which("g++") else []
    program = [
        sys.executable,
        "-W",
        "ignore",
        Path(__file__).with_name("settings_program.py"),
        *compiler,
    ]
    with ThreadPoolExecutor(2) as threads:
        yield threads.submit(call, trials, *program, timeout_s=500), threads.submit(sharded, trials)


@pytest.fixture(scope="module")
def found(started):
    """What each setting changed."""
    return json.loads(started[0].result().split("FOUND")[1].splitlines()[0])


def test_the_global_batch_is_made_of_smaller_ones(found):
    assert found["batch"]["difference"] < 1e-5
    assert found["batch"]["steps"] == [11, 11]
    assert found["batch"]["accumulate_of_2"] == 2


def test_activations_are_made_twice_and_nothing_else_changes(found):
    once, twice = found["recomputed"]["calls"]
    assert found["recomputed"]["difference"] == 0
    assert (once, twice) == (3, 6)


def test_images_and_filters_have_their_channels_last(found):
    assert found["channels_last"]["inputs"] == [False, True]
    assert found["channels_last"]["weights"] == [False, True]
    assert found["channels_last"]["difference"] < 1e-4


def test_without_a_compiler_the_training_goes_on(found):
    assert (
        "speed.compile is off: it needs the C++ compiler no-such-compiler"
        in found["compile"]["without"]
    )
    if "graphs" in found["compile"]:
        assert found["compile"]["graphs"] > 0
        assert found["compile"]["cached"] > 0, "the cache lies on paths.scratch"
        assert found["compile"]["difference"] < 1e-4


def test_precision(found):
    assert found["dtype"] == {"32-true": "torch.float32", "bf16-mixed": "torch.bfloat16"}
    assert found["matmul"] == "medium"


def test_optimizers(found):
    assert 0.0099 < found["clipped"] < 0.0101, (
        "one step of lr 1 goes as far as the clipped gradient"
    )
    assert found["fused"] == [True, False]
    assert "optimizer.fused is off: it is refused with bf16-mixed" in found["clipped_bf16"]
    assert found["large_batch"] == ["LARS", "Lamb"]
    assert found["scaled"] == [0.002, 0.02]


def test_schedules_know_the_number_of_steps(found):
    assert found["onecycle"]["steps"] == 23
    assert found["onecycle"]["peak"] == pytest.approx(0.25 * 23, abs=1.5)
    assert found["onecycle"]["max"] == pytest.approx(0.5, rel=0.05)
    assert found["cosine"]["steps"] == 46
    assert found["cosine"]["first"] == pytest.approx(1e-3)
    assert found["cosine"]["last"] == pytest.approx(1e-4, rel=0.05)


def test_sync_batchnorm_is_for_cuda(found):
    assert "speed.sync_batchnorm is off" in found["sync_batchnorm"]["on_cpu"]
    assert found["sync_batchnorm"]["on_gpu"] == 2


def test_cudnn_searches_for_kernels_unless_they_must_be_the_same(found):
    assert list(found["benchmark"].values()) == [True, False, False]


REFUSED = {
    "batch.global=100": "times 1 processes: 64, 128, 192 ...",
    "batch.global=128 batch.scale_lr=true": "batch.scale_lr has no meaning",
    "batch.global=128 trainer.accumulate_grad_batches=2": "trainer.accumulate_grad_batches",
    "speed.compile=max-autotun": "did you mean: max-autotune",
    "speed.checkpoint_activations=[model.feature]": "did you mean: model.features",
    "speed.cudnn_benchmark=true record.deterministic=true": "record.deterministic",
    "acc": "train/acc is 1.97, outside of log.bounds.acc=[0,1]: a sum was made for a mean",
    "rounded": "accepted",
}


@pytest.mark.parametrize("typed", REFUSED)
def test_wrong_use(found, typed):
    assert REFUSED[typed] in found["refused"][typed]


def test_wrong_use_is_found_before_the_queue(trials):
    said = call(
        trials,
        "lab",
        "check",
        "trial=linear",
        "trainer=cpu",
        "speed.checkpoint_activations=[model.head1]",
        rc=2,
    )
    assert "did you mean: model.head" in said


def test_health_tells_of_slow_data(found):
    rows = found["health"]["rows"]
    assert [row["step"] for row in rows] == [15, 30, 45]
    assert all(row["speed/data_wait"] > 0.5 for row in rows[1:])
    at_most = (
        15 * 16 / (10 * 0.03)
    )  # each batch of 16 takes 30 ms or more; of 15 at most 5 were read ahead
    assert all(0 < row["speed/samples_per_s"] < at_most for row in rows[1:])
    assert all(0.05 < row["speed/memory_gb"] < 100 for row in rows)
    assert found["health"]["said"].count("goes by waiting for data") == 1


def test_parameters_spread_over_two_processes_learn_the_same(started):
    (_, record), (whole, spread), one, resumed = started[1].result()
    assert whole.keys() == spread.keys()
    for name, value in whole.items():
        torch.testing.assert_close(spread[name], value, rtol=1e-3, atol=1e-4)
    assert one == pytest.approx({name: record["metrics"][name] for name in one}, abs=1e-5)
    assert "finished" in resumed
