"""The checks of `lab doctor`, one function each.

`disks` asks for free space, and for what is left of quotas, as file systems say it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import site as python_site
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ...errors import Refused
from ...machine.command import output_of
from ...machine.disk import filesystem_type, lustre_stripes
from ...machine.git import Git
from ...machine.gpu import gpus, some_are_connected_through_cpus
from ...machine.resources import cores, memory_limit_bytes
from ...machine.text_formats import counted
from ...project import Project, read_yaml, site_of
from ...providers import provided
from ...record.freeze.git import locate
from ..schedulers.command import answer_of, current_job_id
from ..sites.site import balance_lines, load_site, site_of_host
from .node_check import DeviceSpeed, device_speed
from .template import Finding

MANY_FILES = 100_000  # in a data directory or an environment: more than a metadata server likes
MIN_FREE_GB = 1
MIN_FREE_FILES = 1000
NEARLY_FULL = 0.8  # share of a quota from which on a line warns
FULL = 0.95  # share at which the next checkpoint may fail
MAX_LINES = 12  # of a site's own command that are shown
LESS = "lab runs prune, delete what you no longer need, or ask for more"


UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
# A number, perhaps with a unit and with the star of what is over its limit. A grace period is none.
SIZE = re.compile(r"\[?(\d+(?:\.\d+)?)([kKMGTPE]?)\]?\*?")
TIMEOUT_S = 20


@dataclass(frozen=True)
class Quota:
    """How much of one limit is used.

    Args:
        what: "space" or "files".
        used, limit: as printed, such as 2.9G.
        share: of the limit; 1 is all of it.
    """

    place: str
    what: str
    used: str
    limit: str
    share: float


def quotas_of(directory: Path) -> list[Quota]:
    """The quotas on the disk of a directory that exists, on Lustre; [] elsewhere."""
    if filesystem_type(directory) != "lustre" or not shutil.which("lfs"):
        return []
    owners = [("-u", str(os.getuid())), ("-g", str(directory.stat().st_gid))]
    owners += [("-p", number) for number in lustre_project(directory)]
    answers = (_answer_of("lfs", "quota", "-h", *owner, str(directory)) for owner in owners)
    return list(dict.fromkeys(quota for answer in answers for quota in read_quotas(answer)))


def user_quotas() -> list[Quota]:
    """What `quota` says of this user's disks; [] where there is no such command."""
    return read_quotas(_answer_of("quota", "-s")) if shutil.which("quota") else []


def lustre_project(directory: Path) -> list[str]:
    """The number of the project whose quota a directory on Lustre counts against, if there is one."""
    number = _answer_of("lfs", "project", "-d", str(directory)).split()[:1]
    return [] if number in ([], ["0"]) or not number[0].isdigit() else number


def read_quotas(text: str) -> list[Quota]:
    """The rows below the line of titles of `quota` and `lfs quota`; those without a limit are left out.

    A row is the place, then used, soft limit, limit and grace of the space, then of the files. A
    long place stands on a line of its own.
    """
    rows: list[tuple[str, list[re.Match]]] = []
    table = re.split(r"^ *Filesystem.*$", text, maxsplit=1, flags=re.MULTILINE)[1:]
    for word in " ".join(table).split():
        size = SIZE.fullmatch(word)
        if "/" in word:
            rows.append((word, []))
        elif size and rows:
            rows[-1][1].append(size)
    return [
        quota
        for place, sizes in rows
        for what, numbers in (("space", sizes[:3]), ("files", sizes[3:6]))
        for quota in _quota(place, what, numbers)
    ]


def _quota(place: str, what: str, numbers: list[re.Match]) -> Iterator[Quota]:
    if len(numbers) < 3:
        return
    used, soft, hard = numbers
    limits = [limit for limit in (soft, hard) if _value(limit) > 0]
    if limits:
        limit = min(limits, key=_value)
        share = _value(used) / _value(limit)
        yield Quota(place, what, used[1] + used[2], limit[1] + limit[2], share)


