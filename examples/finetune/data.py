"""Digits and the same digits sorted, which the model is to learn. Short texts share a row.

314269>123469 ...        lab data pack finetune     -> data/finetune.h5: ragged token, place, counts
data/finetune.h5         training step              -> token_BT, place_BT int64, counts_BT bool
"""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from labrig import H5DataModule, Project
from transformers import AutoTokenizer

BASE = "data/base"  # whose tokenizer makes the file
N_TEXTS, N_TOKENS = 2000, 64  # of the file; of a row, at most


class SortedDigits(H5DataModule):
    """2,000 texts of 8 to 16 tokens; as many as have room lie in a row, each with places from 0."""

    @classmethod
    def samples(cls, source: None) -> Iterator[dict[str, Any]]:
        tokenizer = AutoTokenizer.from_pretrained(Project.find().root / BASE)
        draw = random.Random(0)
        row = np.zeros((0, 3), np.int32)
        for _ in range(N_TEXTS):
            digits = draw.choices("0123456789", k=draw.randint(3, 7))
            token = tokenizer("".join([*digits, ">", *sorted(digits)]))["input_ids"]
            token.append(tokenizer.eos_token_id)
            text = [(token[n], n, n > len(digits)) for n in range(len(token))]
            if len(row) + len(text) > N_TOKENS:
                yield dict(zip(("token", "place", "counts"), row.T, strict=True))
                row = row[:0]
            row = np.concatenate([row, np.array(text, np.int32)])
        yield dict(zip(("token", "place", "counts"), row.T, strict=True))

    def on_after_batch_transfer(
        self, batch: tuple, dataloader_idx: int
    ) -> tuple[torch.Tensor, ...]:
        """token_BT, place_BT, and which tokens are parts of an answer, counts_BT."""
        token, place, counts = batch
        return token.long(), place.long(), counts.bool()
