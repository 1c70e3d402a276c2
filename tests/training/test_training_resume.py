"""What a resume can spoil: a finished run, a damaged checkpoint, a test that fails, a quota in the middle."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from labrig.errors import LabError
from labrig.record.read.run import Run
from labrig.record.write.inputs import describe_file
from labrig.training.checkpoints.resume_point import is_complete, last_checkpoint
from labrig.training.trained.load import load_weights
from projects import call
from trainings import SHORT, add_trial, first, last, start

MODEL = "model:\n  _target_: .model.net\n"
NET = "from torch import nn\ndef net(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
TASKS = """
import os
import lightning.pytorch as L
from ...task import Classifier

class TestFails(Classifier):
    def test_step(self, batch, batch_idx):
        if "MENDED" not in os.environ:
            raise RuntimeError("no test tonight")
        return super().test_step(batch, batch_idx)

class TestMissing(Classifier):
    test_step = L.LightningModule.test_step
"""
QUOTA = """
import errno, os
import lightning.pytorch as L

class Quota(L.Callback):
    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        if "QUOTA" not in os.environ or (trainer.current_epoch, batch_idx) != (1, 5):
            return
        fsync = os.fsync
        def refuse(file, *rest):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        def flush(file):
            name = os.readlink(f"/proc/self/fd/{file}")
            return refuse(file) if "checkpoints" in name else fsync(file)
        os.write, os.fsync = refuse, flush
