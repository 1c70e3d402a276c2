"""CPU seconds of the record: freezing 5,000 files, starting a run, listing 10,000 runs; beside peers where they are.

    python benchmarks/record.py [ROUNDS]
    PEERS=/path/to/venv/bin:/path/to/another/bin python benchmarks/record.py     (pip install mlflow dvc; guildai apart)

Each figure is the median over the rounds of user + system time, children included; what is compared is measured in
turn, in each round. The limits are the design's.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
N_FILES, N_RUNS, N_PEERS = 5000, 10_000, 1000
WHO = ("-c", "user.name=b", "-c", "user.email=b@x.org")
IN_PROCESS = """
import json, os, resource, sys, time
from pathlib import Path
def cpu_s():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)
begin = cpu_s()
from myproj.lab.project import Project
from myproj.lab.record.begin import begin_attempt
from myproj.lab.record.create import RunRequest, create_run
from myproj.lab.record.snapshot import snapshot
imported = cpu_s()
project = Project.find()
snapshot(project.root)
frozen = cpu_s()
request = RunRequest(trial="baseline", config_yaml="seed: 0", overrides=[], argv=[], seed=0)
run = create_run(project, project.root / "runs", request)
begin_attempt(run, project)
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
    done = subprocess.run(
        command,
        cwd=folder,
        env=usual | places | variables,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def say(what: str, seconds: list[float], more: str = "") -> None:
    print(f"{what:<60}{statistics.median(seconds):8.3f} s   {more}", flush=True)


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *WHO, *words], cwd=folder, check=True, capture_output=True)


def starting(folder: Path, rounds: int) -> None:
    """A repository of 5,000 files, first with a remote, as projects have one, then without."""
    for n in range(N_FILES):
        path = folder / f"more/d{n % 100}/f{n}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{n}\n" * 50)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    git(folder, "clone", "-q", "--bare", ".", "../remote.git")
    git(folder, "remote", "add", "origin", "../remote.git")
    git(folder, "fetch", "-q", "origin")
    edited = folder / "more/d0/f0.txt"
    measure(folder, rounds, "clean", lambda n: None)
    measure(folder, rounds, "one file edited", lambda n: edited.write_text(f"edit {n}\n"))
    git(folder, "checkout", "-q", ".")
    git(folder, "remote", "remove", "origin")
    store = folder / "runs/.code"
    measure(
        folder,
        rounds,
        "no remote, first run of all",
        lambda n: shutil.rmtree(store, ignore_errors=True),
    )
    measure(folder, rounds, "no remote, clean", lambda n: None)
    measure(
        folder, rounds, "no remote, one file edited", lambda n: edited.write_text(f"edit {n}\n")
    )
    measure(folder, rounds, "no remote, a new HEAD", lambda n: commit(folder, edited, n))


def commit(folder: Path, path: Path, n: int) -> None:
    path.write_text(f"commit {n}\n")
    git(folder, "commit", "-q", "-a", "-m", f"commit {n}")


def measure(folder: Path, rounds: int, state: str, prepare: Callable[[int], object]) -> None:
    found = []
    for n in range(rounds):
        prepare(n)
        found.append(json.loads(cpu_s([sys.executable, "-c", IN_PROCESS], folder)[1]))
    say(f"snapshot, 5,000 files, {state}", [each["snapshot"] for each in found], "limit 0.15")
    whole = [each["import"] + each["start"] for each in found]
    say(f"record at start (with import), {state}", whole, "limit 0.3")


def make_runs(folder: Path, n_runs: int) -> None:
    """Ended runs of 20 trials, as `lab train` leaves them, without their other files."""
    shutil.rmtree(folder / "runs", ignore_errors=True)
    for k in range(n_runs):
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
        metrics = {"val/loss": k / n_runs, "val/acc": 0.9, "train/loss": 0.5, "test/acc": 0.9}
        times = {
            "started_unix_s": 1.0,
            "ended_unix_s": 2.0,
            "seconds": 1.0,
            "gpu_seconds": 0.0,
            "n_attempts": 1,
        }
        whole = (
            about
            | times
            | {"code": code, "metrics": metrics, "status": "finished", "exception": None}
        )
        (run / "summary.json").write_text(json.dumps(whole, indent=1))


def listing(folder: Path, rounds: int) -> None:
    make_runs(folder, N_RUNS)
    lab = [sys.executable, "-m", "myproj.lab"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "lab --help                                   (limit 0.15)": [*lab, "--help"],
        "lab runs list, 10,000 runs, no cache yet     (limit 2)": [*lab, "runs", "list"],
        "lab runs list, 10,000 runs                   (limit 0.3)": [
            *lab,
            "runs",
            "list",
            "--sort",
            "created",
        ],
        "the same, filtered and sorted": [
            *lab,
            "runs",
            "list",
            "val/loss<0.5",
            "--sort",
            "val/loss",
        ],
        "bare read of the 10,000 files": [sys.executable, "-c", BARE],
    }
    found = defaultdict(list)
    for _ in range(rounds):
        shutil.rmtree(folder.parent / "tmp")
        (folder.parent / "tmp").mkdir()
        for what, command in commands.items():
            seconds, text = cpu_s(command, folder)
            found[what].append(seconds)
            assert "10,000 runs " not in what or len(text.splitlines()) == N_RUNS + 1
    for what, seconds in found.items():
        say(what, seconds)


def peers(folder: Path, rounds: int) -> None:
    """Other tools' listings of 1,000 runs with one metric each. MLflow's runs are made by MLflow; of DVC and Guild, which
    take a second or more for each, one run is made and the others are copies of it."""
    make_runs(folder, N_PEERS)
    commands = {"lab runs list": ([sys.executable, "-m", "myproj.lab", "runs", "list"], folder, {})}
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
    found = defaultdict(list)
    for _ in range(rounds):
        for what, (command, place, variables) in commands.items():
            seconds, text = cpu_s(command, place, **variables)
            found[what].append(seconds)
            assert (
                text.count("\n") >= N_PEERS or text.strip() == str(N_PEERS) or "import" in what
            ), text[-500:]
    for what, seconds in found.items():
        ratios = [mine / own for mine, own in zip(seconds, found["lab runs list"], strict=True)]
        say(
            f"{what}, {N_PEERS:,} runs",
            seconds,
            f"{statistics.median(ratios):.1f} times lab; first {seconds[0]:.2f}",
        )


def mlflow(program: str, place: Path) -> dict:
    python, nothing = str(Path(program).with_name("python")), {"PYTHONPATH": ""}
    seconds, _ = cpu_s([python, "-c", MLFLOW_FILL, str(N_PEERS)], place, **nothing)
    say(
        "MLflow (SQLite): start, one metric, end of a run",
        [seconds / N_PEERS],
        "each, without import",
    )
    return {
        "MLflow search_runs": ([python, "-c", MLFLOW_LIST], place, nothing),
        "  of which import mlflow": ([python, "-c", "import mlflow"], place, nothing),
    }


def dvc(program: str, place: Path) -> dict:
    variables = {"PYTHONPATH": "", "DVC_NO_ANALYTICS": "1"}
    variables |= {
        f"GIT_{role}_{key}": "b@x.org"
        for role in ("AUTHOR", "COMMITTER")
        for key in ("NAME", "EMAIL")
    }
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
    variables = {"PYTHONPATH": "", "GUILD_HOME": str(home)}
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
