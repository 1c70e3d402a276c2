"""Runs for the tests of the report: seeds, a sweep, pictures, and names and notes that an attacker chose."""

import base64
import json

from labrig.project import Project
from labrig.record.keep.annotate import annotate
from record_package import make_project, train
from repositories import write

# Each would do harm where text becomes markup, ends a script, ends a line, or reaches a terminal.
MARKUP = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
HOSTILE = f"{MARKUP}{IMAGE}</title>\u2028\x1b[2J\x1b]0;title\x07\u202e"
PIXEL_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SETTINGS = (
    "seed: {seed}\noptimizer:\n  _target_: torch.optim.SGD\n  lr: {lr}\nmodel:\n  width: {width}\n"
)
README = """# wide

**Question.** Does width help?

**Parent.** [baseline](../baseline/README.md)

**Verdict.** Open.
"""


class OwnSource(Project):
    """A project whose trials are its own, and not those of the code that runs."""

    @property
    def source(self):
        return self.root / "src" / self.package


def make_runs(folder):
    """A project with 2 × 3 seeds of two learning rates, a failed run, and one of hostile texts."""
    project = OwnSource(make_project(folder).root, "myproj")
    trials = "src/myproj/trials"
    write(
        folder,
        {
            f"{trials}/baseline/config.yaml": "{}\n",
            f"{trials}/wide/config.yaml": "{}\n",
            f"{trials}/wide/README.md": README,
            "src/myproj/conf/config.yaml": "{}\n",
        },
    )
    for lr in (0.1, 0.001):
        for seed in range(3):
            loss = lr + seed / 100
            run = settled(
                project, lr=lr, seed=seed, metrics={"val/loss": loss, "val/acc": 1 - loss}
            )
            write_curve(run, loss, step_s=20)
    write_pictures(run)
    settled(project, status="failed", exception=RuntimeError(HOSTILE), trial="wide")
    hostile = settled(
        project,
        lr=0.01,
        trial=MARKUP.replace("/", "+"),
        why=HOSTILE,
        metrics={f"val/{MARKUP}": 1.0, "val/loss": 0.5},
        more=f"note: {json.dumps(HOSTILE)}\n",
    )
    annotate(hostile, note=HOSTILE)
    return project


def settled(project, lr=0.1, seed=0, width=32, more="", **changes):
    """A run with these settings that has ended."""
    settings = SETTINGS.format(lr=lr, seed=seed, width=width) + more
    return train(project, config_yaml=settings, seed=seed, **changes)


def write_curve(run, loss, step_s):
    """The curve of a run of two epochs: 40 steps, falling to `loss`, with one peak."""
    rows = []
    for step in range(1, 41):
        value = 9.0 if step == 17 else loss + 1 / step
        about = {
            "step": step,
            "epoch": (step - 1) // 20,
            "attempt": 1,
            "time_unix_s": 1e9 + step_s * step,
        }
        rows.append(json.dumps(about | {"train/loss": value}))
        if step % 20 == 0:
            rows.append(json.dumps(about | {"val/loss": loss * 40 / step}))
    (run.dir / "metrics.jsonl").write_text("\n".join(rows) + "\n")


def write_pictures(run):
    """A picture and a table, as the callbacks of a training leave them."""
    folder = run.dir / "pictures"
    folder.mkdir()
    (folder / "step-40.png").write_bytes(PIXEL_PNG)
    (folder / "confusion.csv").write_text(f"label,right\n{MARKUP},5\n")
