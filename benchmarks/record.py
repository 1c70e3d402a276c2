"""CPU seconds of the record: freezing 5,000 files and the library, starting a run, listing 10,000 runs; next to peers.

    python benchmarks/record.py [ROUNDS]
    PEERS=/path/to/venv/bin:/path/to/another/bin python benchmarks/record.py     (pip install mlflow dvc; guildai apart)

Each figure is the median over the rounds of user + system time, children included; what is compared is measured in
turn, in each round. The limits are the design's.
"""

import json
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from cpu_seconds import cpu_s, say
from made_runs import make_runs
from project_copy import LAB, make_project
from record_peers import peers
from repositories import commit, git

N_FILES = 5000
N_RUNS = 10_000
LIBRARY_LIMIT_S = 0.015  # of freezing the library that lies in the store already
# The library is frozen within the start of a run, which reads the list of packages anyway. So the
# import of importlib.metadata is a part of the imports.
IN_PROCESS = """
import json, resource
def cpu_s():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)
begin_s = cpu_s()
import importlib.metadata
from labrig.project import Project
from labrig.record.freeze import frozen
from labrig.record.write.begin import begin_attempt
from labrig.record.write.create import RunRequest, create_run
from labrig.record.freeze.snapshot import snapshot
imported_s = cpu_s()
library_s = []
freeze_library = frozen.freeze_library
def timed(store):
    library_begin_s = cpu_s()
    code = freeze_library(store)
    library_s.append(cpu_s() - library_begin_s)
    return code
frozen.freeze_library = timed
project = Project.find()
snapshot(project.root)
frozen_s = cpu_s()
request = RunRequest(trial="baseline", config_yaml="seed: 0", overrides=[], argv=[], seed=0)
run = create_run(project, project.root / "runs", request)
begin_attempt(run, project)
started_s = cpu_s()
print(json.dumps({
    "snapshot": frozen_s - imported_s,
    "library": sum(library_s),
    "start": imported_s - begin_s + started_s - frozen_s,
}))
"""
BARE = "import glob, json; rows = [json.load(open(p)) for p in glob.glob('runs/*/*/summary.json')]; print(len(rows))"


def starting(folder: Path, tmp: Path, rounds: int) -> None:
    """A repository of 5,000 files, first with a remote, as projects have one, then without."""
    for n in range(N_FILES):
        path = folder / f"more/d{n % 100}/f{n}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{n}\n" * 50)
    commit(folder, "Add 5,000 files")
    git(folder, "clone", "-q", "--bare", ".", "../remote.git")
    git(folder, "remote", "add", "origin", "../remote.git")
    git(folder, "fetch", "-q", "origin")
    edited = folder / "more/d0/f0.txt"
    store = folder / "runs/.code"

    def forget_bundles(n: int) -> None:
        shutil.rmtree(store, ignore_errors=True)

    def edit(n: int) -> None:
        edited.write_text(f"edit {n}\n")

    def edit_and_commit(n: int) -> None:
        edited.write_text(f"commit {n}\n")
        commit(folder, f"commit {n}")

    measure(folder, tmp, rounds, "first run of this labrig", forget_bundles)
    sizes_MB = [path.stat().st_size / 1e6 for path in store.glob("labrig-frozen/*.bundle")]
    print(
        f"{'bundle of the library, once for each version':<60}{sizes_MB[0]:8.3f} MB  limit about 1"
    )
    measure(folder, tmp, rounds, "clean", lambda n: None)
    measure(folder, tmp, rounds, "one file edited", edit)
    git(folder, "checkout", "-q", ".")
    git(folder, "remote", "remove", "origin")
    measure(folder, tmp, rounds, "no remote, first run of all", forget_bundles)
    measure(folder, tmp, rounds, "no remote, clean", lambda n: None)
    measure(folder, tmp, rounds, "no remote, one file edited", edit)
    measure(folder, tmp, rounds, "no remote, a new HEAD", edit_and_commit)


def measure(
    folder: Path, tmp: Path, rounds: int, state: str, prepare: Callable[[int], object]
) -> None:
    figures = defaultdict(list)
    for n in range(rounds):
        prepare(n)
        _, answer = cpu_s([sys.executable, "-c", IN_PROCESS], folder, TMPDIR=str(tmp))
        for part, seconds in json.loads(answer).items():
            figures[part].append(seconds)
    say(f"snapshot, 5,000 files, {state}", figures["snapshot"], "limit 0.15")
    first = "first run" in state
    limit = "with its bundle" if first else f"limit {LIBRARY_LIMIT_S}"
    say(f"freezing the library, {state}", figures["library"], limit)
    say(f"record at start (with import), {state}", figures["start"], "limit 0.3")


def listing(folder: Path, tmp: Path, rounds: int) -> None:
    make_runs(folder, N_RUNS)
    python = sys.executable
    listed = [*LAB, "runs", "list"]
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "lab --help                                   (limit 0.15)": [*LAB, "--help"],
        "lab runs list, 10,000 runs, no cache yet     (limit 2)": listed,
        "lab runs list, 10,000 runs                   (limit 0.3)": [*listed, "--sort", "created"],
        "the same, filtered and sorted": [*listed, "val/loss<0.5", "--sort", "val/loss"],
        "bare read of the 10,000 files": [python, "-c", BARE],
    }
    figures = defaultdict(list)
    for _ in range(rounds):
        shutil.rmtree(tmp)  # which holds the cache of rows
        tmp.mkdir()
        for what, command in commands.items():
            seconds, text = cpu_s(command, folder, TMPDIR=str(tmp))
            figures[what].append(seconds)
            assert "10,000 runs " not in what or len(text.splitlines()) == N_RUNS + 1
    for what, seconds in figures.items():
        say(what, seconds)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        project = make_project(Path(name))
        tmp = Path(name) / "tmp"
        tmp.mkdir()
        starting(project, tmp, rounds)
        listing(project, tmp, rounds)
        peers(project, tmp, rounds)


if __name__ == "__main__":
    main()
