# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab doctor`: what is wrong with this machine, or with the nodes of a job; each finding with what to do."""

from __future__ import annotations

import argparse
import os
import shutil
import site as python_site
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ..machine.node import cores, filesystem_type, limit_bytes, stripes
from ..project import Project
from .site import site_of_host

MANY_FILES = 100_000  # in a data directory: more than a metadata server likes
GPU_QUERY = (
    "index,name,temperature.gpu,memory.used,ecc.errors.uncorrected.volatile.total,clocks_event_reasons.hw_slowdown"
)
JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "PJM_JOBID", "JOB_ID")
Finding = tuple[str, str, str]  # "ok", "note" or "wrong"; what was found; what to do


def doctor_command(project: Project, args: list[str]) -> int:
    """Prints the findings; exit code 1 when something is wrong."""
    if "--nodes" in args:
        from .nodes import examine_nodes

        return examine_nodes(project, [word for word in args if word != "--nodes"])
    parser = argparse.ArgumentParser(prog="lab doctor", description=__doc__)
    parser.add_argument("--nodes", action="store_true", help="a short job that examines nodes; takes job.* and site=")
    parser.parse_args(args)
    worst = 0
    for title, findings in (
        ("machine", machine()),
        ("numerics", numerics()),
        ("GPUs", gpus()),
        ("disks", disks(project)),
        ("Python", python()),
        ("project", of_project(project)),
        ("scheduler", scheduler()),
    ):
        print(title)
        for level, found, advice in findings:
            worst = max(worst, int(level == "wrong"))
            print(f"  {level:<5}  {found}" + (f"\n         -> {advice}" if advice else ""))
    return worst


def machine() -> Iterator[Finding]:
    job = next((name for name in JOB_VARIABLES if name in os.environ), None)
    known = site_of_host(Project.find())
    kind = f"inside job {os.environ[job]}" if job else f"a login node of {known}" if known else "no job here"
    yield "ok", f"{socket.gethostname()}: {kind}; {cores()} of {os.cpu_count()} cores, {limit_bytes() / 1e9:.0f} GB", ""
    if job and known:
        yield "note", "a login node's name inside a job", "is login_hosts of the profile too wide?"
    asked = int(os.environ.get("SLURM_CPUS_PER_TASK", 0))
    if asked > cores():
        yield (
            "wrong",
            f"the job has {asked} CPUs per task, this process may use {cores()}",
            "srun --cpus-per-task=$SLURM_CPUS_PER_TASK",
        )


def numerics() -> Iterator[Finding]:
    import h5py
    import torch

    blas = torch.__config__.show()
    kind = (
        "MKL"
        if torch.backends.mkl.is_available()
        else next((n for n in ("OpenBLAS", "Accelerate") if n in blas), "unknown")
    )
    yield (
        ("note" if kind == "unknown" else "ok"),
        f"torch {torch.__version__}, BLAS {kind}, {torch.get_num_threads()} threads",
        "",
    )
    if torch.get_num_threads() > cores():
        yield "wrong", f"{torch.get_num_threads()} threads on {cores()} cores", f"export OMP_NUM_THREADS={cores()}"
    if torch.cuda.is_available():
        major, _ = torch.cuda.get_device_capability()
        tensor_cores = "bf16 and TF32" if major >= 8 else "fp16 only" if major == 7 else "none"
        yield "ok", f"cuDNN {torch.backends.cudnn.version()}, tensor cores: {tensor_cores}", ""
        if major >= 8 and not torch.backends.cuda.matmul.allow_tf32:
            yield (
                "note",
                "float32 products do not use TF32 in a bare script",
                "trainer.matmul_precision=high does in lab train",
            )
    locking = os.environ.get("HDF5_USE_FILE_LOCKING", "default")
    yield "ok", f"HDF5 {h5py.version.hdf5_version}, file locking {locking}", ""


def gpus() -> Iterator[Finding]:
    if not shutil.which("nvidia-smi"):
        yield "ok", "no NVIDIA driver here", ""
        return
    said = _say("nvidia-smi", f"--query-gpu={GPU_QUERY}", "--format=csv,noheader,nounits")
    for line in said.splitlines():
        index, name, celsius, used_MB, ecc, slowed = [word.strip() for word in line.split(",")]
        yield "ok", f"GPU {index}: {name}, {celsius} C, {used_MB} MB used", ""
        if ecc.isdigit() and int(ecc):
            yield (
                "wrong",
                f"GPU {index}: {ecc} uncorrected memory errors",
                "report the node to the help desk; job.exclude=NODE",
            )
        if slowed == "Active":
            yield (
                "wrong",
                f"GPU {index} slows itself down (heat or power)",
                "report the node to the help desk; job.exclude=NODE",
            )
    if "SYS" in _say("nvidia-smi", "topo", "-m").partition("Legend")[0]:
        yield (
            "note",
            "some GPUs reach each other only through the CPUs (SYS)",
            "expect less from several GPUs of this node",
        )


