"""What is said of two results: bitwise, within tolerance, differs, not comparable because of something."""

import pytest
import torch
from labrig.errors import NotComparable
from labrig.project import Project
from labrig.record.compare.results import compare_results
from labrig.record.files.manifest import append_listed
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.read.attempt_files import read_attempts
from labrig.record.read.rows import read_row
from labrig.record.write.begin import begin_attempt
from labrig.record.write.create import create_run
from record_package import PACKAGE, request

DATA = {"path": "/data/digits.h5", "sha256": "ab" * 32, "size_bytes": 1}


@pytest.fixture
def make(tmp_path):
    """make(...): an ended run with weights and metrics."""

    def make(
        loss=0.25,
        weight=1.0,
        config="seed: 0\npaths:\n  runs: a\n",
        status="finished",
        data=DATA,
        names=(),
        quality=1.0,
        every=5,
        **facts,
    ):
        project = Project(tmp_path, PACKAGE)
        config += f"log: {{every_n_steps: {every}}}\n"
        run = create_run(project, tmp_path / "runs", request(config_yaml=config))
        attempt = begin_attempt(run, project, data=data, device="cpu", threads=2, **facts)
        log = MetricsLog(run.dir, attempt.n)
        speed = {"speed/samples_per_s": float(torch.rand(())), "train|time": float(torch.rand(()))}
        for step in range(every, 10, every):
            log.append(step, 0, {"train/loss": 2 * loss + every})
        log.append(10, 0, {"train/loss": 2 * loss, "quality": quality} | speed)
        log.append(10, 0, {"val/loss": loss})
        log.close()
        state = {
            "w": torch.tensor([weight, 0.0]),
            "n": torch.tensor(3),
            "b": torch.ones(2, dtype=torch.bfloat16),
        }
        torch.save({"state_dict": state}, run.checkpoints / "last.ckpt")
        attempt.end(status, {name: 1.0 for name in names})
        return run

    return make


def test_bitwise(make, capsys):
    assert compare_results(make(), make(config="seed: 0\npaths:\n  runs: elsewhere\n")) == 0
    assert "bitwise: metrics are identical and so are the weights" in capsys.readouterr().out


def test_where_the_data_lies_changes_no_number(make, capsys):
    here, there = (
        {"config": f"seed: 0\ndata: {{batch_size: 4, search: [{place}], stage: null}}\n"}
        for place in "ab"
    )
    assert compare_results(make(**here), make(**there)) == 0
    with pytest.raises(NotComparable, match=r"setting data\.batch_size: 4 -> 8"):
        compare_results(make(**here), make(config=here["config"].replace("4", "8")))


def test_not_a_number_equals_itself(make, capsys):
    nan = float("nan")
    assert compare_results(make(nan, nan), make(nan, nan)) == 0
    assert "bitwise" in capsys.readouterr().out


@pytest.mark.parametrize(("loss", "weight"), [(0.25, 1.0000001), (0.250001, 1.0), (0.25, -1.0)])
def test_within_tolerance(make, capsys, loss, weight):
    assert compare_results(make(), make(loss, weight)) == 0
    said = capsys.readouterr().out
    assert "within tolerance 0.001" in said
    assert "bitwise" not in said


def test_minus_zero_is_not_bitwise_zero(make, capsys):
    compare_results(make(weight=0.0), make(weight=-0.0))
    assert "bitwise" not in capsys.readouterr().out


@pytest.mark.parametrize("other", [{"loss": 0.26}, {"loss": float("nan")}, {"names": ["val/acc"]}])
def test_differs(make, capsys, other):
    assert compare_results(make(), make(**other)) == 1
    assert "differs:" in capsys.readouterr().out
    if other == {"loss": 0.26}:
        assert compare_results(make(), make(**other), tolerance=0.1) == 0


def test_a_metric_of_any_name_counts(make, capsys):
    assert compare_results(make(), make(quality=2.0)) == 1
    said = capsys.readouterr().out
    assert "differs: quality 1 and 2, relative difference 0.5" in said
    assert "metrics are identical" not in said


