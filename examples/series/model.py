"""A recurrent network that corrects the value of a week ago."""

import torch
from torch import nn

SCALE_MW = 100.0  # the network computes with numbers of about -1..1
WEEK = 7  # days


class Forecast(nn.Module):
    """The next value (B,) in MW, for past values (B, T) in MW with T >= 7."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.network = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, past_BT: torch.Tensor) -> torch.Tensor:
        week_ago_B = past_BT[:, -WEEK]
        relative_BT1 = ((past_BT - past_BT.mean(1, keepdim=True)) / SCALE_MW)[:, :, None]
        output_BTW, _ = self.network(relative_BT1)
        return week_ago_B + SCALE_MW * self.head(output_BTW[:, -1])[:, 0]
