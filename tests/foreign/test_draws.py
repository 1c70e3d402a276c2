"""`draws: torch`: a port has the bits of its script, also where torch's generator gives order and dropout."""

import lightning.pytorch as L
import pytest
import torch
from attempts import attempts
from foreign import SEED, Witness, by_lab, differences
from shapes.dropout import Arrays, Dropping

TASK = ("task._target_=shapes.dropout.Dropping", "checkpoint.monitor=null")
SETTINGS = (*TASK, "data=digits", "+data.draws=torch", "trainer.max_epochs=3")


@pytest.fixture(scope="module")
def script(home):
    """What a script does that torch alone shuffles for."""
    torch.set_num_threads(1)
    L.seed_everything(SEED, verbose=False)
    data, task, witness = Arrays(home / "data/digits.h5"), Dropping(), Witness()
    trainer = L.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[witness],
    )
    trainer.fit(task, datamodule=data)
    return witness


@pytest.mark.slow
def test_a_data_file_gives_the_bits_of_a_shuffled_data_loader(home, tmp_path, script):
    lab, _ = by_lab(home, tmp_path, *SETTINGS, "speed.lean_loop=false")
    assert differences(script, lab) == []
    assert len(script.losses) > 60


@pytest.mark.slow
def test_without_it_the_bits_are_others(home, tmp_path, script):
    lab, _ = by_lab(home, tmp_path, *TASK, "data=digits", "trainer.max_epochs=3")
    assert len(lab.losses) == len(script.losses)
    assert lab.losses != script.losses


@pytest.mark.slow
def test_a_data_module_of_ones_own_says_it_by_an_attribute(home, tmp_path, script):
    file = home / "src/myproj/conf/data/arrays.yaml"
    file.write_text(f"_target_: shapes.dropout.Arrays\npath: {home}/data/digits.h5\n")
    lab, _ = by_lab(home, tmp_path / "torch", *TASK, "data=arrays", "trainer.max_epochs=3")
    assert differences(script, lab) == []
    words = (*TASK, "data=arrays", "+data.draws=seed", "trainer.max_epochs=3")
    lab, _ = by_lab(home, tmp_path / "seed", *words)
    assert lab.losses != script.losses


@pytest.mark.slow
def test_a_resumed_run_says_that_it_is_not_exact(home, tmp_path):
    resumed = attempts(home, tmp_path, *SETTINGS, stops=["train:30"])
    assert resumed.start["exact"] is False
    assert any("draws: torch" in reason for reason in resumed.start["inexact_because"])
