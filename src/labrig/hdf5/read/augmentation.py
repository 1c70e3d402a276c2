"""Crops, mirrors and normalisation of whole batches on the device, the same for images and their masks.

All draw from a generator, such as that of `H5DataModule.generator`: a resumed run makes the same draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from ...errors import LabError
from .datamodule import H5DataModule

N_TRIES = 10  # boxes that are drawn for a sample; the first that lies inside of it is taken
IGNORED = -100  # of cross-entropy: the target of a pixel that does not count
FLIPS = {"horizontal": (-1,), "both": (-1, -2)}  # the axes that are mirrored, each by its own draw


def random_resized_crop(
    tensors: Sequence[Tensor],
    size: Sequence[int],
    generator: torch.Generator,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> tuple[Tensor, ...]:
    """A random box of each sample, scaled to `size`, as torchvision's RandomResizedCrop draws it.

    Floats are interpolated (bilinear, without antialiasing: store images no larger than you need);
    of whole numbers, such as masks, the nearest pixel is taken. Divide images first (`scale` of the
    data module).

    Args:
        tensors: (B, ..., H, W) each, of one height and width.
        size: (height, width) of the result.
        scale: least and largest share of the area.
        ratio: least and largest width / height.

    Raises:
        LabError: they differ in height or width, or `size` is not two lengths above 0.
    """
    n_samples, height, width = sides_of(tensors, size)
    boxes = random_boxes(n_samples, height, width, generator, scale, ratio)
    return tuple(take_boxes(each, boxes.to(each.device), size) for each in tensors)


def center_crop(tensors: Sequence[Tensor], size: Sequence[int]) -> tuple[Tensor, ...]:
    """The middle of each sample: (B, ..., H, W) becomes (B, ..., *size).

    Raises:
        LabError: they differ in height or width, or are smaller than `size`.
    """
    _, height, width = sides_of(tensors, size)
    if size[0] > height or size[1] > width:
        raise LabError(
            f"a crop of {size[0]}x{size[1]} is larger than the samples, {height}x{width}. "
            f"Crop at most {min(size[0], height)}x{min(size[1], width)}"
        )
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    return tuple(each[..., top : top + size[0], left : left + size[1]] for each in tensors)


def random_flip(
    tensors: Sequence[Tensor], generator: torch.Generator, flip: str = "horizontal"
) -> tuple[Tensor, ...]:
    """Half of the samples (B, ..., H, W) mirrored, all tensors alike.

    Args:
        flip: `horizontal`, or `both`: each axis by its own draw.
    """
    fields = {str(place): each for place, each in enumerate(tensors)}
    return tuple(augment(fields, None, flip, generator).values())


def normalize(image: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(image - mean) / std, a number for each channel of float (B, C, H, W).

    Raises:
        LabError: it is not float, or has another number of channels.
    """
    if not image.is_floating_point() or not len(mean) == len(std) == image.shape[-3]:
        raise LabError(
            f"normalize needs floats, and a mean and a std for each channel; found {image.dtype}, "
            f"{image.shape[-3]} channels, {len(mean)} means, {len(std)} stds. Divide uint8 by 255 first"
        )
    mean_C11, std_C11 = (
        of_channels(tuple(values), image.dtype, image.device) for values in (mean, std)
    )
    return (image - mean_C11) / std_C11


