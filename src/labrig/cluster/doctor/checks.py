"""The checks of `lab doctor`, one function each."""

from __future__ import annotations

import os
import shutil
import site as python_site
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from ...errors import Refused
from ...machine.counted import counted
from ...machine.cpu import cores
from ...machine.disk import filesystem_type
from ...machine.git import Git
from ...machine.gpu import gpus, some_are_connected_through_cpus
from ...machine.memory import memory_limit_bytes
from ...project import Project, read_yaml, site_of
from ...providers import provided
from ...record.freeze.git import locate
from ..schedulers.command import answer_of
from ..schedulers.job_variables import current_job_id
from ..sites.balance import balance_lines
from ..sites.site import load_site, site_of_host
from .disks import MANY_FILES, disks, has_many_files
from .node_check import DeviceSpeed, device_speed
from .template import Finding

# The part of `lab doctor` about what is left to compute with.


def balance(project: Project) -> Iterator[Finding]:
    """What the centre's command says, at the site of this host, else of the project."""
    config = read_yaml(project.source / "conf" / "config.yaml")
    site = load_site(project, site_of_host(project) or site_of(config))
    for line in balance_lines(site):
        if line.startswith("not known"):
            yield Finding("note", line, f"correct balance in {site.path}")
        else:
            yield Finding("ok", line)


LEAST_SHARE = 0.4  # of the data sheet, which large products reach on a healthy GPU
NETWORK_DISKS = ("lustre", "nfs", "nfs4", "gpfs", "beegfs")
HELP_DESK = "tell the help desk which node; until then leave it out: job.exclude=NODE"


def machine(project: Project) -> Iterator[Finding]:
    job_id = current_job_id()
    login_site = site_of_host(project)
    if job_id is not None:
        place = f"in job {job_id}"
    elif login_site is not None:
        place = f"a login node of {login_site}"
    else:
        place = "not in a job"
    memory_GB = memory_limit_bytes() / 1e9
    yield Finding(
        "ok",
        f"{socket.gethostname()}: {place}; {cores()} of {os.cpu_count()} cores, {memory_GB:.0f} GB",
    )
    if job_id is not None and login_site is not None:
        yield Finding(
            "note",
            f"in a job, on a host named like a login node of {login_site}",
            "make login_hosts in its profile narrower",
        )
    requested_cores = int(os.environ.get("SLURM_CPUS_PER_TASK", 0))
    if requested_cores > cores():
        yield Finding(
            "wrong",
            f"the job has {requested_cores} CPUs per task, this process may use {cores()}",
            "srun --cpus-per-task=$SLURM_CPUS_PER_TASK",
        )


def numerics(project: Project) -> Iterator[Finding]:
    import h5py
    import numpy
    import torch

    numpy_blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    torch_blas = "MKL" if torch.backends.mkl.is_available() else "no MKL"
    n_threads = torch.get_num_threads()
    yield Finding(
        "ok",
        f"torch {torch.__version__} ({torch_blas}), NumPy {numpy.__version__} ({numpy_blas}),"
        f" {n_threads} threads",
    )
    if n_threads > cores():
        yield Finding(
            "wrong",
            f"{n_threads} threads on {cores()} cores",
            f"export OMP_NUM_THREADS={cores()}",
        )
    if torch.cuda.is_available():
        yield from tensor_cores()
    locking = os.environ.get("HDF5_USE_FILE_LOCKING", "not set")
    yield Finding("ok", f"HDF5 {h5py.version.hdf5_version}, HDF5_USE_FILE_LOCKING {locking}")


def tensor_cores() -> Iterator[Finding]:
    """Which number formats the first GPU multiplies fast."""
    import torch

    major, _ = torch.cuda.get_device_capability()
    formats = "none"
    if major == 7:
        formats = "fp16 only"
    if major >= 8:
        formats = "bf16 and TF32"
    yield Finding("ok", f"cuDNN {torch.backends.cudnn.version()}, tensor cores: {formats}")
    if major >= 8 and not torch.backends.cuda.matmul.allow_tf32:
        yield Finding(
            "note",
            "float32 is multiplied without TF32",
            "lab train turns it on: trainer.matmul_precision=high",
        )


