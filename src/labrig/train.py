"""What the train.py of a project calls, in its order: settings, parts, fit, result."""

from .bench.forecast import forecast_from_bench
from .record.read.run import Run
from .record.write.recording import Recording
from .training.check.classes import check_classes
from .training.check.final_test import run_final_test
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
