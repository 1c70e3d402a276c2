"""A stand-in for a training: creates a run, logs, writes a checkpoint, ends. Arguments: project, steps."""

import sys
from importlib import import_module
from pathlib import Path

root = Path(sys.argv[1])
package = next(root.glob("src/*/lab")).parent.name
sys.path.insert(0, str(root / "src"))
record = f"{package}.lab.record"
project = import_module(f"{package}.lab.project").Project(root, package)
run = import_module(f"{record}.run").Run.create(
    project,
    root / "runs",
    trial="baseline",
    config_yaml="seed: 0\n",
    overrides=[],
    argv=sys.argv,
    seed=0,
)
attempt = run.begin(project)
log = import_module(f"{record}.metrics_file").MetricsLog(run.dir, attempt.n)
for step in range(int(sys.argv[2])):
    log.append(step, 0, {"train/loss": 1 / (step + 1)})
    attempt.beat()
    (run.checkpoints / "last.ckpt").write_bytes(b"x" * 100_000)
attempt.end("finished")
