"""Crops, mirrors and normalisation of whole batches on the device, the same for images and masks.

All draw from a generator, such as that of `H5DataModule.generator`: a resumed run makes the same draws.
"""

import math
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from ...errors import LabError
from .pairs import augment, take_part

N_TRIES = 10  # boxes that are drawn for a sample; the first that lies inside of it is taken


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
