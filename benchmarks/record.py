"""CPU seconds of the record: freezing 5,000 files, starting a run, listing 10,000 runs; beside peers where they are.

    python benchmarks/record.py [ROUNDS]
    PEERS=/path/to/venv/bin/python python benchmarks/record.py     (a venv with mlflow: pip install mlflow)

Each figure is the median over the rounds of user + system time, children included. The limits are the design's.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
N_FILES, N_RUNS, N_MLFLOW = 5000, 10_000, 1000
IN_PROCESS = """
import json, os, resource, sys, time
from pathlib import Path
def cpu_s():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)
begin = cpu_s()
from myproj.lab.project import Project
from myproj.lab.record.run import Run
from myproj.lab.record.snapshot import snapshot
imported = cpu_s()
project = Project.find()
snapshot(project.root)
frozen = cpu_s()
run = Run.create(project, project.root / "runs", trial="baseline", config_yaml="seed: 0", overrides=[], argv=[], seed=0)
run.begin(project)
print(json.dumps({"import": imported - begin, "snapshot": frozen - imported, "start": cpu_s() - frozen}))
"""
BARE = "import glob, json; rows = [json.load(open(p)) for p in glob.glob('runs/*/*/summary.json')]; print(len(rows))"
MLFLOW_FILL = """
import sys
from mlflow import MlflowClient
client = MlflowClient("sqlite:///mlflow.db")
experiment = client.create_experiment("e")
for n in range(int(sys.argv[1])):
    run = client.create_run(experiment)
    client.log_metric(run.info.run_id, "loss", n)
    client.set_terminated(run.info.run_id)
"""
MLFLOW_LIST = """
from mlflow import MlflowClient
found = MlflowClient("sqlite:///mlflow.db").search_runs(["1"], max_results=50_000)
print(len(found))
"""


def cpu_s(command: list, folder: Path, **variables: str) -> tuple[float, str]:
    """User + system seconds of a command and its children, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    usual = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    places = {"PYTHONPATH": str(folder / "src"), "TMPDIR": str(folder.parent / "tmp")}
    given = usual | places | variables
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def say(what: str, seconds: list[float], limit: str = "") -> None:
    print(f"{what:<52}{statistics.median(seconds):8.3f} s   {limit}", flush=True)


def starting(folder: Path, rounds: int) -> None:
    """A repository of 5,000 files with a remote, as projects have one; then with an edit."""
    for n in range(N_FILES):
        path = folder / f"more/d{n % 100}/f{n}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{n}\n" * 50)
    who = ("-c", "user.name=b", "-c", "user.email=b@x.org")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        (*who, "commit", "-q", "-m", "x"),
        ("clone", "-q", "--bare", ".", "../remote.git"),
        ("remote", "add", "origin", "../remote.git"),
        ("fetch", "-q", "origin"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    for state in ("clean", "one file edited"):
        found = [json.loads(cpu_s([sys.executable, "-c", IN_PROCESS], folder)[1]) for _ in range(rounds)]
        say(f"snapshot, 5,000 files, {state}", [each["snapshot"] for each in found], "limit 0.15")
        whole = [each["import"] + each["start"] for each in found]
        say(f"record at start (with import), {state}", whole, "limit 0.3")
        (folder / "more/d0/f0.txt").write_text("edited\n")


def listing(folder: Path, rounds: int) -> None:
    shutil.rmtree(folder / "runs")
    for k in range(N_RUNS):
        run_id = f"20260101-{k // 3600:02}{k // 60 % 60:02}{k % 60:02}-{k:06x}"
        run = folder / f"runs/trial{k % 20}" / run_id
        run.mkdir(parents=True)
        about = {
            "schema": 1,
            "run_id": run_id,
            "trial": f"trial{k % 20}",
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
        metrics = {"val/loss": k / N_RUNS, "val/acc": 0.9, "train/loss": 0.5, "test/acc": 0.9}
        times = {
            "started_unix_s": 1.0,
            "ended_unix_s": 2.0,
            "seconds": 1.0,
            "gpu_seconds": 0.0,
            "n_attempts": 1,
        }
        whole = about | times | {"code": code, "metrics": metrics, "status": "finished", "exception": None}
        (run / "summary.json").write_text(json.dumps(whole, indent=1))
    lab = [sys.executable, "-m", "myproj.lab"]
    say("python -c pass", [cpu_s([sys.executable, "-c", "pass"], folder)[0] for _ in range(rounds)])
    say("lab --help", [cpu_s([*lab, "--help"], folder)[0] for _ in range(rounds)], "limit 0.15")
    cold = []
    for _ in range(rounds):
        shutil.rmtree(folder.parent / "tmp")
        (folder.parent / "tmp").mkdir()
        cold.append(cpu_s([*lab, "runs", "list"], folder)[0])
    say("lab runs list, 10,000 runs, no cache yet", cold, "limit 2")
    warm = [cpu_s([*lab, "runs", "list"], folder) for _ in range(rounds)]
    assert all(len(text.splitlines()) == N_RUNS + 1 for _, text in warm)
    say("lab runs list, 10,000 runs", [seconds for seconds, _ in warm], "limit 0.3")
    best = [cpu_s([*lab, "runs", "list", "val/loss<0.5", "--sort", "val/loss"], folder)[0] for _ in range(rounds)]
    say("the same, filtered and sorted", best)
    say(
        "bare read of the 10,000 files",
        [cpu_s([sys.executable, "-c", BARE], folder)[0] for _ in range(rounds)],
    )


def peers(folder: Path, rounds: int) -> None:
    python = os.environ.get("PEERS")
    if not python:
        print("peers: not measured; name a Python that has mlflow in PEERS")
        return
    fill = cpu_s([python, "-c", MLFLOW_FILL, str(N_MLFLOW)], folder, PYTHONPATH="")[0]
    print(f"{'MLflow (SQLite): start, one metric, end of a run':<52}{fill / N_MLFLOW:8.3f} s each")
    found = [cpu_s([python, "-c", MLFLOW_LIST], folder, PYTHONPATH="") for _ in range(rounds)]
    assert all(text.strip() == str(N_MLFLOW) for _, text in found)
    say(f"MLflow search_runs, {N_MLFLOW:,} runs (with import)", [seconds for seconds, _ in found])
    say(
        "  of which import",
        [cpu_s([python, "-c", "import mlflow"], folder, PYTHONPATH="")[0] for _ in range(rounds)],
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "myproj"
        (Path(name) / "tmp").mkdir()
        copy = [
            sys.executable,
            "-m",
            "copier",
            "copy",
            "--defaults",
            "-q",
            "--vcs-ref=HEAD",
            str(ROOT),
            str(project),
        ]
        subprocess.run(copy, check=True, stderr=subprocess.DEVNULL)
        starting(project, rounds)
        listing(project, rounds)
        peers(project, rounds)


if __name__ == "__main__":
    main()