def _value(size: re.Match) -> float:
    return float(size[1]) * UNITS[size[2].lower()]


def _answer_of(*command: str) -> str:
    """What a command prints, also when it fails because a quota is used up; "" without an answer."""
    return output_of(*command, timeout_s=TIMEOUT_S, failed_too=True) or ""


def disks(project: Project) -> Iterator[Finding]:
    """Each place that a project writes to, and the quotas that it counts against."""
    quotas = user_quotas()
    for setting, path in places(project):
        yield from disk(setting, path)
        quotas += quotas_of(existing(path))
        if setting.startswith("paths.data") and has_many_files(path):
            yield Finding(
                "wrong",
                f"{path} holds more than {MANY_FILES:,} files",
                "pack them into one: lab data pack",
            )
    for quota in dict.fromkeys(quotas):
        yield quota_finding(quota)
    yield from quotas_of_site(project)


def places(project: Project) -> Iterator[tuple[str, Path]]:
    """The settings that name a disk, each with its directory, which need not exist."""
    yield "home", Path.home()
    yield "paths.environment", Path(sys.prefix)
    for name in ("caches", "runs", "checkpoints", "scratch"):
        path = getattr(project.paths, name)
        if path is not None:
            yield f"paths.{name}", path
    for i, path in enumerate(project.paths.data):
        yield f"paths.data[{i}]", path


def existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())


def disk(setting: str, path: Path) -> Iterator[Finding]:
    """Free space and files of the disk that `path` lies on or will lie on."""
    place = existing(path)
    disk_type = filesystem_type(place)
    space = os.statvfs(place)
    free_GB = space.f_bavail * space.f_frsize / 1e9
    n_free_files = space.f_favail
    stripes = lustre_stripes(place)
    striped = f", stripes {stripes}" if stripes else ""
    yield Finding(
        "ok",
        f"{setting}: {path} on {disk_type},"
        f" {free_GB:,.0f} GB and {n_free_files:,} files free{striped}",
    )
    counts_files = space.f_files > 0  # some file systems have no limit
    if free_GB < MIN_FREE_GB or (counts_files and n_free_files < MIN_FREE_FILES):
        key = setting.partition("[")[0]
        advice = f"lab runs prune, or set {key}"
        if setting == "home":
            advice = "lead caches elsewhere: paths.caches, then make setup"
        yield Finding("wrong", f"the disk of {setting} is full", advice)


def quota_finding(quota: Quota) -> Finding:
    """A quota, with advice from four fifths of its limit on."""
    text = f"quota of {quota.place}: {quota.used} of {quota.limit}"
    text += " files" if quota.what == "files" else ""
    if quota.share < NEARLY_FULL:
        return Finding("ok", text)
    level = "wrong" if quota.share >= FULL else "note"
    return Finding(level, f"{text}, {quota.share:.0%}", LESS)


def quotas_of_site(project: Project) -> Iterator[Finding]:
    """What the site's own commands print, which `quota` of its profile names."""
    name = site_of_host(project) or site_of(read_yaml(project.source / "conf" / "config.yaml"))
    for command in load_site(project, name)["quota"]:
        words = shlex.split(command)
        if not shutil.which(words[0]):
            continue
        for line in answer_of(*words).splitlines()[:MAX_LINES]:
            percents = [float(number) for number in re.findall(r"(\d+(?:\.\d+)?) ?%", line)]
            words_of_line = " ".join(line.split())
            if percents and max(percents) >= 100 * NEARLY_FULL:
                level = "wrong" if max(percents) >= 100 * FULL else "note"
                yield Finding(level, f"{words[0]}: {words_of_line}", LESS)
            elif words_of_line:
                yield Finding("ok", f"{words[0]}: {words_of_line}")


def has_many_files(directory: Path) -> bool:
    """Whether there are more than MANY_FILES below `directory`; it stops counting there."""
    names = (name for _, _, names in os.walk(directory) for name in names)
    return next(islice(names, MANY_FILES, None), None) is not None


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
