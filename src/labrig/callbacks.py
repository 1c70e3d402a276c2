"""Callbacks that a configuration may name, next to all of lightning.pytorch.callbacks."""

from typing import TYPE_CHECKING, Any

from .providers import provided
from .training.parts.accumulation import Overfit
from .training.parts.schedule import LearningRates
from .training.pictures.pictures import Pictures

if TYPE_CHECKING:
    from .sweep.pruning import Pruning

__all__ = ["LearningRates", "Overfit", "Pictures", "Pruning"]


def __getattr__(name: str) -> Any:
    """Pruning is of the room sweep, which need not be installed."""
    pruning = provided("pruning") if name == "Pruning" else None
    if pruning is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return pruning
