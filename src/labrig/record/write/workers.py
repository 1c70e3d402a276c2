"""Worker processes of a training load the project's modules as they were frozen.

ran.py has them import this module first, and the loader the server that starts its workers.
"""

from __future__ import annotations

import os
from pathlib import Path

from ... import env
from ...project import this_project
from ..freeze.loading import OWN
from ..read.attempt_files import read_attempt
from ..read.run import Run
from .ran import code_of_process, imported_code


def load_frozen_code() -> None:
    """Loads modules from now on as the attempt that this process belongs to has frozen them."""
    run = Run.open(Path(os.environ[env.RUN_DIR]))
    OWN.report_to(run.dir / "attempts" / os.environ[env.ATTEMPT])
    start = read_attempt(run.dir, int(os.environ[env.ATTEMPT])).start
    imported_code(this_project(), code_of_process(run, start))


if env.RUN_DIR in os.environ and env.ATTEMPT in os.environ:
    load_frozen_code()
