"""The mean of the vectors of all words, and a layer."""

import torch
from torch import nn


class Bag(nn.Module):
    """Scores (B, n_classes) for texts as tokens (B, T); a 0 is padding, which counts for nothing."""

    def __init__(self, n_tokens: int, n_classes: int, width: int = 64) -> None:
        super().__init__()
        self.token = nn.Embedding(n_tokens, width, padding_idx=0)
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(width, n_classes))

    def forward(self, token_BT: torch.Tensor) -> torch.Tensor:
        n_B1 = (token_BT != 0).sum(1, keepdim=True).clamp(min=1)
        return self.head(self.token(token_BT).sum(1) / n_B1)
