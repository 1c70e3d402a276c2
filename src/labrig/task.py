"""What the task.py of a project and its schedules are made of."""

from .training.parts.schedule import scheduled, warmup_cosine

__all__ = ["scheduled", "warmup_cosine"]
