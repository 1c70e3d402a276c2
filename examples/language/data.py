"""The help texts that ship with Python, as bytes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from labrig import H5DataModule

N_BYTES = 65  # of a sample: each of the first 64 predicts the next


class HelpTexts(H5DataModule):
    """About 11,000 pieces of the texts of `help("topics")`; those of one topic stay in one split."""

    @classmethod
    def samples(cls, source: None) -> Iterator[dict[str, Any]]:
        from pydoc_data.topics import topics

        for name in sorted(topics):
            text = topics[name].encode("ascii", errors="replace")
            for start in range(0, len(text) - N_BYTES, N_BYTES - 1):
                piece = np.frombuffer(text[start : start + N_BYTES], np.uint8)
                yield {"x": piece, "group": name}

    def on_after_batch_transfer(self, batch: tuple, dataloader_idx: int) -> tuple[torch.Tensor]:
        """(token_BT,), int64 in 0..127."""
        return (batch[0].long(),)
