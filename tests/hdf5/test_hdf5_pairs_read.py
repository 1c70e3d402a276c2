"""Images and masks in a training: classes from values, and the same crop and flip for both."""

import lightning
import numpy as np
import pytest
import torch
import yaml
from hdf5_packing import packing  # noqa: F401
from hdf5_pairs import H, W, pairs
from labrig.data import PairDataModule
from labrig.errors import LabError
from labrig.hdf5.read.augmentation import augment, class_numbers
from projects import call


def module(tmp_path, **settings):
    config = yaml.safe_load((tmp_path / "src/myproj/conf/data/cells.yaml").read_text())
    assert config.pop("_target_") == "labrig.data.PairDataModule"
    return PairDataModule(**config | {"search": [str(tmp_path / "data")], "seed": 0} | settings)


def test_the_yaml_makes_classes_of_the_values(tmp_path, pack):
    mask_of = pairs(tmp_path / "raw/cells", values=(0, 128, 255))
    pack("cells", tmp_path / "raw/cells", "--as", "pairs")
    file = tmp_path / "src/myproj/conf/data/cells.yaml"
    assert file.read_text().startswith("# 8 samples, 3 classes of pixels. Written by")
    data = module(tmp_path)
    assert data.n_classes == 3
    x, y = data.on_after_batch_transfer(next(iter(data.train_dataloader())), 0)
    assert (x.dtype, y.dtype, x.max() <= 1) == (torch.float32, torch.int64, True)
    for image, classes in zip(x, y, strict=True):
        pixels = (image * 255).round().to(torch.uint8).numpy()
        numbers = torch.tensor([0, 128, 255])[classes]
        np.testing.assert_array_equal(numbers, mask_of[pixels.tobytes()])
    ignoring = module(tmp_path, classes={"y": [0, 128]})
    _, y = ignoring.on_after_batch_transfer(next(iter(ignoring.train_dataloader())), 0)
    assert set(y.unique().tolist()) == {-100, 0, 1}


def test_classes_have_the_order_that_is_written():
    mask = torch.tensor([[0, 7, 255, 3]], dtype=torch.uint8)
    assert class_numbers(mask, [255, 0, 7]).tolist() == [[1, 2, 0, -100]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flip": "vertical"}, r"data\.flip is 'vertical'; expected horizontal, both or null"),
        ({"crop": [8]}, r"data\.crop is \[8\]; write such as data\.crop=\[64,64\]"),
        ({"crop": 8}, r"data\.crop is \[8\]; write such as data\.crop=\[64,64\]"),
        ({"classes": {"z": [0]}}, r"data\.classes names \['z'\]"),
        ({"classes": {"y": [0, 0]}}, r"data\.classes\.y is \[0, 0\]; expected each value once"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(LabError, match=message):
        PairDataModule("a.h5", **settings)


def fields_of_numbers(n=64):
    """Each pixel has its place as its value, in an image of three channels and in a mask."""
    place = torch.arange(H * W).reshape(H, W)
    mask = place.repeat(n, 1, 1)
    image = torch.stack([mask, mask + 1, mask + 2], 1).float()
    return {"x": image, "y": mask, "label": torch.arange(n)}


@pytest.mark.parametrize("crop", [None, (7, 9)])
@pytest.mark.parametrize("flip", [None, "horizontal", "both"])
def test_image_and_mask_get_the_same_crop_and_flip(crop, flip):
    out = augment(fields_of_numbers(), crop, flip, torch.Generator().manual_seed(0))
    assert out["x"].shape == (64, 3, *(crop or (H, W)))
    torch.testing.assert_close(out["x"][:, 0], out["y"].float())
    torch.testing.assert_close(out["x"][:, 2], out["y"].float() + 2)
    assert out["label"].tolist() == list(range(64))
    rows, columns = out["y"][:, :, 0] // W, out["y"][:, 0] % W
    steps_down, steps_right = rows.diff(dim=1), columns.diff(dim=1)
    assert (steps_down.abs() == 1).all()
    assert (steps_right.abs() == 1).all()
    flipped_down = (steps_down[:, 0] < 0).float().mean()
    flipped_right = (steps_right[:, 0] < 0).float().mean()
    assert flipped_down == pytest.approx(0.5 if flip == "both" else 0, abs=0.25)
    assert flipped_right == pytest.approx(0.5 if flip else 0, abs=0.25)
    if crop:
        assert len(set(rows[:, 0].tolist())) > 5
        assert (rows.min(), rows.max()) == (0, H - 1)


def test_a_crop_that_is_too_large_is_reported():
    with pytest.raises(LabError, match=rf"data\.crop is 99x9, the samples are {H}x{W}"):
        augment(fields_of_numbers(2), (99, 9), None, torch.Generator())
    fields = {"x": torch.zeros(2, 3, 8, 8), "y": torch.zeros(2, 4, 4)}
    with pytest.raises(LabError, match="need fields of one height and width"):
        augment(fields, (2, 2), None, torch.Generator())


class Stop(Exception):
    """What a kill looks like from inside."""


class Task(lightning.LightningModule):
    """Keeps a number of each batch that it sees."""

    def __init__(self, file, stop_after=None):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 2, 1)
        self.file = file
        self.stop_after = stop_after
        self.seen = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        self.seen.append((x.double().sum().item(), (x[:, 0] * y).double().sum().item()))
        return torch.nn.functional.cross_entropy(self.layer(x), y)

    def on_train_batch_end(self, *_):
        if self.trainer.global_step == self.stop_after:
            self.trainer.save_checkpoint(self.file)
            raise Stop

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def trained(tmp_path, stop_after=None, resume=False, seed=0):
    """What one attempt saw, and its final weights."""
    data = module(tmp_path, crop=(8, 9), flip="both", batch_size=3, seed=seed)
    torch.manual_seed(0)
    task = Task(tmp_path / "last.ckpt", stop_after)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=0,
    )
    try:
        trainer.fit(task, data, ckpt_path=task.file if resume else None)
    except Stop:
        data.teardown("fit")
    return task.seen, task.layer.weight.detach().flatten().tolist()


@pytest.mark.slow
def test_a_resumed_run_draws_the_same_crops_and_flips(tmp_path, pack):
    pairs(tmp_path / "raw/cells", n=20)
    pack("cells", tmp_path / "raw/cells", "--as", "pairs")
    seen, weights = trained(tmp_path)
    assert len(set(seen)) == len(seen) == 18
    for stop_after in (1, 7, 12):
        before, _ = trained(tmp_path, stop_after)
        after, resumed_weights = trained(tmp_path, resume=True)
        assert before + after == seen
        assert resumed_weights == weights
    assert trained(tmp_path, seed=1)[0][0] != seen[0]


@pytest.mark.release
@pytest.mark.slow
def test_packed_pairs_are_checked_at_once(own_project, tmp_path):
    pairs(tmp_path / "raw/cells", n=12)
    said = call(
        own_project, "lab", "data", "pack", "cells", tmp_path / "raw/cells", "--as", "pairs"
    )
    assert "values [0, 255]" in said
    assert "lab check trial=segmentation data=cells model.n_classes=2" in said
    # the network of the template takes one channel: the data came that far
    assert "expected input" in call(
        own_project, "lab", "check", "trial=baseline", "data=cells", rc=2
    )
    mistyped = call(
        own_project, "lab", "check", "trial=baseline", "data=cells", "data.flips=both", rc=2
    )
    assert "did you mean: data.flip" in mistyped or "did you mean: flip" in mistyped
