"""What the JSON files of the record hold: their keys, units and meanings.

A value is None when it is not known.

These types are also the forms that `read_record` checks (forms.py): a colleague sends a record, a
host answers with one, and an archive holds some.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

from .forms import (
    INSIDE,
    AbsolutePath,
    FileName,
    GitHash,
    Int,
    Metric,
    RelativePath,
    RunId,
    Seconds,
    UnixTime,
    between,
    matches,
)

Prefix = Annotated[str, matches(rf"(?:{INSIDE}/)?", "'' or a relative path that ends in '/'")]
# git would obey the settings in a directory .git.
SUBMODULE = rf"(?!(?i:(?:[^/]*/)*\.git(?:/|\Z))){INSIDE}"
SubmodulePath = Annotated[str, matches(SUBMODULE, "a relative path without '..' and '.git'")]
# Of a package: its project is the directory two above.
PackagePath = Annotated[str, matches(r"/[^/\0]+/[^\0]+", "the absolute path of a package")]
# It becomes a word of the command that asks or cancels the job.
JobId = Annotated[str, matches(r"\w[\w.:@\[\]-]*", "the id of a job")]


class SkippedFile(TypedDict):
    """A file that a snapshot leaves out."""

    path: RelativePath
    reason: str  # nested-repository, secret-name or size
    bytes: NotRequired[Int]  # when the reason is size


class UnfrozenFile(TypedDict):
    """An imported file that the frozen code does not hold as it ran."""

    path: str  # relative to the project, or absolute
    kind: str  # changed (since the freeze), left out (by git or a limit), outside (of git), read, filtered
    reason: str
    sha256: str | None  # of its content; None when it was gone


class Code(TypedDict, total=False):
    """The code of a run: `code` in run.json, or the label of an unpacked snapshot.

    A submodule has the same keys and `path`. When it is not checked out, it has only `path, dirty,
    note`.
    """

    commit: GitHash  # of the snapshot; missing when the code was not recorded
    tree: GitHash
    ref: str  # refs/runs/<commit>
    dirty: bool | None  # whether the snapshot differs from HEAD
    head: GitHash | None  # None before the first commit
    branch: str | None  # None when HEAD is detached
    prefix: Prefix  # of the project in its repository: "" or with a slash at the end
    remote: str | None  # URL without credentials
    remote_name: str | None  # such as origin
    n_changed: Int  # files of HEAD that are changed or deleted
    n_untracked: Int  # files that HEAD has not
    skipped: list[SkippedFile]
    submodules: list[Submodule]
    package_tree: GitHash | None  # git's hash of src/<package>
    trial_tree: GitHash | None  # git's hash of the trial's directory
    base: GitHash | None  # commit of the whole bundle that the other one needs
    remote_base: GitHash | None  # commit at the remote, which the bundles leave out
    bundle: str  # thin, full or pushed; see write_bundles
    complete: bool | None  # in start.json: whether it holds all that the attempt imported
    not_frozen: list[UnfrozenFile]  # in start.json: the imported files that it does not hold
    used: dict[str, str]  # in start.json: git's hash of each of its files that was imported or read
    reason: str  # why the code was not recorded, or not compared with what was imported
    same: bool  # in start.json: the code of this attempt is the run's
    note: str  # of a submodule
    version: str  # of the library, which stands among the submodules


class Submodule(Code, total=False):
    """The code of a submodule."""

    path: Required[SubmodulePath]


class InitialWeights(TypedDict, total=False):
    """The weights that a run starts from: `init_from` in run.json and in the start.json of an attempt
    that loaded them, which alone has the last five keys.
    """

    source: str  # RUN_ID:CHECKPOINT, an absolute path, or hf:ORG/MODEL@COMMIT:FILE
    path: str  # of the file
    run: str | None  # id of the run that made them
    checkpoint: str | None
    size_bytes: Int | None
    sha256: str | None  # None: the run that makes them had not ended when this run was recorded
    n_loaded: Int
    n_tensors: Int  # of the task
    missing: list[str]  # names of the task that the file lacks
    unused: list[str]  # names of the file that the task lacks
    skipped: list[str]  # names of both with another shape


class DataOrigin(TypedDict):
    """The run that made the data of a run, in run.json."""

    run: str
    file: str  # from its directory
    sha256: str | None  # None: the file was not there yet when this run was recorded


class ProcessFacts(TypedDict, total=False):
    """What shows whether a process still lives.

    A pid means something only in the boot and pid namespace that it is from.
    """

    host: str
    cwd: str  # the directory in which it was started
    pid: Int
    pid_space: str
    pid_started: str | None  # clock ticks since boot, which differ when a pid is used again


class ImageFacts(TypedDict):
    """The one file that a job takes its packages from."""

    file: str
    sha256: str  # of its content


class Environment(TypedDict, total=False):
    """`env` in run.json; the installed packages lie in env.txt."""

    python: str
    executable: str
    platform: str
    torch: str | None
    lock: str | None  # name of the lock file
    lock_sha256: str | None
    n_packages: Int
    container: str | None  # file of the image, or of the packed environment
    container_sha256: str | None
    modules: list[str]
    variables: dict[str, str]
    env_vars: list[str]  # patterns of further names that are recorded: record.env_vars
    checked_files: bool  # whether env.txt names packages whose files were edited


class DataFingerprint(TypedDict, total=False):
    """The data that an attempt read; a class of the user's adds keys."""

    path: str
    sha256: str
    size_bytes: Int
    mtime_ns: Int
    n: Int
    pack: str  # the command that made the file
    rows: Any  # of splits that are not the file's own, a hash each
    files: list[DataFile]  # where there are several
    not_recorded: str  # why


