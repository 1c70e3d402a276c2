"""A small transformer that reads from left to right (GPT)."""

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional as F


class Layer(nn.Module):
    """Attention to earlier places, then a network for each place."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.network = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x_BTW: torch.Tensor) -> torch.Tensor:
        B, T, W = x_BTW.shape
        # Head by head, so that a part of the rows makes whole heads: see `parallelize`.
        parts = self.attention(self.norm(x_BTW)).view(B, T, -1, 3, W // self.n_heads)
        query, key, value = parts.permute(3, 0, 2, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x_BTW = x_BTW + self.project(mixed.transpose(1, 2).flatten(2))
        return x_BTW + self.network(x_BTW)


class GPT(nn.Module):
    """Scores (B, T, n_tokens) of the next token, for tokens (B, T) with T <= n_context."""

    def __init__(
        self,
        n_tokens: int = 256,
        n_context: int = 64,
        width: int = 96,
        n_layers: int = 2,
        n_heads: int = 4,
    ) -> None:
        super().__init__()
        self.n_context = n_context
        self.token = nn.Embedding(n_tokens, width)
        self.place = nn.Embedding(n_context, width)
        self.layers = nn.Sequential(*[Layer(width, n_heads) for _ in range(n_layers)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, n_tokens))

    def forward(self, token_BT: torch.Tensor) -> torch.Tensor:
        places = torch.arange(token_BT.shape[1], device=token_BT.device)
        return self.head(self.layers(self.token(token_BT) + self.place(places)))

    def parallelize(self, mesh: DeviceMesh) -> None:
        """Divides each layer among the processes of `mesh`: speed.tensor_parallel=2, or 4.

        Of two matrices in a row the first is cut by rows, the second by columns, so that the
        processes exchange only once, after the second.
        """
        first, second = ColwiseParallel(), RowwiseParallel()
        plan = {"attention": first, "project": second, "network.1": first, "network.3": second}
        for layer in self.layers:
            parallelize_module(layer, mesh, plan)

    @torch.no_grad()
    def write(self, beginning: str, n: int = 300, temperature: float = 0.7) -> str:
        """`beginning`, and `n` bytes more."""
        tokens = torch.tensor([list(beginning.encode())])
        for _ in range(n):
            score = self(tokens[:, -self.n_context :])[0, -1] / temperature
            following = torch.multinomial(score.softmax(0), 1)
            tokens = torch.cat([tokens, following[None]], dim=1)
        return bytes(tokens[0].tolist()).decode(errors="replace")
