"""A project with many ended runs; for the benchmarks of the record, the trials and the report."""

import json
import shutil
from pathlib import Path


def settings_of(k: int, n_trials: int) -> dict:
    """About as many settings as a project has, with 8 learning rates, 50 seeds."""
    trainer = {f"key_{n}": n for n in range(20)} | {"max_epochs": 20}
    optimizer = {"_target_": "torch.optim.AdamW", "lr": 10 ** -(k % 8), "betas": [0.9, 0.999]}
    model = {
        "_target_": f"myproj.trials.trial{k % n_trials}.model.CNN",
        "width": 32,
        "n_classes": 10,
    }
    data = {f"key_{n}": "a value" for n in range(12)} | {"batch_size": 64, "seed": k % 50}
    others = {
        name: {f"key_{n}": "a value" for n in range(6)}
        for name in ("batch", "speed", "log", "checkpoint", "record", "schedule", "job", "paths")
    }
    return {
        "trial": f"trial{k % n_trials}",
        "seed": k % 50,
        "trainer": trainer,
        "optimizer": optimizer,
        "model": model,
        "data": data,
        **others,
    }


def make_runs(folder: Path, n_runs: int, n_trials: int = 20) -> None:
    """Ended runs, as `lab train` leaves them, without their other files."""
    shutil.rmtree(folder / "runs", ignore_errors=True)
    for k in range(n_runs):
        run_id = f"20260101-{k // 3600:02}{k // 60 % 60:02}{k % 60:02}-{k:06x}"
        run = folder / f"runs/trial{k % n_trials}" / run_id
        run.mkdir(parents=True)
        about = {
            "format": 1,
            "run_id": run_id,
            "trial": f"trial{k % n_trials}",
            "parent": None,
            "who": "ann",
            "why": None,
        }
        about |= {"created": "2026-01-01T00:00:00.000+00:00", "seed": 0, "config_sha256": "ab" * 32}
        code = {
            "commit": "ab" * 20,
            "tree": "cd" * 20,
            "branch": "main",
            "dirty": False,
            "trial_tree": "ef" * 20,
        }
        metrics = {"val/loss": k / n_runs, "val/acc": 0.9, "train/loss": 0.5, "test/acc": 0.9}
        times = {
            "started_unix_s": 1.0,
            "ended_unix_s": 2.0,
            "seconds": 1.0,
            "gpu_seconds": 0.0,
            "n_attempts": 1,
        }
        results = {"metrics": metrics, "status": "finished", "exception": None}
        whole = about | times | results | {"code": code, "settings": settings_of(k, n_trials)}
        (run / "summary.json").write_text(json.dumps(whole, indent=1))