"""


@pytest.fixture
def spoiled(home):
    """A directory like that of the first run in `home`, with an id of its own."""
    source = home / "runs/baseline" / first(home)["run_id"]
    run_id = f"{source.name[:-6]}{os.urandom(3).hex()}"
    copy = shutil.copytree(source, source.with_name(run_id))
    for name in ("run.json", "summary.json"):
        facts = json.loads((copy / name).read_text())
        (copy / name).write_text(json.dumps(facts | {"run_id": run_id}))
    yield copy
    shutil.rmtree(copy)


def shown(home, run_dir):
    return json.loads(call(home, "lab", "runs", "show", run_dir.name, "--json"))


def weights(checkpoints):
    return torch.load(checkpoints / "last.ckpt", weights_only=True)["state_dict"]


def damage(path, how):
    content = path.read_bytes()
    path.unlink()  # best.ckpt may be the same file
    middle = len(content) // 2
    changed = bytes([content[middle] ^ 1])
    pieces = {
        "empty": b"",
        "cut": content[:middle],
        "one bit": content[:middle] + changed + content[middle + 1 :],
    }
    path.write_bytes(pieces[how])


@pytest.mark.slow
def test_a_resume_that_cannot_be_built_changes_nothing(home, spoiled):
    before = shown(home, spoiled)
    model = home / "src/myproj/trials/baseline/model.py"
    text = model.read_text()
    model.write_text(text.replace("class CNN", "class Renamed"))
    try:
        said = call(home, "lab", "resume", spoiled.name, "trainer.max_epochs=25", rc=2)
    finally:
        model.write_text(text)
    assert f"{spoiled.name} is as it was before" in said
    assert shown(home, spoiled) == before
    assert os.listdir(spoiled / "attempts") == ["1"]


@pytest.mark.slow
def test_a_finished_run_has_nothing_to_resume(home, spoiled):
    """It was tested again, with the code of today."""
    before = shown(home, spoiled)
    said = call(home, "lab", "resume", spoiled.name)
    assert f"{spoiled.name} is finished; nothing is left to do" in said
    assert f"lab resume {spoiled.name} trainer.max_epochs=N" in said
    assert f"lab eval {spoiled.name}" in said
    assert shown(home, spoiled) == before
    assert os.listdir(spoiled / "attempts") == ["1"]


def test_what_is_left_of_a_finished_run(spoiled):
    checkpoints = spoiled / "checkpoints"
    last_one = checkpoints / "last.ckpt"
    assert is_complete(spoiled, last_one)
    assert is_complete(spoiled, None), "it kept none"
    assert not is_complete(spoiled, checkpoints / "previous.ckpt"), "last.ckpt is damaged"
    shutil.copyfile(checkpoints / "best.ckpt", last_one)
    assert not is_complete(spoiled, last_one), "somebody has put another one there"


@pytest.mark.slow
def test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used(home, spoiled):
    checkpoints = spoiled / "checkpoints"
    whole = weights(checkpoints)
    damage(checkpoints / "last.ckpt", "one bit")
    for command in (("eval", spoiled.name), ("resume", spoiled.name)):
        said = call(home, "lab", *command, rc=2 if command[0] == "eval" else 0)
        assert "last.ckpt is damaged" in said
        assert "Traceback" not in said
    assert "continuing from previous.ckpt" in said
    assert "epoch 2/2" in said
    assert (checkpoints / "damaged.ckpt").exists()
    assert shown(home, spoiled)["status"] == "finished"
    again = weights(checkpoints)
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@pytest.mark.release
@pytest.mark.slow
def test_an_evaluation_takes_the_weights_of_the_recorded_numbers(home, spoiled):
    checkpoints = spoiled / "checkpoints"
    shutil.copy(checkpoints / "last.ckpt", checkpoints / "finished.ckpt")
    damage(checkpoints / "last.ckpt", "cut")  # as if of an attempt that has extended it since
    evaluated = call(home, "lab", "eval", spoiled.name, "--json")
    accuracy = shown(home, spoiled)["metrics"]["test/acc"]
    (metrics,) = [line for line in evaluated.splitlines() if line.startswith("{")]
    assert json.loads(metrics)["test/acc"] == accuracy
    assert "lab: " in call(home, "lab", "eval", spoiled.name, "--checkpoint", "last", rc=2)


@pytest.mark.slow
def test_no_checkpoint_is_whole(home, spoiled):
    checkpoints = spoiled / "checkpoints"
    damage(checkpoints / "last.ckpt", "empty")
    (checkpoints / "previous.ckpt").unlink()
    said = call(home, "lab", "resume", spoiled.name, rc=2)
    assert f"cp {checkpoints}/best.ckpt {checkpoints}/last.ckpt" in said
    damage(checkpoints / "best.ckpt", "cut")
    said = call(home, "lab", "resume", spoiled.name, rc=2)
    assert f"lab runs reproduce {spoiled.name}" in said
    assert "Traceback" not in said
    assert shown(home, spoiled)["status"] == "finished"


def other_weights_in(path):
    """A whole checkpoint with other weights, as if of another run."""
    content = torch.load(path, weights_only=True)
    for tensor in content["state_dict"].values():
        tensor.zero_()
    path.unlink()  # best.ckpt may be the same file
    torch.save(content, path)


@pytest.mark.parametrize("ended", [True, False])
def test_weights_that_the_run_did_not_save_are_not_opened(spoiled, ended):
    last_one = spoiled / "checkpoints/last.ckpt"
    if not ended:
        (spoiled / "attempts/1/end.json").unlink()
    assert last_checkpoint(last_one.parent) == last_one
    other_weights_in(last_one)
    with pytest.raises(
        LabError, match=r"last.ckpt holds other weights than .* saved(?s:.*)lab runs reproduce"
    ):
        last_checkpoint(last_one.parent)
    with pytest.raises(LabError, match="holds other weights"):
        load_weights(None, Run.open(spoiled), "last")
    with pytest.raises(LabError, match="holds other weights"):
        describe_file(last_one, is_hashed=True)
    shutil.copy(last_one.with_name("best.ckpt"), last_one)
    assert last_checkpoint(last_one.parent) == last_one


@pytest.mark.release
@pytest.mark.slow
def test_a_command_says_that_the_weights_are_others(home, spoiled):
    other_weights_in(spoiled / "checkpoints/last.ckpt")
    for words in (["resume"], ["eval"], ["predict", "--to", "p.csv"]):
        said = call(home, "lab", words[0], spoiled.name, *words[1:], rc=2)
        assert f"holds other weights than {spoiled.name} saved" in said
    assert os.listdir(spoiled / "attempts") == ["1"]


def test_of_a_killed_attempt_without_hashes_any_checkpoint_is_taken(spoiled):
    last_one = spoiled / "checkpoints/last.ckpt"
    (spoiled / "attempts/1/end.json").unlink()
    (last_one.parent / ".hashes.json").unlink()
    other_weights_in(last_one)
    assert last_checkpoint(last_one.parent) == last_one


def test_a_link_out_of_the_run_or_a_pipe_is_no_checkpoint(spoiled, tmp_path):
    last_one = spoiled / "checkpoints/last.ckpt"
    last_one.with_name("previous.ckpt").unlink()
    last_one.rename(tmp_path / "own.ckpt")
    last_one.symlink_to(tmp_path / "own.ckpt")
    with pytest.raises(LabError, match=r"last\.ckpt is a link out of the run"):
        last_checkpoint(last_one.parent)
    last_one.unlink()
    os.mkfifo(last_one)
    with pytest.raises(LabError, match=r"last\.ckpt is damaged: it cannot be read .it is no file"):
        last_checkpoint(last_one.parent)


@pytest.mark.release
@pytest.mark.slow
def test_a_resume_from_the_start_is_said(home, spoiled):
    for path in (spoiled / "checkpoints").glob("*.ckpt"):
        path.unlink()
    said = call(home, "lab", "resume", spoiled.name, "trainer.max_epochs=1")
    assert f"lab: {spoiled.name} has no checkpoint any more: it begins from the start" in said
    assert "epoch 1/1" in said


@pytest.mark.release
@pytest.mark.slow
def test_a_run_is_not_resumed_while_it_runs(home, spoiled):
    process, _ = start(
        home, spoiled.name, "trainer.max_epochs=400", command="resume", until="epoch 4/"
    )
    try:
        said = call(home, "lab", "resume", spoiled.name, rc=2)
    finally:
        process.terminate()
        rest = process.communicate(timeout=120)[0]
    assert f"{spoiled.name} is running on this machine already" in said
    assert "continue with: lab resume" in rest
    record = shown(home, spoiled)
    assert record["status"] == "finished"
    assert [attempt["end"]["status"] for attempt in record["attempts"]] == [
        "finished",
        "interrupted",
    ]
    assert record["attempts"][1]["end"]["signal"] == 15
    assert record["metrics"] == json.loads((spoiled / "attempts/1/end.json").read_text())["metrics"]


@pytest.mark.release
@pytest.mark.slow
def test_a_fit_whose_test_fails_is_trained(home):
    for name, target in (("failstest", "TestFails"), ("hasnotest", "TestMissing")):
        task = f"task:\n  _target_: .task.{target}\n"
        add_trial(home, name, config_yaml=MODEL + task, model_py=NET, task_py=TASKS)
    said = call(home, "lab", "check", "trial=failstest", rc=2)
    assert "one batch of the test split fails:\nsrc/myproj/trials/failstest/task.py:9: " in said
    assert "RuntimeError: no test tonight" in said
    short = ("trainer=cpu", "trainer.max_epochs=1", "trainer.limit_train_batches=2")
    said = call(home, "lab", "train", "trial=failstest", *short, rc=1)
    run_id = last(home)["run_id"]
    assert f"the training is finished, its test is not; to test: lab resume {run_id}" in said
    assert last(home)["status"] == "trained"
    assert "val/loss" in last(home)["metrics"]
    said = call(home, "lab", "resume", run_id, MENDED="1")
    assert "test/acc" in said
    assert "(weights: last.ckpt)" in said
    assert last(home)["status"] == "finished"

    said = call(home, "lab", "check", "trial=hasnotest")
    assert "no test: TestMissing has no test_step" in said
    said = call(home, "lab", "train", "trial=hasnotest", *short)
    assert "not tested: TestMissing has no test_step" in said
    assert "finished  (not tested)" in said
    assert last(home)["status"] == "finished"
    assert "one test batch" in call(home, "lab", "check", "trial=baseline")


@pytest.mark.release
@pytest.mark.slow
def test_a_quota_in_the_middle_loses_nothing(home):
    config = MODEL + "callbacks:\n  quota:\n    _target_: .quota.Quota\n"
    add_trial(home, "quota", config_yaml=config, model_py=NET, quota_py=QUOTA)
    settings = ("trial=quota", *SHORT, "log.every_n_steps=10")
    call(home, "lab", "train", *settings)
    whole = last(home)
    said = call(home, "lab", "train", *settings, rc=1, QUOTA="1")
    stopped = last(home)
    assert "your quota is used up" in said
    assert "quota -s" in said
    assert f"lab resume {stopped['run_id']}" in said
    assert "Traceback" not in said
    assert stopped["status"] == "failed"
    call(home, "lab", "resume", stopped["run_id"])
    assert last(home)["status"] == "finished"
    one, other = (weights(Path(record["run_dir"], "checkpoints")) for record in (whole, stopped))
    assert all(torch.equal(one[name], other[name]) for name in one)