def disks(project: Project) -> Iterator[Finding]:
    places = {
        "runs": project.paths["runs"],
        "checkpoints": project.paths["checkpoints"],
        "scratch": project.paths["scratch"],
    }
    places |= {f"data[{i}]": path for i, path in enumerate(project.paths["data"])}
    for name, path in places.items():
        if path is None:
            continue
        there = next(parent for parent in (path, *path.parents) if parent.exists())
        kind, status = filesystem_type(there), os.statvfs(there)
        free_GB, inodes = status.f_bavail * status.f_frsize / 1e9, status.f_favail
        striped = f", stripes {found}" if (found := stripes(there)) else ""
        yield "ok", f"paths.{name}: {path} on {kind}, {free_GB:,.0f} GB and {inodes:,} files free{striped}", ""
        if free_GB < 1 or (status.f_files and inodes < 1000):
            yield (
                "wrong",
                f"the disk of paths.{name} is full",
                "lab runs prune, or another place: lab config | grep -A5 ^paths",
            )
        if name.startswith("data") and path.is_dir() and _has_many_files(path):
            yield "wrong", f"{path} holds more than {MANY_FILES:,} files", "pack them: lab data pack"
        if kind == "lustre" and shutil.which("lfs"):
            yield (
                "note",
                "quota: " + " ".join(_say("lfs", "quota", "-hu", str(os.getuid()), str(there)).split()[-12:]),
                "",
            )
    if shutil.which("quota") and (quota := _say("quota", "-s").strip()):
        yield "note", f"quota: {quota.splitlines()[-1].strip()}", ""


def python() -> Iterator[Finding]:
    yield "ok", f"Python {sys.version.split()[0]} in {sys.prefix}", ""
    stray = python_site.getusersitepackages()
    if stray in sys.path:
        yield (
            "wrong",
            f"packages of {stray} come before this environment's",
            "export PYTHONNOUSERSITE=1, then move them away",
        )
    if filesystem_type(sys.prefix) in ("lustre", "nfs", "nfs4", "gpfs", "beegfs"):
        yield (
            "note",
            f"the environment lies on {filesystem_type(sys.prefix)}; imports are slow for many ranks",
            "a container image is one file",
        )


def of_project(project: Project) -> Iterator[Finding]:
    from ..fit.loggers import wandb_key

    dirty = _say("git", "-C", str(project.root), "status", "--porcelain").splitlines()
    inside = _say("git", "-C", str(project.root), "rev-parse", "--is-inside-work-tree").strip() == "true"
    if not inside:
        yield (
            "wrong",
            "no git repository: the code of runs is not recorded, and lab submit refuses",
            "git init && git add . && git commit",
        )
    else:
        yield "ok", f"git: {len(dirty)} files differ from the last commit (runs freeze them too)", ""
    mode = os.environ.get("WANDB_MODE", "chosen per run")
    yield "ok", f"W&B: {'a key is there' if wandb_key() else 'no key, so runs log offline'}; mode {mode}", ""


def scheduler() -> Iterator[Finding]:
    found = [name for name in ("sbatch", "qsub", "pjsub") if shutil.which(name)]
    yield "ok", f"{', '.join(found)} found" if found else "none: lab submit site=workstation runs jobs here", ""
    if "sbatch" in found and "UP" not in (said := _say("scontrol", "ping")):
        yield "wrong", f"Slurm does not answer: {said.strip()[:80]}", "wait, or ask the help desk"
    leftover = [name for name in os.environ if name.startswith(("SBATCH_", "SLURM_CPU_BIND"))]
    if leftover:
        yield "note", f"{', '.join(leftover)} would change jobs sent by hand", "lab submit takes them out by itself"


def _has_many_files(path: Path) -> bool:
    count = 0
    for _, _, files in os.walk(path):
        count += len(files)
        if count > MANY_FILES:
            return True
    return False


def _say(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
