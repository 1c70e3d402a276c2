# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What runs from frozen code: its check before anything is sent, and every rank of a job.

Submit starts the check as a process of its own: python -m <package>.lab.cluster.frozen SETTINGS
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..config.compose import Composition
from ..errors import Failed, LabError, Refused
from ..machine.node import PREEMPTION, STOP
from ..machine.ranks import discover
from ..project import Project
from ..record.run import Run
from ..record.snapshot import Git
from .scheduler import clean_environment

NOT_CODE = re.compile(r"(data|runs|\.venv|\.git|\.env)(/|$)|.*(__pycache__|\.egg-info|\.dist-info)/")  # never frozen


def check_frozen(project: Project, code: dict[str, Any], frozen: Path, point: Composition) -> None:
    """Runs `lab check` in `frozen`, the unpacked snapshot.

    Raises:
        Refused: it wanted a file of the repository that the snapshot lacks, or two checkpoints do not fit on the disk.
        LabError: what the check said.
    """
    source = frozen / code["prefix"]
    own = {"PYTHONPATH": str(source / "src"), "PYTHONSAFEPATH": "1"}
    own |= {"LAB_FROZEN": str(frozen), "LAB_PROJECT": str(project.root)}
    command = [sys.executable, "-m", f"{project.package}.lab.cluster.frozen", *point.overrides]
    done = subprocess.run(command, env=clean_environment() | own, cwd=source, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"the check of the frozen code ended with code {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    refuse_lacking(project, code, frozen, said["wanted"])
    if said["error"]:
        raise LabError(f"the frozen code fails its check: {said['error'].replace(str(frozen), '<snapshot>')}")
    place = Path(point.config.paths.checkpoints or point.config.paths.runs)
    while not place.exists():
        place = place.parent
    # two checkpoints: weights and two moments of the optimizer, 4 bytes each
    need_MB, free_MB = 2 * 12 * said["parameters"] / 1e6, shutil.disk_usage(place).free / 1e6
    if free_MB < need_MB:
        raise Refused(
            f"two checkpoints, {need_MB:,.0f} MB in all, do not fit on the disk of {place} ({free_MB:,.0f} MB free).\n"
            "Make space (lab runs prune), or set paths.checkpoints to a larger disk."
        )


def refuse_lacking(project: Project, code: dict[str, Any], frozen: Path, names: Iterable[str]) -> None:
    """Compares files that a run needs, relative to the project, with the snapshot in `frozen`.

    Raises:
        Refused: the project has some that the snapshot lacks; with the rule that left each out.
    """
    here = [name for name in sorted(set(names)) if not NOT_CODE.match(name) and (project.root / name).is_file()]
    lacking = [name for name in here if not (frozen / code["prefix"] / name).exists()]
    if lacking:
        rules = "\n".join(f"  {name}: {rule(project, code, name)}" for name in lacking)
        raise Refused(f"nothing was sent: the snapshot lacks files that the job needs:\n{rules}")


def rule(project: Project, code: dict[str, Any], name: str) -> str:
    """Why the snapshot left a file out."""
    for entry in code["skipped"]:
        if entry["path"] == code["prefix"] + name:
            return entry["reason"]
    said = Git(project.root).run("check-ignore", "--verbose", "--no-index", name).stdout.partition("\t")[0]
    if said:
        file, line, pattern = said.split(":", 2)
        return f"ignored by {pattern!r} in {file}:{line}; add !{name} below it, or git add -f {name}"
    return "it lies outside what the snapshot holds"


def main(overrides: list[str]) -> None:
    """The check; its last line is JSON: the error, the number of parameters, and the files and modules it wanted."""
    wanted: set[str] = set()

    def note(event: str, values: tuple) -> None:
        if event == "open" and isinstance(values[0], str):
            wanted.add(values[0])
        elif event == "import":
            module = f"src/{values[0].replace('.', '/')}"
            wanted.update((f"{module}.py", f"{module}/__init__.py"))

    sys.addaudithook(note)
    from ..fit.start import check

    error, parameters = None, 0
    try:
        found = re.search(r"([\d,]+) parameters", check(Project.find(), overrides))
        parameters = int(found[1].replace(",", "")) if found else 0
    except Exception as problem:  # whatever it is: what it wanted may be the reason
        error = str(problem) if isinstance(problem, LabError) else "".join(traceback.format_exception(problem))
    roots = (os.environ["LAB_PROJECT"] + "/", os.getcwd() + "/")
    names = {name.removeprefix(roots[0]).removeprefix(roots[1]) for name in set(wanted)}
    inside = sorted(name for name in names if not name.startswith(("/", "..")))
    print(json.dumps({"error": error, "parameters": parameters, "wanted": inside}))


def rank_command(project: Project, args: list[str]) -> int:
    """`lab rank` trains, `lab rank -- COMMAND` runs any command; both only inside a job."""
    STOP.listen(*PREEMPTION)
    if "LAB_RUN_DIR" not in os.environ:
        raise LabError("lab rank is started by a job script. To train here: lab train; to send a job: lab submit")
    run, rank = Run.open(Path(os.environ["LAB_RUN_DIR"])), discover().rank
    if rank == 0:
        follow(run)
    if args[:1] == ["--"]:
        return run_command(project, run, args[1:], rank)
    from ..fit.start import attempt, join

    if rank == 0:
        return attempt(project, run, overrides=[])
    os.environ["LAB_ATTEMPT"] = os.environ["LAB_NEXT_ATTEMPT"]
    return join()


def follow(run: Run) -> None:
    """A job that went on as a new one left what the scheduler said of it; the record gets the new id."""
    said, job = run.dir / "resubmitted", run.record.get("job") or {}
    if said.exists() and (number := re.search(r"[1-9]\d*", said.read_text(encoding="utf-8"))):
        in_array = re.sub(r"^\d+", "", job["id"])
        run.update(job=job | {"id": number[0] + in_array})


def run_command(project: Project, run: Run, command: list[str], rank: int) -> int:
    """Runs `command` as an attempt of `run`, which the first rank records; its exit code is ours, signals reach it too.

    Raises:
        Failed: the command does not exist.
    """
    attempt = run.begin(project, command=command) if rank == 0 else None
    inherited = {key: value for key, value in os.environ.items() if key not in ("LAB_RUN_DIR", "LAB_ATTEMPT")}
    inherited["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
    try:  # while we listen: an ignored signal would stay ignored in it
        process = subprocess.Popen(command, env=inherited)
    except OSError as error:
        if attempt:
            attempt.end("failed", exception=error)
        raise Failed(f"cannot start {command[0]!r}: {error.strerror}") from error
    for signum in PREEMPTION:
        signal.signal(signum, lambda number, _: process.send_signal(signal.SIGTERM))
    code = process.wait()
    if attempt:
        attempt.end("finished" if code == 0 else "interrupted" if code < 0 else "failed", exit_code=code)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main(sys.argv[1:])
