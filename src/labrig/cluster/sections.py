"""The sections of the configuration that jobs read: `job`, `site` and `budget`.

hooks/settings_files.py writes them to conf/lab.yaml. A site's profile has the keys of SiteSettings.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from ..config.setting import section, setting, settings_class
from ..env import SCHEDULERS

NO_LIMIT = float("inf")


@dataclass(frozen=True)
class JobSettings:
    """What a job asks for. None: the site's default."""

    nodes: int = setting(1, "machines", least=1)
    gpus: int | None = setting(None, "per node; 0 for a CPU job", least=0)
    total_gpus: int | None = setting(
        None, "of all nodes together; the site says how many nodes that takes", least=1
    )
    gpu_type: str | int | None = setting(
        None, "as the scheduler or the site calls it, such as a100 or h100_3g.40gb; null: any"
    )
    tasks_per_node: int | None = setting(
        None, "per node; null: one per GPU, or one", unit="processes", least=1
    )
    cpus_per_task: int | None = setting(None, "of each process", unit="cores", least=1)
    mem: str | int | None = setting(None, "memory per node, such as 64G; a number is in MB")
    time: str | int | None = setting(
        None, "time limit: 10:00:00 | 1-12:00:00 | 90m | 10h; a number is in seconds"
    )
    chunk: str | int | None = setting(
        None,
        "a shorter limit for jobs that resume each other, such as 3h; "
        "job.time is then that of all of them",
    )
    account: str | int | None = setting(
        None, "null: from accounts.yaml in your configuration directory (~/.config/lab)"
    )
    queue: str | int | None = setting(
        None, "partition, or queue; null: the first of the site's that takes the job"
    )
    qos: str | int | None = setting(None, "quality of service, by its name")
    constraint: str | int | None = setting(None, "what its nodes must have, in Slurm's words")
    reservation: str | int | None = setting(
        None, "nodes that are reserved for you, by the name or number of the reservation"
    )
    after: str | int | None = setting(None, "job id that must succeed before")
    exclude: str | int | None = setting(None, "nodes to avoid")
    mail: str | None = setting(None, "address for mail at the end and at failure")
    name: str | int | None = setting(None, "null: the trial")
    extra: list[Any] | None = setting(
        [], "more options for the scheduler: 'job.extra=[\"--comment=course\"]'"
    )
    throttle: int = setting(8, "of an array that may run at the same time", unit="runs", least=1)
    idle_min: float | None = setting(
        30.0,
        "at 0 % on all GPUs (of the job's first node), after which it saves and ends; null: never",
        unit="minutes",
    )


@dataclass(frozen=True)
class Resource:
    """A resource type of a site."""

    gpus: int | str | None = setting(None, "per node: a number, or any for one or more")
    gpu_type: str | int | None = setting(
        None, "only for job.gpu_type=NAME; null: of no certain type"
    )
    max_nodes: float = setting(NO_LIMIT, "of a job", unit="nodes", least=1)
    queue: str | list[str] | None = setting(
        None, "that has it, or a list of those; null: every queue does"
    )
    options: list[str] = setting([], "of the scheduler, with {gpus}, {nodes} and so on")

    @property
    def queues(self) -> list[str]:
        """The names of the queues that have it; none where every queue does."""
        return [self.queue] if isinstance(self.queue, str) else list(self.queue or [])


@dataclass(frozen=True)
class Queue:
    """A queue, the option that chooses it, and its limits."""

    name: str = setting("", "for job.queue=NAME")
    option: str = setting("", "that chooses it, such as --partition={queue}")
    max_h: float = setting(NO_LIMIT, "of a job", unit="hours", least=0)
    max_gpus: float = setting(NO_LIMIT, "of a job", unit="GPUs", least=0)
    max_nodes: float = setting(NO_LIMIT, "of a job", unit="nodes", least=1)
    max_submit: float = setting(
        NO_LIMIT, "of a user that may be queued at once", unit="jobs", least=1
    )
    use: Literal["jobs", "shells", "asked"] = setting(
        "jobs", "jobs | shells (lab shell only) | asked (only with job.queue=NAME)"
    )
    account: bool = setting(True, "false: its jobs name none, where the site wants one")


@settings_class
class SitePaths:
    runs: str | None = setting("runs", "default of paths.runs, and so on")
    checkpoints: str | None = setting(None, "null: inside the run directory")
    data: str | list[str] | None = setting(["data"], "searched in this order")
    scratch: str | None = setting(None, "null: none")
    environment: str | None = setting(".venv", "of Python")
    caches: str | None = setting(None, "null: where each tool puts them")


@settings_class
class SiteGPU:
    name: str | None = setting(None, "as the centre writes it: h100")
    per_node: float = setting(NO_LIMIT, "per node; .inf: not known", unit="GPUs", least=0)
    memory_GB: float | None = setting(None, "of each", unit="GB", least=0)


@settings_class
class SiteJob:
    gpus: int | None = setting(None, "per node; null: 1 where there are GPUs", least=0)
    time: str = setting("02:00:00", "time limit")
    cpus_per_task: int = setting(1, "of each process", unit="cores", least=1)
    cpus_per_gpu: int = setting(0, "of each GPU; 0: as cpus_per_task", unit="cores", least=0)
    mem_per_gpu: str | int | None = setting(None, "memory for each GPU, such as 60G")


@settings_class
class SiteAccount:
    option: str | None = setting(None, "with {account}; null: the scheduler's own")
    required: bool = setting(False, "true: a job without one is refused")
    ask: str = setting("ask your group for its name", "what the message then says")
    at_submit: bool = setting(False, "true: on the command line, not in the script")


