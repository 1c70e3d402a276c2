# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab doctor`: what is wrong with this machine; each finding with what to do."""

from __future__ import annotations

import argparse
import os
import shutil
import site as python_site
import socket
import sys
import textwrap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ..errors import Failed
from ..machine.cpu import cores
from ..machine.disk import filesystem_type, lustre_stripes
from ..machine.gpu import gpus, some_are_connected_through_cpus
from ..machine.memory import memory_limit_bytes
from ..project import Project
from .doctor_nodes import examine_nodes
from .jobs import JOB_VARIABLES
from .scheduler import run_scheduler_command

MANY_FILES = 100_000  # in a data directory or an environment: more than a metadata server likes
NETWORK_DISKS = ("lustre", "nfs", "nfs4", "gpfs", "beegfs")
HELP_DESK = "tell the help desk which node; until then leave it out: job.exclude=NODE"
Finding = tuple[str, str, str]  # "ok", "note" or "wrong"; what was found; what to do, empty when ok


def doctor_command(project: Project, args: list[str]) -> int:
    """Prints the findings; exit code 1 when something is wrong."""
    if "--nodes" in args:
        return examine_nodes(project, [word for word in args if word != "--nodes"])
    parser = argparse.ArgumentParser(prog="lab doctor", description=__doc__)
    parser.add_argument(
        "--nodes",
        action="store_true",
        help="a short job that examines nodes; takes job.* and site=",
    )
    parser.parse_args(args)
    worst = 0
    for check in (machine, numerics, gpu_health, disks, python, repository, tracking, scheduler):
        print(check.__name__.replace("_", " "))
        for level, found, advice in findings(check, project):
            worst = max(worst, int(level == "wrong"))
            print(
                textwrap.fill(
                    found, 80, initial_indent=f"  {level:<5}  ", subsequent_indent=" " * 9
                )
            )
            if advice:
                print(
                    textwrap.fill(
                        advice, 80, initial_indent=" " * 9 + "-> ", subsequent_indent=" " * 12
                    )
                )
    return worst


def findings(check, project: Project) -> list[Finding]:
    """Of one check; one that cannot be done is a finding too."""
    try:
        return list(check(project))
    except Exception as error:  # the doctor looks at broken things
        return [
            (
                "wrong",
                f"cannot be examined: {type(error).__name__}: {error}",
                "mend that, then again: lab doctor",
            )
        ]


def machine(project: Project) -> Iterator[Finding]:
    from .site import site_of_host

    job = next((name for name in JOB_VARIABLES if name in os.environ), None)
    known = site_of_host(project)
    kind = (
        f"in job {os.environ[job]}"
        if job
        else f"a login node of {known}"
        if known
        else "no job here"
    )
    yield (
        "ok",
        f"{socket.gethostname()}: {kind}; {cores()} of {os.cpu_count()} cores, {memory_limit_bytes() / 1e9:.0f} GB",
        "",
    )
    if job and known:
        yield (
            "note",
            f"in a job, on a host named like a login node of {known}",
            "make its login_hosts narrower",
        )
    asked = int(os.environ.get("SLURM_CPUS_PER_TASK", 0))
    if asked > cores():
        found = f"the job has {asked} CPUs per task, this process may use {cores()}"
        yield "wrong", found, "srun --cpus-per-task=$SLURM_CPUS_PER_TASK"


def numerics(project: Project) -> Iterator[Finding]:
    import h5py
    import numpy
    import torch

    numpys = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    blas = "MKL" if torch.backends.mkl.is_available() else "no MKL"
    threads = torch.get_num_threads()
    yield (
        "ok",
        f"torch {torch.__version__} ({blas}), NumPy {numpy.__version__} ({numpys}), {threads} threads",
        "",
    )
    if threads > cores():
        yield "wrong", f"{threads} threads on {cores()} cores", f"export OMP_NUM_THREADS={cores()}"
    if torch.cuda.is_available():
        major, _ = torch.cuda.get_device_capability()
        tensor_cores = "bf16 and TF32" if major >= 8 else "fp16 only" if major == 7 else "none"
        yield "ok", f"cuDNN {torch.backends.cudnn.version()}, tensor cores: {tensor_cores}", ""
        if major >= 8 and not torch.backends.cuda.matmul.allow_tf32:
            yield (
                "note",
                "float32 is multiplied without TF32",
                "lab train does: trainer.matmul_precision=high",
            )
    locking = os.environ.get("HDF5_USE_FILE_LOCKING", "not set")
    yield "ok", f"HDF5 {h5py.version.hdf5_version}, HDF5_USE_FILE_LOCKING {locking}", ""