class DataFile(DataFingerprint, total=False):
    """One of several data files."""

    path: Required[str]
    sha256: Required[str]
    size_bytes: Required[Int]


class StartedCommand(TypedDict, total=False):
    """What was typed."""

    argv: list[str]
    cwd: str
    overrides: list[str]


class WaitingHere(TypedDict):
    """What `lab queue` needs to send a run later."""

    max_jobs: Int | None
    counted: str
    throttle: Int
    name: str
    options: list[str]


class Job(TypedDict, total=False):
    """The job of a run, as its scheduler has it."""

    scheduler: str
    site: str
    id: JobId
    sending: bool  # it is about to be sent, and has no id yet
    nodes: Int
    tasks_per_node: Annotated[int, between(1, 10**6)]
    cpus_per_task: Int
    memory_MB: Int | None  # of each node; None: the scheduler's default
    gpus: Int
    typed: list[str]  # keys of `job` that were set, not taken from the site
    time_s: Seconds
    limit_s: Int
    lead_s: Int
    memory_MB: Int | None  # per node
    goes_on: bool  # another job may continue the run by itself
    attempt: Int  # which the job of a continued run begins; those before were over when it was sent
    changed: list[str]  # settings that were typed then
    queue: str | None
    submitted_unix_s: UnixTime
    script: AbsolutePath
    chain: list[JobId]  # of all chunks
    earlier_ids: list[JobId]
    index: Int  # of the run in its array
    program: Any  # what `lab submit run` runs
    waiting: WaitingHere  # of a run that waits for a place
    others: list[JobId]  # of the same script, when it was sent
    unknown: str  # why nobody knows whether the scheduler has it
    refused: str  # why there is no job
    cancelled: bool  # while it waited for a place


class JobOfAttempt(TypedDict):
    """The job that an attempt ran in."""

    id: str
    started_unix_s: UnixTime


class AfterRuns(TypedDict):
    """The runs that a run was submitted to come after."""

    when: Literal["finished", "ended"]  # how they must be over
    runs: dict[RunId, AbsolutePath]  # the directory of each


class RunRecord(TypedDict):
    """run.json, written once when a run is created; `job` changes when the scheduler answers."""

    format: Int
    run_id: RunId
    trial: RelativePath
    parent: (
        str | None
    )  # id of the run that this one repeats, or of the sweep of which it is a point
    is_check: NotRequired[bool]  # made by `lab runs reproduce --check`: its numbers count nowhere
    why: str | None
    who: str | None
    order_unix_ms: NotRequired[Int]  # the place among all runs, see order.py
    created: str | None  # ISO 8601 with time zone
    host: str | None
    project: NotRequired[str]  # the root of the project that made it
    process: ProcessFacts
    template: str | None  # version of the template
    seed: Int | None
    allow: bool | None
    max_file_mb: float | None
    code: Code
    command: StartedCommand
    config_sha256: str | None
    settings: NotRequired[dict[str, Any]]  # config.yaml as data, without the profile of the site
    init_from: NotRequired[InitialWeights]  # of a run that starts from other weights
    data_from: NotRequired[DataOrigin]  # of a run that reads a file of another run
    env: Environment
    job: NotRequired[Job]
    after: NotRequired[AfterRuns]  # of a run that was submitted to come after others


class MeasuredForecast(TypedDict):
    """What `lab bench` of the same code and settings expected; bench adds keys."""

    seconds: Seconds


class TrainedWith(TypedDict):
    """A part of a task."""

    classes: list[str]  # of what was built
    decided_by: str  # a section, such as optimizer or task.optimizer, or the task in words


