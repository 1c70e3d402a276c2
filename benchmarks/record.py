"""CPU seconds of the record: freezing 5,000 files, starting a run, listing 10,000 runs; next to peers where possible.

    python benchmarks/record.py [ROUNDS]
    PEERS=/path/to/venv/bin:/path/to/another/bin python benchmarks/record.py     (pip install mlflow dvc; guildai apart)

Each figure is the median over the rounds of user + system time, children included; what is compared is measured in
turn, in each round. The limits are the design's.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from record_measure import cpu_s, git, make_runs, say
from record_peers import peers

ROOT = Path(__file__).resolve().parents[1]
N_FILES = 5000
N_RUNS = 10_000
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
    figures = []
    for n in range(rounds):
        prepare(n)
        _, answer = cpu_s([sys.executable, "-c", IN_PROCESS], folder)
        figures.append(json.loads(answer))
    snapshots = [seconds["snapshot"] for seconds in figures]
    starts = [seconds["import"] + seconds["start"] for seconds in figures]
    say(f"snapshot, 5,000 files, {state}", snapshots, "limit 0.15")
    say(f"record at start (with import), {state}", starts, "limit 0.3")


def listing(folder: Path, rounds: int) -> None:
    make_runs(folder, N_RUNS)
    python = sys.executable
    lab = [python, "-m", "myproj.lab"]
    listed = [*lab, "runs", "list"]
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "lab --help                                   (limit 0.15)": [*lab, "--help"],
        "lab runs list, 10,000 runs, no cache yet     (limit 2)": listed,
        "lab runs list, 10,000 runs                   (limit 0.3)": [*listed, "--sort", "created"],
        "the same, filtered and sorted": [*listed, "val/loss<0.5", "--sort", "val/loss"],
        "bare read of the 10,000 files": [python, "-c", BARE],
    }
    figures = defaultdict(list)
    for _ in range(rounds):
        shutil.rmtree(folder.parent / "tmp")
        (folder.parent / "tmp").mkdir()
        for what, command in commands.items():
            seconds, text = cpu_s(command, folder)
            figures[what].append(seconds)
            assert "10,000 runs " not in what or len(text.splitlines()) == N_RUNS + 1
    for what, seconds in figures.items():
        say(what, seconds)


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
