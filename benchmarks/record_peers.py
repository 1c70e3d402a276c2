"""Other tools that list 1,000 runs with one metric each, next to `lab runs list`.

MLflow's runs are made by MLflow. DVC and Guild take a second or more for each, so one run is made and the others
are copies of it.
"""

import json
import os
import shutil
import statistics
import subprocess
from collections import defaultdict
from pathlib import Path

from cpu_seconds import cpu_s, say
from made_runs import make_runs
from project_copy import LAB  # first: it makes tests/helpers importable

# isort: split
from repositories import IDENTITY, git

N_PEERS = 1000
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


def peers(folder: Path, tmp: Path, rounds: int) -> None:
    """Times the listing of each tool that PEERS has."""
    make_runs(folder, N_PEERS)
    commands = {"lab runs list": ([*LAB, "runs", "list"], folder, {"TMPDIR": str(tmp)})}
    makers = {"mlflow": mlflow, "dvc": dvc, "guild": guild}
    for name, make in makers.items():
        program = shutil.which(name, path=os.environ.get("PEERS", ""))
        if program is None:
            print(f"{name}: not measured; name the bin directory that has it in PEERS")
            continue
        place = folder.parent / name
        place.mkdir()
        (place / "train.py").write_text("lr = 0.1\nprint(f'loss: {lr * 3}')\n")
        commands |= make(program, place)
    figures = defaultdict(list)
    for _ in range(rounds):
        for what, (command, place, variables) in commands.items():
            seconds, text = cpu_s(command, place, **variables)
            figures[what].append(seconds)
            lists_all = text.count("\n") >= N_PEERS or text.strip() == str(N_PEERS)
            assert lists_all or "import" in what, text[-500:]
    for what, seconds in figures.items():
        ratios = [peer / lab for peer, lab in zip(seconds, figures["lab runs list"], strict=True)]
        say(
            f"{what}, {N_PEERS:,} runs",
            seconds,
            f"{statistics.median(ratios):.1f} times lab; first {seconds[0]:.2f}",
        )


def mlflow(program: str, place: Path) -> dict:
    python = str(Path(program).with_name("python"))
    seconds, _ = cpu_s([python, "-c", MLFLOW_FILL, str(N_PEERS)], place)
    say(
        "MLflow (SQLite): start, one metric, end of a run",
        [seconds / N_PEERS],
        "each, without import",
    )
    return {
        "MLflow search_runs": ([python, "-c", MLFLOW_LIST], place, {}),
        "  of which import mlflow": ([python, "-c", "import mlflow"], place, {}),
    }


def dvc(program: str, place: Path) -> dict:
    variables = {"DVC_NO_ANALYTICS": "1"} | IDENTITY
    git(place, "init", "-q", "-b", "main")
    cpu_s([program, "init", "-q"], place, **variables)
    (place / "dvc.yaml").write_text("metrics:\n- metrics.json\n")
    (place / "metrics.json").write_text('{"loss": 1.0}\n')
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "x")
    (place / "metrics.json").write_text('{"loss": 0.5}\n')
    say(
        "dvc exp save",
        [cpu_s([program, "exp", "save", "-n", "first"], place, **variables)[0]],
        "with import",
    )
    names = subprocess.check_output(
        ["git", "for-each-ref", "--format=%(refname)", "refs/exps"], cwd=place, text=True
    )
    first = next(name for name in names.splitlines() if name.endswith("/first"))
    baseline = "".join(first.split("/")[2:4])
    stream = ""
    for n in range(N_PEERS - 1):
        text = json.dumps({"loss": n / N_PEERS}) + "\n"
        stream += f"commit {first[:-5]}run{n}\ncommitter b <b@x.org> {1_800_000_000 + n} +0000\ndata 1\nx\n"
        stream += f"from {baseline}\nM 100644 inline metrics.json\ndata {len(text)}\n{text}\n"
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=place, input=stream, text=True, check=True
    )
    return {"dvc exp show": ([program, "exp", "show", "--csv"], place, variables)}


def guild(program: str, place: Path) -> dict:
    home = place.parent / "guild-home"
    (home / "runs").mkdir(parents=True)
    variables = {"GUILD_HOME": str(home)}
    say(
        "guild run",
        [cpu_s([program, "run", "train.py", "-y"], place, **variables)[0]],
        "with import",
    )
    first = next((home / "runs").iterdir())
    for n in range(N_PEERS - 1):
        copy = shutil.copytree(first, home / "runs" / f"{n:032x}", symlinks=True)
        (copy / ".guild/attrs/id").write_text(f"{n:032x}")
    return {"guild runs list": ([program, "runs", "list", "--all"], place, variables)}
