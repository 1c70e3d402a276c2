"""Compares the final weights of two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .outcome import final_weights
from .run import Run

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class WeightsVerdict:
    """Whether two runs ended with the same weights; None when they cannot be compared."""

    agree: bool | None
    text: str


def compare_weights(a: Run, b: Run) -> WeightsVerdict:
    """Compares the `state_dict` of both final checkpoints byte by byte."""
    paths = [final_weights(run.checkpoints) for run in (a, b)]
    if not all(path.exists() for path in paths):
        return WeightsVerdict(None, "weights are not compared, a final checkpoint is missing")
    import torch  # slow, and nothing else here needs it

    left, right = (
        torch.load(path, map_location="cpu", weights_only=True)["state_dict"] for path in paths
    )
    shapes = [{name: tensor.shape for name, tensor in state.items()} for state in (left, right)]
    if shapes[0] != shapes[1]:
        return WeightsVerdict(False, "the weights differ in names or shapes")
    if all(same_bytes(left[name], right[name]) for name in left):
        return WeightsVerdict(True, "the weights are identical")
    largest = max(largest_difference(left[name], right[name]) for name in left)
    return WeightsVerdict(False, f"the weights differ, by {largest:.2g} at most")


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same type, shape and bytes, so that NaN equals itself."""
    import torch

    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bytes_a, bytes_b = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b))
    return torch.equal(bytes_a, bytes_b)


def largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest distance of two entries of the same place; NaN counts as 0."""
    if a.numel() == 0:
        return 0.0
    return float((a.double() - b.double()).abs().nan_to_num().max())
