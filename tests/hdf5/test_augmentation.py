"""Crops, mirrors and normalisation on the device: as torch would do it sample by sample, masks like images."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from labrig.data import (
    center_crop,
    normalize,
    random_flip,
    random_resized_crop,
    write_data_file,
)
from labrig.errors import LabError
from labrig.hdf5.read.augmentation import random_boxes, take_boxes
from projects import ROOT
from torch.nn.functional import interpolate

H, W = 40, 60
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def images(n=200, channels=3):
    return torch.rand(n, channels, H, W, generator=seeded(1))


def boxes(n=200, scale=SCALE, ratio=RATIO, seed=0):
    return random_boxes(n, H, W, seeded(seed), scale, ratio)


def test_a_crop_is_what_torch_makes_of_each_box():
    image = images()
    mask = (image[:, 0] * 9).long()
    cropped, of_mask = random_resized_crop((image, mask), (24, 32), seeded())
    assert (cropped.shape, of_mask.shape) == ((200, 3, 24, 32), (200, 24, 32))
    for n, (top, left, height, width) in enumerate(boxes().tolist()):
        part = (..., slice(top, top + height), slice(left, left + width))
        expected = interpolate(image[n : n + 1][part], (24, 32), mode="bilinear")[0]
        torch.testing.assert_close(cropped[n], expected, atol=2e-5, rtol=0)
        numbers = mask[n : n + 1, None][part].double()
        nearest = interpolate(numbers, (24, 32), mode="nearest-exact")[0, 0]
        assert (of_mask[n] == nearest).float().mean() > 0.99, "but for ties of rounding"
        assert set(of_mask[n].unique().tolist()) <= set(numbers.unique().tolist())


def test_boxes_have_the_areas_and_ratios_that_are_asked_for():
    top, left, height, width = boxes(20_000).double().unbind(1)
    assert ((top >= 0) & (left >= 0) & (top + height <= H) & (left + width <= W)).all()
    share = height * width / (H * W)
    ratio = width / height
    assert 0.06 < share.min() < 0.1
    assert 0.85 < share.max() <= 0.9, "40x54: the height is the limit"
    assert 0.68 < ratio.min() < 0.78
    assert 1.29 < ratio.max() < 1.45
    assert abs(ratio.log().mean()) < 0.05
    for place, room in ((top, H - height), (left, W - width)):
        assert abs((place / room)[room > 5].mean() - 0.5) < 0.01
    assert len(boxes(20_000).unique(dim=0)) > 10_000


def test_a_sample_that_no_box_fits_gives_its_middle():
    """As torchvision: as large as the ratios allow, in the middle."""
    wide = random_boxes(3, 10, 100, seeded(), (1.0, 1.0), RATIO)
    assert wide.tolist() == [[0, 44, 10, 13]] * 3
    tall = random_boxes(3, 100, 10, seeded(), (1.0, 1.0), RATIO)
    assert tall.tolist() == [[44, 0, 13, 10]] * 3


def test_the_whole_of_a_sample_is_a_box():
    image = images(2)
    whole = torch.tensor([[0, 0, H, W]] * 2)
    torch.testing.assert_close(take_boxes(image, whole, (H, W)), image, atol=1e-5, rtol=0)
    assert take_boxes(torch.ones(1, 1, 1, 1), torch.tensor([[0, 0, 1, 1]]), (3, 3)).eq(1).all()


def test_a_seed_gives_the_same_again_and_another_one_others():
    image = images(16)
    first, again = (random_resized_crop([image], (20, 20), seeded(3))[0] for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, random_resized_crop([image], (20, 20), seeded(4))[0])


def test_center_crop():
    places = torch.arange(H * W).reshape(1, H, W)
    image, mask = center_crop((places[:, None].float(), places), (10, 21))
    assert (image.shape, mask.shape) == ((1, 1, 10, 21), (1, 10, 21))
    assert mask[0, 0, 0] == 15 * W + 19
    assert torch.equal(image[:, 0].long(), mask)


@pytest.mark.parametrize("flip", ["horizontal", "both"])
def test_flips_are_the_same_for_all_and_half_of_the_samples(flip):
    image = images(400)
    mask = (image[:, 0] * 1e6).long()
    flipped, of_mask = random_flip((image, mask), seeded(), flip)
    assert torch.equal((flipped[:, 0] * 1e6).long(), of_mask)
    ways = {
        "as it is": image,
        "horizontal": image.flip(-1),
        "vertical": image.flip(-2),
        "both": image.flip(-1, -2),
    }
    counts = {name: int((flipped == way).flatten(1).all(1).sum()) for name, way in ways.items()}
    expected = 200 if flip == "horizontal" else 100
    assert abs(counts["as it is"] - expected) < 50
    assert sum(counts.values()) == 400
    assert (counts["vertical"] > 0) == (flip == "both")


def test_normalize():
    image = images(4)
    mean, std = [0.1, 0.2, 0.3], [1.0, 2.0, 4.0]
    normal = normalize(image, mean, std)
    for channel in range(3):
        expected = (image[:, channel] - mean[channel]) / std[channel]
        assert torch.allclose(normal[:, channel], expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: center_crop([images(1)], (41, 20)),
            "larger than the samples, 40x60. Crop at most",
        ),
        (lambda: center_crop([images(1)], (4,)), r"size of a crop is \(4,\); write a height"),
        (lambda: center_crop([images(1), torch.zeros(1, 8, 8)], (4, 4)), "of one height and width"),
        (lambda: center_crop([images(1), torch.zeros(1)], (4, 4)), "found .*. Name those"),
        (lambda: normalize(torch.zeros(1, 3, 4, 4).byte(), [0] * 3, [1] * 3), "found torch.uint8"),
        (lambda: normalize(images(1), [0], [1]), "3 channels, 1 means, 1 stds"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(LabError, match=message):
        call()


@pytest.mark.parametrize("training", [True, False])
def test_the_class_of_the_page_on_own_data_runs(tmp_path, training):
    page = (ROOT / "docs/own-data.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    names = {}
    exec(block, names)
    x = np.random.default_rng(0).integers(0, 256, (8, 3, 64, 64), np.uint8)
    fields = {"x": x, "y": np.arange(8)}
    write_data_file(tmp_path / "pets.h5", fields, {"train": range(8)}, source="random")
    data = names["Pets"]("pets.h5", search=[str(tmp_path)], scale={"x": 255})
    data.trainer = SimpleNamespace(
        training=training, global_rank=0, world_size=1, num_devices=1, overfit_batches=0,
        current_epoch=0, strategy=SimpleNamespace(root_device=torch.device("cpu")),
        lightning_module=data,
    )  # fmt: skip
    image, label = data.on_after_batch_transfer(next(iter(data.train_dataloader())), 0)
    assert (image.shape, label.shape) == ((8, 3, 56, 56), (8,))
    mean, std = (torch.tensor(names[name])[:, None, None] for name in ("MEAN", "STD"))
    middle = torch.from_numpy(x)[label][..., 4:60, 4:60] / 255
    assert torch.allclose(image * std + mean, middle, atol=1e-6) is not training
