"""What our lab adds to each of its projects: a cluster, a logbook, a command."""

import os
from pathlib import Path

FILE = "OURLAB_LOGBOOK"  # the variable that names the logbook; set in everyone's ~/.profile


def logbook_file() -> Path | None:
    """The logbook, with a line of JSON for each training; None where the variable is not set."""
    return Path(os.environ[FILE]) if FILE in os.environ else None
