"""A worker of a sweep whose points are runs without torch. Arguments: project, sweep directory, seconds of a point.

PYTHONPATH names the project's src.
"""

import sys
import time
from pathlib import Path

from labrig.project import Project
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.read.run import Run
from labrig.record.write.begin import begin_attempt
from labrig.record.write.create import create_run
from labrig.sweep.folder import Sweep
from labrig.sweep.points import RUN, Ended
from labrig.sweep.worker import work
from sweep_request import request_of

project = Project(Path(sys.argv[1]), "myproj")
DURATION_S = float(sys.argv[3])


def loss(params):
    """Least at lr=0.01."""
    return sum((float(value) - 0.01) ** 2 for value in params.values())


def objective(sweep, points, trial):
    run_dir = points.run_dir(trial)
    if run_dir is None:
        run = create_run(project, sweep.runs, request_of(sweep, trial))
        trial.set_user_attr(RUN, str(run.dir.relative_to(sweep.runs)))
    else:
        run = Run.open(run_dir)
    attempt = begin_attempt(run, project)
    log = MetricsLog(run.dir, attempt.n)
    log.append(1, 0, {"val/loss": loss(trial.params)})
    log.close()
    time.sleep(DURATION_S / 2)
    (run.checkpoints / "last.ckpt").write_bytes(b"weights")
    time.sleep(DURATION_S / 2)
    attempt.end("finished")
    return Ended.DONE


if __name__ == "__main__":
    sys.exit(work(Sweep.open(Path(sys.argv[2])), objective))
