"""What the train.py of a project calls, in its order: settings, parts, fit, result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from .providers import provided
from .record.read.run import Run
from .record.write.recording import Recording
from .training.check import check_classes, run_final_test
from .training.checkpoints.resume_point import last_checkpoint
from .training.parts.accelerate import accelerate
from .training.parts.build import build_data, build_task
from .training.parts.data_change import data_record, print_data_change
from .training.parts.initialise import load_initial_weights
from .training.parts.settings import apply_settings, resolve_settings
from .training.parts.trainer import build_trainer

__all__ = [
    "Recording",
    "Run",
    "accelerate",
    "apply_settings",
    "build_data",
    "build_task",
    "build_trainer",
    "check_classes",
    "data_record",
    "forecast_from_bench",
    "last_checkpoint",
    "load_initial_weights",
    "print_data_change",
    "resolve_settings",
    "run_final_test",
]

if TYPE_CHECKING:
    from .bench.result import Forecast


def forecast_from_bench(config: DictConfig | dict[str, Any], tree: str | None) -> Forecast | None:
    """The forecast of these settings; None when this git tree was not benched with them.

    Args:
        config: as composed, before `auto` is resolved.
    """
    forecast = provided("forecast_from_bench")
    return forecast(config, tree) if forecast else None
