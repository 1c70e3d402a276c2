"""Handwritten digits, without their labels."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from labrig import H5DataModule


class Digits(H5DataModule):
    """1,797 real digits of 8x8 pixels; they ship inside scikit-learn."""

    @classmethod
    def samples(cls, source: None) -> Iterator[dict[str, Any]]:
        from sklearn.datasets import load_digits

        for image_HW in load_digits().images:
            yield {"x": image_HW[None].astype(np.uint8)}

    def on_after_batch_transfer(self, batch: tuple, dataloader_idx: int) -> tuple[torch.Tensor]:
        """(image_B1HW,), float32 in 0..1."""
        return (batch[0].float() / 16,)