def gpu_health(project: Project) -> Iterator[Finding]:
    devices = gpus()
    if not devices:
        yield "ok", "no NVIDIA GPU answers here", ""
    for gpu in devices:
        yield "ok", f"GPU {gpu.index}: {gpu.name}, {gpu.celsius} C, {gpu.used_MB} MB used", ""
        if gpu.uncorrected_errors:
            errors = f"GPU {gpu.index}: {gpu.uncorrected_errors} uncorrected memory errors"
            yield "wrong", errors, HELP_DESK
        if gpu.slowed_down:
            yield "wrong", f"GPU {gpu.index} slows itself down (heat or power)", HELP_DESK
    if some_are_connected_through_cpus():
        connection = "some GPUs reach each other only through the CPUs (SYS)"
        yield "note", connection, "measure before using them together"


def disks(project: Project) -> Iterator[Finding]:
    places = {
        name: project.paths[name]
        for name in ("runs", "checkpoints", "scratch")
        if project.paths[name]
    }
    places |= {f"data[{i}]": path for i, path in enumerate(project.paths["data"])}
    for name, path in places.items():
        there = next(parent for parent in (path, *path.parents) if parent.exists())
        kind, space = filesystem_type(there), os.statvfs(there)
        free_GB, n_inodes = space.f_bavail * space.f_frsize / 1e9, space.f_favail
        striped = f", stripes {found}" if (found := lustre_stripes(there)) else ""
        yield (
            "ok",
            f"paths.{name}: {path} on {kind}, {free_GB:,.0f} GB and {n_inodes:,} files free{striped}",
            "",
        )
        if free_GB < 1 or (space.f_files and n_inodes < 1000):
            yield (
                "wrong",
                f"the disk of paths.{name} is full",
                f"lab runs prune, or set paths.{name.partition('[')[0]}",
            )
        if name.startswith("data") and has_many_files(path):
            yield (
                "wrong",
                f"{path} holds more than {MANY_FILES:,} files",
                "pack them into one: lab data pack",
            )
        if kind == "lustre" and shutil.which("lfs"):
            yield from quota(output_of("lfs", "quota", "-hu", str(os.getuid()), str(there)))
    if shutil.which("quota"):
        yield from quota(output_of("quota", "-s"))


def quota(text: str) -> Iterator[Finding]:
    """quota and lfs quota both mark what is over its limit with *."""
    for words in map(str.split, text.splitlines()[2:]):
        over = "*" in "".join(words)
        advice = "lab runs prune, delete what you need no more, or ask for more" if over else ""
        yield "wrong" if over else "ok", f"quota: {' '.join(words)}", advice


def python(project: Project) -> Iterator[Finding]:
    yield "ok", f"Python {sys.version.split()[0]} in {sys.prefix}", ""
    stray = python_site.getusersitepackages()
    if stray in sys.path:
        advice = "export PYTHONNOUSERSITE=1 (jobs do), and uninstall what lies there"
        yield "wrong", f"packages in {stray} mix with this environment's", advice
    kind = filesystem_type(sys.prefix)
    if kind in NETWORK_DISKS:
        n_files = f"more than {MANY_FILES:,}" if has_many_files(Path(sys.prefix)) else "many"
        advice = "a container image is one file: python: container in the site's profile"
        yield (
            "note",
            f"the environment lies on {kind} in {n_files} files; many ranks import slowly",
            advice,
        )


def repository(project: Project) -> Iterator[Finding]:
    inside = output_of("git", "-C", str(project.root), "rev-parse", "--is-inside-work-tree").strip()
    if inside != "true":
        advice = "git init && git add . && git commit"
        yield "wrong", f"runs cannot record their code, and lab submit refuses: {inside}", advice
        return
    n_changed = len(output_of("git", "-C", str(project.root), "status", "--porcelain").splitlines())
    yield "ok", f"git: {n_changed} files differ from the last commit (runs freeze them too)", ""


def tracking(project: Project) -> Iterator[Finding]:
    from ..training.loggers import wandb_key

    mode = os.environ.get("WANDB_MODE", "chosen per run")
    yield (
        "ok",
        f"W&B: {'a key is there' if wandb_key() else 'no key, so runs log offline'}; mode {mode}",
        "",
    )


def scheduler(project: Project) -> Iterator[Finding]:
    found = [name for name in ("sbatch", "qsub", "pjsub") if shutil.which(name)]
    yield (
        "ok",
        f"{', '.join(found)} found"
        if found
        else "none: lab submit site=workstation runs jobs here",
        "",
    )
    if "sbatch" in found and "UP" not in (answer := output_of("scontrol", "ping")):
        yield (
            "wrong",
            f"Slurm does not answer: {answer.strip().rpartition(chr(10))[2]}",
            "wait, or ask the help desk",
        )
    if leftover := [name for name in os.environ if name.startswith(("SBATCH_", "SLURM_CPU_BIND"))]:
        yield (
            "note",
            f"{', '.join(leftover)} would change jobs sent by hand",
            "unset them; lab submit leaves them out",
        )


def has_many_files(path: Path) -> bool:
    walk = (name for _, _, names in os.walk(path) for name in names)
    return next(islice(walk, MANY_FILES, None), None) is not None


def output_of(*command: str) -> str:
    """What a command prints, or why it does not."""
    try:
        return run_scheduler_command(*command, timeout_s=20)
    except Failed as error:
        return str(error)
