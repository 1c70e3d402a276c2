"""What a sample is: how raw input is packed, and how a batch is transformed. Yours to change: lab docs own-data

scikit-learn's digits    lab data pack digits      -> data/digits.h5: x uint8, y int64
data/digits.h5           training step             -> image_B1HW uint8
image_B1HW uint8         on_after_batch_transfer   -> float32 in 0..1, on the device
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from labrig import H5DataModule


class Digits(H5DataModule):
    """1,797 real handwritten digits, 8x8 pixels, 10 classes (they ship inside scikit-learn)."""

    @classmethod
    def samples(cls, source: Path | None) -> Iterator[dict[str, Any]]:
        """Yields one dict per sample, and `lab data pack` stores each key as a field. Put your own
        data here."""
        from sklearn.datasets import load_digits

        digits: Any = load_digits()
        for image_HW, label in zip(digits.images, digits.target, strict=True):
            yield {"x": image_HW[None].astype(np.uint8), "y": np.int64(label)}

    def on_after_batch_transfer(
        self, batch: tuple[torch.Tensor, ...], dataloader_idx: int
    ) -> tuple[torch.Tensor, ...]:
        """On the device: image_B1HW uint8 in 0..16 becomes float32 in 0..1; label_B stays int64."""
        image_B1HW, *labels = batch  # images of which the labels are not known have none
        return image_B1HW.float() / 16, *labels