def test_another_rhythm_of_logging_makes_no_difference(make, capsys):
    assert compare_results(make(every=5), make(every=2)) == 0
    said = capsys.readouterr().out
    assert "note: not compared: train/loss (log.every_n_steps 5 and 2)" in said
    assert "bitwise: metrics are identical and so are the weights" in said
    assert compare_results(make(every=5), make(0.3, every=2)) == 1
    assert "differs: val/loss" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ({"loss": 0.2500001}, "the weights are identical"),
        ({"loss": 0.2500001, "weight": 1.5}, "the weights differ, by 0.5 at most"),
        ({"weight": 1.5}, "the final metrics are identical; the weights differ, by 0.5 at most"),
        ({"loss": 0.9}, "the weights are identical"),
    ],
)
def test_the_verdict_on_the_weights_is_always_reported(make, capsys, other, verdict):
    compare_results(make(), make(**other), tolerance=100 if other.get("loss") == 0.9 else 1e-3)
    said = capsys.readouterr().out
    assert said.splitlines()[-1].startswith("within tolerance")
    assert verdict in said


def test_unknown_code_and_data_are_reported(make, capsys):
    a, b = make(data=None), make()
    assert compare_results(a, b) == 0
    said = capsys.readouterr().out
    assert f"note: data are not compared: not recorded in {a.id}\n" in said
    assert f"note: code is not compared: not recorded in {a.id} and {b.id}" in said
    compare_results(b, make())
    assert "data are" not in capsys.readouterr().out


def test_what_attempts_had_different_is_reported(make, capsys):
    a, b = make(overrides=["trainer.max_epochs=4"]), make()
    (a.dir / "attempts/1/config.yaml").write_text("seed: 0\ntrainer: {max_epochs: 4}\n")
    with pytest.raises(NotComparable, match=r"setting trainer\.max_epochs: 4 -> absent"):
        compare_results(a, b)
    assert f"note: {a.id}: attempt 1 has trainer.max_epochs=4" in capsys.readouterr().out
    (b.dir / "attempts/1/config.yaml").write_text("seed: 0\ntrainer: {max_epochs: 4}\n")
    assert compare_results(a, b) == 0


def test_metrics_alone_when_weights_are_gone(make, capsys):
    a, b = make(), make(weight=7.0)
    (b.checkpoints / "last.ckpt").unlink()
    assert compare_results(a, b) == 0
    said = capsys.readouterr().out
    assert "weights are not compared" in said
    assert "and so are the weights" not in said


def test_an_evaluation_afterwards_makes_no_difference(make, capsys):
    a, b = make(), make()
    row = {"data_name": "cells", "split": "val", "code": {"same": True}, "checkpoint": "last"}
    (attempt,) = read_attempts(a.dir)
    row |= {"checkpoint_sha256": attempt.end["checkpoints"]["last.ckpt"]["sha256"]}
    row |= {"metrics": {"test/dice": 0.5}}
    append_listed(a.dir, "evaluations.jsonl", row)
    assert "test/dice@cells-unhashed/val" in read_row(str(a.dir))["metrics"]
    assert compare_results(a, b) == 0
    assert "bitwise: metrics are identical" in capsys.readouterr().out


def test_pictures_change_no_number(make):
    pictures = "callbacks: {pictures: {n: 8}, lr_monitor: {log_momentum: true}}\n"
    assert compare_results(make(), make(config=f"seed: 0\n{pictures}")) == 0
    with pytest.raises(NotComparable, match=r"callbacks\.ema"):
        compare_results(make(), make(config="seed: 0\ncallbacks: {ema: {decay: 0.9}}\n"))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"config": "seed: 1\n"}, "setting seed: 0 -> 1"),
        ({"config": "seed: 0\nmodel:\n  width: 3\n"}, "setting model.width"),
        ({"status": "failed"}, "is failed"),
        ({"data": DATA | {"sha256": "cd" * 32}}, "the data differs"),
    ],
)
def test_not_comparable_because(make, other, reason):
    with pytest.raises(NotComparable, match=reason) as refused:
        compare_results(make(), make(**other))
    assert refused.value.exit_code == 3