@cache
def of_channels(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """(C, 1, 1), copied to a device once, not in each step."""
    return torch.tensor(values, dtype=dtype, device=device)[:, None, None]


def sides_of(tensors: Sequence[Tensor], size: Sequence[int]) -> tuple[int, int, int]:
    """Samples, height and width of all tensors.

    Raises:
        LabError: they differ, or `size` is not two lengths above 0.
    """
    shapes = {(each.shape[0], each.shape[-2], each.shape[-1]) for each in tensors if each.ndim >= 3}
    if len(shapes) != 1 or any(each.ndim < 3 for each in tensors):
        found = ", ".join(str(tuple(each.shape)) for each in tensors)
        raise LabError(
            f"a crop needs tensors (B, ..., H, W) of one height and width, found {found}. Name those"
        )
    if len(size) != 2 or min(size) < 1:
        raise LabError(
            f"the size of a crop is {tuple(size)}; write a height and a width: (224, 224)"
        )
    return next(iter(shapes))


def random_boxes(
    n_samples: int,
    height: int,
    width: int,
    generator: torch.Generator,
    scale: tuple[float, float],
    ratio: tuple[float, float],
) -> Tensor:
    """(B, 4) int64: top, left, height and width of a box in each sample.

    The area and the logarithm of the ratio are uniform. Where no try fits, it is the middle, as large
    as the ratios allow.
    """
    device = generator.device

    def draw(low: float, high: float) -> Tensor:
        share = torch.rand(n_samples, N_TRIES, generator=generator, device=device)
        return low + (high - low) * share

    area = draw(*scale) * height * width
    aspect = draw(math.log(ratio[0]), math.log(ratio[1])).exp()
    heights = (area / aspect).sqrt().round().long()
    widths = (area * aspect).sqrt().round().long()
    fits = (heights > 0) & (heights <= height) & (widths > 0) & (widths <= width)
    first = fits.int().argmax(1, keepdim=True)
    middle_height = min(height, round(width / ratio[0]))
    middle_width = min(width, round(height * ratio[1]))
    any_fits = fits.any(1)
    box_height = torch.where(any_fits, heights.gather(1, first)[:, 0], middle_height)
    box_width = torch.where(any_fits, widths.gather(1, first)[:, 0], middle_width)
    place = torch.rand(2, n_samples, generator=generator, device=device)
    place = torch.where(any_fits, place, 0.5)
    top = (place[0] * (height - box_height + 1)).long().clamp(max=height - box_height)
    left = (place[1] * (width - box_width + 1)).long().clamp(max=width - box_width)
    return torch.stack([top, left, box_height, box_width], 1)


def take_boxes(values: Tensor, boxes: Tensor, size: Sequence[int]) -> Tensor:
    """The boxes of `values` (B, ..., H, W), each scaled to `size`; no pixel outside of one counts."""
    top, left, height, width = boxes[:, :, None].float().unbind(1)  # (B, 1) each
    rows = (torch.arange(size[0], device=values.device) + 0.5) * height / size[0]
    columns = (torch.arange(size[1], device=values.device) + 0.5) * width / size[1]
    if not values.is_floating_point():
        nearest_rows = torch.minimum(rows.floor(), height - 1) + top
        nearest_columns = torch.minimum(columns.floor(), width - 1) + left
        return take_part(values, nearest_rows.long(), nearest_columns.long())
    rows = torch.minimum((rows - 0.5).clamp(min=0), height - 1) + top
    columns = torch.minimum((columns - 0.5).clamp(min=0), width - 1) + left
    # grid_sample counts from -1, the middle of the first pixel, to 1, that of the last
    y = 2 * rows / max(1, values.shape[-2] - 1) - 1
    x = 2 * columns / max(1, values.shape[-1] - 1) - 1
    grid = torch.stack(
        [x[:, None, :].expand(-1, size[0], -1), y[:, :, None].expand(-1, -1, size[1])], -1
    )
    flat = values.flatten(1, -3) if values.ndim > 3 else values.unsqueeze(1)
    part = grid_sample(
        flat, grid.to(values.dtype), mode="bilinear", padding_mode="border", align_corners=True
    )
    return part.reshape(*values.shape[:-2], *size)


class PairDataModule(H5DataModule):
    """Loaders over images x (B, C, H, W) and masks y (B, H, W), as `lab data pack --as pairs` makes.

    Training sees all fields of a sample cropped and mirrored alike, on the device; the draws come
    from `generator`, so that a resumed run makes the same ones.

    Args:
        path: the file, looked up along `search` unless absolute.
        classes: field -> the values of its masks that are the classes 0, 1, 2 …, as int64. Other
            values become -100, which cross-entropy ignores.
        crop: (height, width) of the random part of a sample that training sees; None: all of it.
        flip: `horizontal` or `both`: each axis of a training sample is mirrored with probability
            1/2; None: as it is.
        settings: those of `H5DataModule`.

    Raises:
        LabError: a field that is not read, another flip, or a crop that is not two sizes.
    """

    def __init__(
        self,
        path: str,
        classes: Mapping[str, Sequence[int]] | None = None,
        crop: Sequence[int] | None = None,
        flip: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(path, **settings)
        self.classes = {name: list(values) for name, values in (classes or {}).items()}
        if isinstance(crop, int):
            crop = [crop]  # is refused below
        self.crop = tuple(crop) if crop is not None else None
        self.flip = flip
        unread = sorted(self.classes.keys() - set(self.fields))
        if unread:
            raise LabError(
                f"data.classes names {unread}, expected some of data.fields: {list(self.fields)}."
            )
        for name, values in self.classes.items():
            if not values or len(set(values)) < len(values):
                raise LabError(
                    f"data.classes.{name} is {values}; expected each value once: data.classes.{name}=[0,1]"
                )
        if self.crop is not None and (len(self.crop) != 2 or min(self.crop) < 1):
            raise LabError(f"data.crop is {list(self.crop)}; write such as data.crop=[64,64]")
        if flip is not None and flip not in FLIPS:
            raise LabError(f"data.flip is {flip!r}; expected horizontal, both or null.")

    @property
    def n_classes(self) -> int | None:
        """Classes of the masks y; without `classes` as in `H5DataModule`."""
        return len(self.classes["y"]) if "y" in self.classes else super().n_classes

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """On the device: `scale`, `classes`, and in training `crop` and `flip`. To add to it, override
        it and call super() first.
        """
        batch = super().on_after_batch_transfer(batch, dataloader_idx)
        fields: dict[str, Tensor] = dict(zip(self.fields, batch, strict=True))
        for name, values in self.classes.items():
            fields[name] = class_numbers(fields[name], values)
        if self.trainer and self.trainer.training and (self.crop or self.flip):
            generator = self.generator(fields[self.fields[0]].device)
            fields = augment(fields, self.crop, self.flip, generator)
        return tuple(fields.values())


def class_numbers(mask: Tensor, values: Sequence[int]) -> Tensor:
    """int64, of the shape of `mask`: the place of each value in `values`; IGNORED for another one."""
    mask = mask.long()
    known, number = sorted_values(tuple(values), mask.device)
    place = torch.searchsorted(known, mask).clamp(max=len(values) - 1)
    return torch.where(known[place] == mask, number[place], IGNORED)


@cache
def sorted_values(values: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """The values in their order, and the class of each; copied to a device once, not in each step."""
    known, number = torch.tensor(values).sort()
    return known.to(device), number.to(device)


def augment(
    fields: Mapping[str, Tensor],
    crop: Sequence[int] | None,
    flip: str | None,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """The fields (B, ..., H, W) of a batch, each sample cropped and mirrored alike in all of them.

    A field without sides, such as a label (B,), stays as it is.

    Raises:
        LabError: the crop is larger than the samples, or the fields differ in their sides.
    """
    sides = {name: tuple(part.shape[-2:]) for name, part in fields.items() if part.ndim >= 3}
    if len(set(sides.values())) != 1:
        raise LabError(
            f"data.crop and data.flip need fields of one height and width, found {sides}. "
            "Leave them out: data.crop=null data.flip=null"
        )
    height, width = next(iter(sides.values()))
    first = fields[next(iter(sides))]
    n_samples, device = len(first), first.device

    def draw(low: int, high: int) -> Tensor:
        return torch.randint(low, high, (n_samples, 1), generator=generator, device=device)

    crop_height, crop_width = crop or (height, width)
    if crop_height > height or crop_width > width:
        raise LabError(
            f"data.crop is {crop_height}x{crop_width}, the samples are {height}x{width}. "
            f"Set data.crop=[{min(crop_height, height)},{min(crop_width, width)}], or null."
        )
    rows = draw(0, height - crop_height + 1) + torch.arange(crop_height, device=device)
    columns = draw(0, width - crop_width + 1) + torch.arange(crop_width, device=device)
    axes = FLIPS[flip] if flip else ()
    if -1 in axes:
        columns = torch.where(draw(0, 2) == 1, columns.flip(1), columns)
    if -2 in axes:
        rows = torch.where(draw(0, 2) == 1, rows.flip(1), rows)
    return {
        name: take_part(part, rows, columns) if name in sides else part
        for name, part in fields.items()
    }


def take_part(values: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Of `values` (B, ..., H, W) those in `rows` (B, h) and `columns` (B, w): (B, ..., h, w)."""
    flat = values.flatten(1, -3) if values.ndim > 3 else values.unsqueeze(1)
    sample = torch.arange(len(values), device=values.device)[:, None, None]
    part = flat.movedim(1, -1)[sample, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)
    return part.reshape(*values.shape[:-2], rows.shape[1], columns.shape[1]).contiguous()
