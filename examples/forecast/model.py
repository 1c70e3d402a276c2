"""A recurrent network that corrects the values of a week ago."""

import torch
from torch import nn

WEEK = 7  # days


class Forecast(nn.Module):
    """The next `n_next` values (B, n_next), for past values (B, n_past) and a second series (B, n_past + n_next)
    that is known ahead, all standardised.
    """

    def __init__(self, n_past: int, n_next: int, width: int = 32) -> None:
        super().__init__()
        self.n_past = n_past
        self.n_next = n_next
        self.network = nn.GRU(2, width, batch_first=True)
        self.head = nn.Linear(width + n_next, n_next)

    def forward(self, past_BP: torch.Tensor, known_BT: torch.Tensor) -> torch.Tensor:
        level_B1 = past_BP.mean(1, keepdim=True)
        seen_BP2 = torch.stack([past_BP - level_B1, known_BT[:, : self.n_past]], 2)
        output_BPW, _ = self.network(seen_BP2)
        state = torch.cat([output_BPW[:, -1], known_BT[:, self.n_past :]], 1)
        return week_ago(past_BP, self.n_next) + self.head(state)


def week_ago(past_BP: torch.Tensor, n_next: int) -> torch.Tensor:
    """The values of a week before, again for each week to come: (B, n_next)."""
    n_weeks = -(-n_next // WEEK)
    return past_BP[:, -WEEK:].repeat(1, n_weeks)[:, :n_next]
