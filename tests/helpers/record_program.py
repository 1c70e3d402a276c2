"""A stand-in for a training: creates a run, logs, writes a checkpoint, ends. Arguments: project, steps.

PYTHONPATH names the project's src.
"""

import sys
from pathlib import Path

from labrig.project import Project, enter
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.write.begin import begin_attempt
from labrig.record.write.create import RunRequest, create_run

ROOT = Path(sys.argv[1])
N_STEPS = int(sys.argv[2])

project = Project(ROOT, "myproj")
enter(project)
request = RunRequest(trial="baseline", config_yaml="seed: 0\n", overrides=[], argv=sys.argv, seed=0)
run = create_run(project, ROOT / "runs", request)
attempt = begin_attempt(run, project)
log = MetricsLog(run.dir, attempt.n)
for step in range(N_STEPS):
    log.append(step, 0, {"train/loss": 1 / (step + 1)})
    attempt.touch_heartbeat()
    (run.checkpoints / "last.ckpt").write_bytes(b"x" * 100_000)
attempt.end("finished")