class StartRecord(ProcessFacts, total=False):
    """attempts/<n>/start.json; a training adds further keys, such as `precision`, `forecast`."""

    attempt: Int
    started_unix_s: UnixTime
    job: JobOfAttempt
    imported_from: PackagePath
    flags: dict[str, int]  # of Python, those that are not 0, such as optimize
    variables: dict[str, str]
    other_variables: dict[str, str | None]  # a short hash of each; None of a secret
    variables_changed: list[str]  # since the attempt before
    code: Code
    environment_differences: list[str]
    accelerator: str
    device: str
    world_size: Int
    data: DataFingerprint
    threads: Int
    instructions: str  # the set that torch's kernels for the CPU use, such as AVX2
    devices: Int
    forecast: MeasuredForecast | None  # of `lab bench`
    init_from: InitialWeights  # the weights that this attempt loaded, when it began from others
    trained_with: dict[str, TrainedWith]  # by part: model, optimizer, schedule
    tested_weights: str  # last, best, or the name of another checkpoint
    exact: bool  # of an attempt that resumes: whether it continues bit for bit
    inexact_because: list[str]  # why not
    overrides: list[str]  # settings of this attempt that differ from the run's
    save_s: float  # the longest that this attempt took to save a checkpoint


class RaisedError(TypedDict):
    """An exception without secrets."""

    type: str
    line: str
    place: str | None  # file:line: code, of the project's own code


class CheckpointFile(TypedDict):
    """A checkpoint that an attempt left."""

    bytes: Int
    sha256: str | None  # None when there was no time to read it


class OutputFile(TypedDict):
    """A file that a command wrote."""

    bytes: Int
    sha256: str | None  # None of a large one, and of all when the job was stopped


class Outputs(TypedDict):
    """What lay in the directory of a command when an attempt ended."""

    n: Int  # files
    bytes: Int
    files: dict[
        RelativePath, OutputFile
    ]  # by the path from the run directory; of many files the first ones


# of a run: how it ended, or that it has not
RunStatus = Literal[
    "finished",
    "trained",  # the fit finished, its test did not
    "failed",
    "interrupted",
    "cancelled",
    "refused",
    "lost",
    "damaged",
    "running",
    "queued",
    "unknown",
]
EndStatus = Literal["finished", "trained", "failed", "interrupted"]


class EndRecord(TypedDict, total=False):
    """attempts/<n>/end.json."""

    status: EndStatus
    exit_code: Int
    signal: Int | None  # number of the signal that ended it
    exception: RaisedError | None
    ended_unix_s: UnixTime
    seconds: Seconds
    gpu_seconds: Seconds  # wall time times devices
    energy_j: float | None
    peak_memory_bytes: Int
    peak_gpu_bytes: Int | None
    size_bytes: Int  # of all files of the run, its checkpoints too
    metrics: dict[str, Metric]
    checkpoints: dict[FileName, CheckpointFile]
    global_step: Int
    outputs: Outputs  # of a command


class RowsOfCheckpoint(TypedDict, total=False):
    """attempts/<n>/rows.json: metrics.jsonl when the last checkpoint of the attempt was saved."""

    bytes: Int
    sha256_of_rows: str
    sha256: str


class Beginning(TypedDict, total=False):
    """attempts/<n>/beginning.json."""

    step: Int


class Note(TypedDict, total=False):
    """A line of notes.jsonl, with one of the next five."""

    named: str  # the file of a table, an archive or a report that names the run
    pruned: str  # names of the weights and caches that were deleted
    freed: str  # how much room that made
    note: str
    tag: str
    untag: str
    time: str
    who: str | None


class Evaluation(TypedDict, total=False):
    """A line of evaluations.jsonl."""

    time_unix_s: UnixTime
    checkpoint: str
    overrides: list[str]
    metrics: dict[str, Metric]
    checkpoint_sha256: str
    data_name: str | None  # of the data set, where it is not the test of the run's own
    split: str
    data: DataFingerprint
    code: Code


class Prediction(TypedDict, total=False):
    """A line of predictions.jsonl."""

    path: str  # below the run directory, or absolute
    n: Int
    content_sha256: str
    checkpoint_sha256: str
    split: str | None
    data: DataFingerprint
    code: Code


class Archived(TypedDict, total=False):
    """archived.json, in a run of an archive."""

    archived: str  # when
    who: str | None
    left_out: list[FileName]


class SummaryRecord(TypedDict, total=False):
    """What most readers need of summary.json; `Summary` of read/fields.py has all its keys."""

    status: Required[RunStatus]
    attempt_status: str | None
    n_attempts: Int | None
    exception: str | None
    metrics: dict[str, Metric]


# A run in a list of runs: `Summary` of read/fields.py has its keys.
Row = dict[str, Any]