@settings_class
class SiteModules:
    init: str | None = setting(None, "a file that defines `module`, where a job does not have it")
    purge: bool = setting(False, "true: module purge before")
    use: list[str] = setting(
        [], "directories with more of them: module use; $VARIABLES are expanded"
    )
    load: list[str] = setting([], "their names, in order")


@settings_class
class SiteContainer:
    tool: Literal["apptainer", "singularity", "pyxis"] = setting(
        "apptainer", "apptainer | singularity | pyxis (options of srun)"
    )
    options: list[str] = setting(["--nv"], "of the tool's command; pyxis has none")
    base: str = setting(
        "docker.io/library/python:{python}-slim",
        "what the image is built on; {python} is the environment's version, as 3.11",
    )
    image: str | None = setting(None, "a file of your own instead")


@settings_class
class SiteRequeue:
    method: str = setting("none", "scontrol | exit99 | resubmit | none")
    lead_s: int = setting(
        120,
        "before the time limit, at which a job is warned and saves: at least twice a save; "
        "a quarter of job.time at most",
        unit="seconds",
        least=0,
    )
    max: int = setting(50, "how often", least=0)


@settings_class
class SiteCost:
    unit: str | None = setting(None, "a word: yen, points")
    per_gpu_hour: float | None = setting(None, "in this unit", least=0)


@settings_class
class SiteBalance:
    command: str | None = setting(None, "the centre's, for what is left: idracct")
    pattern: str | None = setting(
        None, "its lines that match this regular expression are shown; null: all"
    )


@settings_class
class SiteInternet:
    jobs: bool = setting(False, "false: libraries in jobs are told to stay offline")
    login: bool = setting(True, "login nodes, where one types make setup and lab prefetch")


@settings_class
class SiteSettings:
    """A cluster's profile."""

    scheduler: str | None = setting(None, " | ".join(SCHEDULERS))
    internet: SiteInternet = section("who reaches it")
    paths: SitePaths = section("where large things lie")
    node_local: str | None = setting(
        None,
        "a disk of the node, a variable of the job such as $TMPDIR; null, or unset there: /dev/shm",
    )
    home_writable: bool = setting(True, "false: jobs get another $HOME, in paths.scratch")
    quota: list[str] = setting(
        [], "commands that print what is used of the quotas, for lab doctor: [idr_quota_user]"
    )
    gpu: SiteGPU = section("of its nodes")
    job: SiteJob = section("what job.* asks for by default")
    account: SiteAccount = section("how jobs name the account that pays")
    resources: list[Resource] = setting(
        [], "the first that fits job.gpus and job.nodes; its options join those of the job"
    )
    queues: list[Queue] = setting([], "the first that takes the job")
    reservation: list[str] = setting(
        [],
        "options for job.reservation, in place of the queue's; []: the scheduler's own",
    )
    max_array: float = setting(
        NO_LIMIT, "of a job array; .inf: what the scheduler says", unit="runs", least=2
    )
    max_jobs: float = setting(
        NO_LIMIT,
        "of a user, queued or running; .inf: what the scheduler says",
        unit="jobs",
        least=1,
    )
    options: list[str] = setting([], "scheduler options of every job")
    launcher: Literal["srun", "mpirun", "mpiexec", "shell"] = setting("srun", "of the ranks")
    launcher_options: list[str] = setting([], "more of its options")
    python: Literal["venv", "module", "packed", "container", "wheelhouse"] = setting(
        "venv",
        "of a job: venv (paths.environment) | module (the same, on the centre's Python and torch) | "
        "packed (venv as one file) | container | "
        "wheelhouse (made on each node, of the centre's wheels in the versions of venv)",
    )
    modules: SiteModules = section("that a job loads")
    container: SiteContainer = section(
        'of python: container; the image is that of "lab image build"'
    )
    env: dict[str, Any] = setting(
        {},
        "exported in the job; the only place for NCCL settings. $VARIABLES of the job are expanded; "
        "a value with that of a rank, such as $SLURM_LOCALID, is exported in each rank",
    )
    prologue: list[str] = setting([], "lines of shell of the site's own, before the ranks start")
    rendezvous_suffix: str = setting(
        "", "added to the name of the first node, where the ranks meet: i for JUWELS' InfiniBand"
    )
    requeue: SiteRequeue = section("how a job starts again after its time limit")
    poll_s: int = setting(30, "between two questions to the scheduler", unit="seconds", least=0)
    login_hosts: list[str] = setting(
        [],
        "regular expressions of login nodes' host names, where the site is chosen by itself",
    )
    cost: SiteCost = section("what the centre takes")
    balance: SiteBalance = section("for lab doctor")
    sources: dict[str, Any] = setting({}, "name -> {url or what, seen}")
    confidence: dict[str, Any] = setting(
        {},
        "key -> [mark, source]; V run, or read in source | D documented | "
        "U seen only in users' scripts | ? unconfirmed",
    )
    verified: str | date | None = setting(
        None, "who ran a job there, and when; null: nobody on the project"
    )


@settings_class
class BudgetSettings:
    gpu_hours: float | None = setting(
        None,
        "lab submit refuses more than this, unless told --yes; "
        "without a bench nodes x GPUs x job.time count",
        least=0,
    )
    gpu_hours_per_month: float | None = setting(
        None, "the same for all that you submit in a month in this project", least=0
    )
    price_per_gpu_hour: float | None = setting(
        None,
        "in `currency`; some sites' profiles hold one: "
        "${site.cost.per_gpu_hour}, in ${site.cost.unit}",
        least=0,
    )
    price_per_kwh: float | None = setting(
        None, "in `currency`; where you pay for electricity", least=0
    )
    currency: str | None = setting(None, "a word to print behind amounts")
