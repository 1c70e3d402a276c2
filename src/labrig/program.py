"""What a program of one's own needs: the log of its metrics, and the place of its process."""

from .machine.ranks import Ranks, discover
from .training.start.program_log import ProgramLog

__all__ = ["ProgramLog", "Ranks", "discover"]
