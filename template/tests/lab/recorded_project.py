# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A small project in git for tests of the record, without training."""

import os
import subprocess
from importlib import import_module
from pathlib import Path

PACKAGE = next(Path(__file__).parents[2].glob("src/*/lab")).parent.name


def module(name):
    """A module of lab/record, or of lab/ when the name begins with a dot."""
    return import_module(f"{PACKAGE}.lab{name}" if name.startswith(".") else f"{PACKAGE}.lab.record.{name}")


def git(folder, *arguments):
    who = {f"GIT_{role}_{key}": "t@x.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    own = who | {"GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=os.environ | own, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def make_project(folder):
    """A repository with the package, two trials and one commit; runs go to folder/runs."""
    for name in ("__init__.py", "trials/baseline/model.py", "trials/wide/model.py"):
        path = folder / "src" / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    (folder / ".gitignore").write_text("/runs\n/data\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return module(".project").Project(folder, PACKAGE)


def create(project, **changes):
    """A run as lab train makes it."""
    given = {
        "trial": "baseline",
        "config_yaml": "seed: 0\nmodel:\n  width: 32\n",
        "overrides": ["model.width=32"],
        "argv": ["lab", "train", "trial=baseline", "model.width=32"],
        "seed": 0,
    }
    return module("run").Run.create(project, project.root / "runs", **given | changes)


def train(project, status="finished", metrics=None, exception=None, **changes):
    """A run from start to end, with a checkpoint."""
    run = create(project, **changes)
    attempt = run.begin(project, accelerator="cpu", world_size=1)
    log = module("files").MetricsLog(run.dir, attempt.n)
    for step in (10, 20):
        log.append(step, 0, metrics or {"val/loss": 5 / step})
    log.close()
    (run.checkpoints / "last.ckpt").write_bytes(b"weights of " + run.id.encode())
    attempt.end(status, exception=exception)
    return run
