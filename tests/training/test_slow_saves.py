"""A save that takes long says what would make it shorter, and one in the background is awaited."""

import threading
from types import SimpleNamespace

import pytest
import torch
from labrig.training.checkpoints.checkpoint import AtomicCheckpointIO, Checkpoints, SaveTime


def test_a_long_wait_is_said_once(capsys):
    save_time = SaveTime()
    for seconds in (1.0, 60.0, 90.0):
        save_time.offer_background(seconds)
    said = capsys.readouterr().err
    assert said.count("waited 60 s for a checkpoint") == 1
    assert "checkpoint.background=true" in said


@pytest.fixture
def held(tmp_path, monkeypatch):
    """An IO that writes in the background, and what lets it go on."""
    release = threading.Event()
    save = torch.save

    def wait_and_save(*args):
        assert release.wait(60)
        save(*args)

    monkeypatch.setattr(torch, "save", wait_and_save)
    return AtomicCheckpointIO(tmp_path, background=True), release


def test_the_training_goes_on_with_other_values(held, tmp_path):
    io, release = held
    weight = torch.zeros(3)
    io.save_checkpoint({"state_dict": {"w": weight}}, tmp_path / "last.ckpt")
    weight += 1
    assert not (tmp_path / "last.ckpt").exists()
    release.set()
    io.wait()
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert torch.equal(saved["state_dict"]["w"], torch.zeros(3))


def test_what_another_callback_saves_is_there_at_once(held, tmp_path):
    io, release = held
    release.set()
    io.save_checkpoint({}, tmp_path / "keep/one.ckpt")
    assert (tmp_path / "keep/one.ckpt").is_file()
    assert not io.steps


def test_an_error_of_the_thread_is_raised_by_the_training(tmp_path):
    (tmp_path / "full").write_text("no directory")
    io = AtomicCheckpointIO(tmp_path / "full", background=True)
    trainer = SimpleNamespace(
        strategy=SimpleNamespace(checkpoint_io=io, broadcast=lambda value: value),
        save_checkpoint=lambda path: io.save_checkpoint({}, path),
    )
    checkpoints = Checkpoints(tmp_path / "full", every_min=1, monitor=None, mode="min")
    checkpoints.save_now(trainer)
    with pytest.raises(OSError, match=r"full/last\.ckpt"):
        checkpoints.finish(trainer)
