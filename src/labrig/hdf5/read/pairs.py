"""Images and masks of a data file: classes from the values of masks, and augmentation of both alike."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ...errors import LabError
from .datamodule import H5DataModule

IGNORED = -100  # of cross-entropy: the target of a pixel that does not count
FLIPS = {"horizontal": (-1,), "both": (-1, -2)}  # the axes that are mirrored, each by its own draw


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