def gpu_health(project: Project) -> Iterator[Finding]:
    devices = gpus()
    if not devices:
        yield Finding("ok", "no NVIDIA GPU answers here")
    for gpu in devices:
        name = f"GPU {gpu.index}"
        yield Finding("ok", f"{name}: {gpu.name}, {gpu.celsius} C, {gpu.used_MB} MB used")
        if gpu.uncorrected_errors:
            errors = f"{name}: {gpu.uncorrected_errors} uncorrected memory errors"
            yield Finding("wrong", errors, HELP_DESK)
        if gpu.slowed_down:
            yield Finding("wrong", f"{name} slows itself down (heat or power)", HELP_DESK)
    if some_are_connected_through_cpus():
        yield Finding(
            "note",
            "some GPUs reach each other only through the CPUs (SYS)",
            "measure before using them together",
        )


def gpu_speed(project: Project) -> Iterator[Finding]:
    """What bandwidthTest and matrixMul of CUDA's samples measure, of the first GPU."""
    import torch

    if not torch.cuda.is_available():
        yield Finding("ok", "no GPU to measure")
        return
    speed = device_speed(torch.device("cuda", 0))
    yield from speed_findings(torch.cuda.get_device_name(0), speed)


def speed_findings(name: str, speed: DeviceSpeed) -> Iterator[Finding]:
    """The speed of a GPU next to its data sheet."""
    peak_tflops = provided("peak_tflops")
    peak_of_sheet = peak_tflops(name, "16-mixed") if peak_tflops else None
    of_peak = f" of {peak_of_sheet:.0f}" if peak_of_sheet else ""
    yield Finding(
        "ok",
        f"fp16 products: {speed.tflops:.0f}{of_peak} TFLOP/s; copies: {speed.to_device_GB_s:.1f}"
        f" GB/s to the GPU, {speed.from_device_GB_s:.1f} GB/s back",
    )
    if peak_of_sheet and speed.tflops < LEAST_SHARE * peak_of_sheet:
        yield Finding(
            "note",
            f"products reach {speed.tflops / peak_of_sheet:.0%} of the data sheet",
            "look who else uses the GPU (lab top), and at its heat and power limit (nvidia-smi)",
        )


def python(project: Project) -> Iterator[Finding]:
    yield Finding("ok", f"Python {sys.version.split()[0]} in {sys.prefix}")
    user_packages = python_site.getusersitepackages()
    if user_packages in sys.path:
        yield Finding(
            "wrong",
            f"packages in {user_packages} mix with this environment's",
            "export PYTHONNOUSERSITE=1 (jobs do), and uninstall what lies there",
        )
    disk_type = filesystem_type(sys.prefix)
    if disk_type in NETWORK_DISKS:
        n_files = f"more than {MANY_FILES:,}" if has_many_files(Path(sys.prefix)) else "many"
        yield Finding(
            "note",
            f"the environment lies on {disk_type} in {n_files} files; many ranks import slowly",
            "take one file instead: lab image build site.python=packed (lab docs setup)",
        )


def repository(project: Project) -> Iterator[Finding]:
    try:
        locate(project.root)
        status = Git(project.root)("status", "--porcelain")
    except Refused as error:
        reason, _, advice = str(error).partition(". ")
        yield Finding(
            "wrong", f"runs cannot record their code, and lab submit refuses: {reason}", advice
        )
        return
    n_changed = len(status.splitlines())
    yield Finding("ok", f"git: not committed: {counted(n_changed, 'file')} (runs record them too)")


def tracking(project: Project) -> Iterator[Finding]:
    has_wandb_key = provided("has_wandb_key")
    if has_wandb_key is None:
        return
    key = "a key is set" if has_wandb_key() else "no key, so runs log offline"
    mode = os.environ.get("WANDB_MODE", "chosen per run")
    yield Finding("ok", f"W&B: {key}; mode {mode}")


def scheduler(project: Project) -> Iterator[Finding]:
    commands = [name for name in ("sbatch", "qsub", "pjsub") if shutil.which(name)]
    if commands:
        yield Finding("ok", f"{', '.join(commands)} found")
    else:
        yield Finding("ok", "none: lab submit site=workstation runs jobs here")
    if "sbatch" in commands:
        answer = answer_of("scontrol", "ping").strip()
        if "UP" not in answer:
            last_line = answer.rpartition("\n")[2]
            yield Finding(
                "wrong",
                f"Slurm does not answer: {last_line}",
                "wait, or ask the help desk",
            )
    leftover = [name for name in os.environ if name.startswith(("SBATCH_", "SLURM_CPU_BIND"))]
    if leftover:
        yield Finding(
            "note",
            f"{', '.join(leftover)} would change jobs sent by hand",
            "unset them; lab submit leaves them out",
        )


CHECKS = (
    machine,
    numerics,
    gpu_health,
    gpu_speed,
    disks,
    python,
    repository,
    tracking,
    scheduler,
)
