"""What the JSON files of the record hold: their keys, units and meanings.

A value is None when it is not known. Older records have fewer keys: readers take a missing key for
None.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class SkippedFile(TypedDict):
    """A file that a snapshot leaves out."""

    path: str
    reason: str  # nested-repository, secret-name or size
    bytes: NotRequired[int]  # when the reason is size


class UnfrozenFile(TypedDict):
    """An imported file that the frozen code does not hold as it ran."""

    path: str  # relative to the project, or absolute
    kind: str  # changed (since the freeze), left out (by git or a limit) or outside (of git)
    reason: str
    sha256: str | None  # of its content; None when it was gone


class Code(TypedDict, total=False):
    """The code of a run: `code` in run.json, or the label of an unpacked snapshot.

    A submodule has the same keys and `path`. When it is not checked out, it has only `path, commit,
    dirty, note`.
    """

    commit: Any  # str, of the snapshot; None when the code was not recorded, for which readers look
    tree: str
    ref: str  # refs/runs/<commit>
    dirty: bool | None  # whether the snapshot differs from HEAD
    head: str | None  # None before the first commit
    branch: str | None  # None when HEAD is detached
    prefix: str  # of the project in its repository: "" or with a slash at the end
    remote: str | None  # URL without credentials
    remote_name: str | None  # such as origin
    n_changed: int  # files of HEAD that are changed or deleted
    n_untracked: int  # files that HEAD has not
    skipped: list[SkippedFile]
    submodules: list[Code]
    package_tree: str  # git's hash of src/<package>
    trial_tree: str | None  # git's hash of the trial's directory
    base: str | None  # commit of the whole bundle that the other one needs
    remote_base: Any  # str, commit at the remote, which the bundles leave out; None without one
    bundle: str  # thin, full or pushed; see write_bundles
    complete: bool | None  # in start.json: whether it holds all that the attempt imported
    not_frozen: list[UnfrozenFile]  # in start.json: the imported files that it does not hold
    reason: str  # why the code was not recorded, or not compared with what was imported
    same: bool  # in start.json: the code of this attempt is the run's
    path: str  # of a submodule
    note: str  # of a submodule
    version: str  # of the library, which stands among the submodules


class InitialWeights(TypedDict, total=False):
    """The weights that a run starts from: `init_from` in run.json and in the start.json of an attempt
    that loaded them, which alone has the last five keys.
    """

    source: str  # RUN_ID:CHECKPOINT, an absolute path, or hf:ORG/MODEL@COMMIT:FILE
    path: str  # of the file
    run: str | None  # id of the run that made them
    checkpoint: str | None
    size_bytes: int | None
    sha256: str | None  # None: the run that makes them had not ended when this run was recorded
    n_loaded: int
    n_tensors: int  # of the task
    missing: list[str]  # names of the task that the file lacks
    unused: list[str]  # names of the file that the task lacks
    skipped: list[str]  # names of both with another shape


class ProcessFacts(TypedDict, total=False):
    """What shows whether a process still lives.

    A pid means something only in the boot and pid namespace that it is from.
    """

    host: str
    cwd: str  # the directory in which it was started
    pid: int
    pid_space: str
    pid_started: str | None  # clock ticks since boot, which differ when a pid is used again


class ImageFacts(TypedDict):
    """The one file that a job takes its packages from."""

    file: str
    sha256: str


class Environment(TypedDict):
    """`env` in run.json; the installed packages lie in env.txt."""

    python: str
    executable: str
    platform: str
    torch: str | None
    lock: str | None  # name of the lock file
    lock_sha256: str | None
    n_packages: int
    container: str | None  # file of the image, or of the packed environment
    container_sha256: str | None
    modules: list[str]
    variables: dict[str, str]
    env_vars: list[str]  # patterns of further names that are recorded: record.env_vars
    checked_files: bool  # whether env.txt names packages whose files were edited


class Scrub(TypedDict):
    """A leaked value that was taken out of a record: what no longer is as it was recorded."""

    time: str
    who: str | None
    files: list[str]  # of the run's directory
    code: dict[str, list[str]]  # changed files by the new commit


class RunRecord(TypedDict, total=False):
    """run.json, written once when a run is created; `job` changes when the scheduler answers."""

    schema: int
    run_id: str
    trial: str
    parent: str | None  # id of the run that this one repeats, or of the sweep that it is a point of
    why: str | None
    who: str | None
    order_unix_ms: int  # the place among all runs, see order.py
    created: str | None  # ISO 8601 with time zone
    host: str | None
    process: ProcessFacts
    template: str | None  # version of the template
    seed: int | None
    allow: bool | None
    max_file_mb: float | None
    code: Code
    command: dict[str, Any]  # argv, cwd, overrides
    config_sha256: str | None
    settings: dict[str, Any]  # config.yaml as data, without the profile of the site
    init_from: InitialWeights  # of a run that starts from other weights
    env: Environment
    files: dict[str, str]  # sha256 by file name
    job: dict[str, Any]  # site, scheduler, id, queue, submitted_unix_s
    scrubbed: list[Scrub]  # when a leaked value was taken out of this record
    sha256: str  # of all other entries; so in every JSON file of the record, see seal.py


class StartRecord(ProcessFacts, total=False):
    """attempts/<n>/start.json; a training adds further keys, such as `precision`, `forecast`."""

    attempt: int
    started_unix_s: float
    job: dict[str, Any]  # id, started_unix_s; of an attempt that a job made
    imported_from: str
    variables: dict[str, str]
    variables_read: list[str]  # names that own code read and whose values are not recorded
    code: Code
    environment_differences: list[str]
    accelerator: str
    device: str
    world_size: int
    data: dict[str, Any]  # fingerprint: path, sha256, size_bytes, mtime_ns, n; or not_recorded: why
    init_from: InitialWeights  # the weights that this attempt loaded, when it began from others
    exact: bool  # of an attempt that resumes: whether it continues bit for bit
    inexact_because: list[str]  # why not
    overrides: list[str]  # settings of this attempt that differ from the run's
    files: dict[str, str]  # sha256 of this attempt's bundles, by the path from the run directory
    sha256: str


class RaisedError(TypedDict):
    """An exception without secrets."""

    type: str
    line: str
    place: str | None  # file:line: code, of the project's own code


class EndRecord(TypedDict, total=False):
    """attempts/<n>/end.json."""

    status: str  # finished, failed or interrupted; trained: the fit finished, its test did not
    exit_code: int
    signal: int | None  # number of the signal that ended it
    exception: RaisedError | None
    ended_unix_s: float
    seconds: float
    gpu_seconds: float  # wall time times devices
    energy_j: float | None
    peak_memory_bytes: int
    peak_gpu_bytes: int | None
    metrics: dict[str, float]
    files: dict[str, str]  # sha256 by the path from the run directory
    checkpoints: dict[str, dict[str, Any]]  # bytes and sha256 by file name
    sha256: str


class Summary(TypedDict, total=False):
    """summary.json: what a listing needs of a run. Times and energy are sums over all attempts."""

    schema: int
    run_id: str
    trial: str
    parent: str | None
    order_unix_ms: int | None
    created: str | None
    who: str | None
    why: str | None
    seed: int | None
    config_sha256: str | None
    metrics: dict[str, float]
    exception: str | None  # one line
    code: Code
    device: str | None
    started_unix_s: float | None  # of the first attempt
    attempt_unix_s: float | None  # start of the last attempt
    ended_unix_s: float | None
    seconds: float | None
    gpu_seconds: float | None
    energy_j: float | None
    n_attempts: int
    waited: dict[str, Any] | None  # site, queue, seconds until its job first began
    init_from: dict[str, Any] | None  # weights it started from: source, run, checkpoint, sha256
    changes: list[str]  # what attempts had different, a line each; see changes.py
    settings: dict[str, Any]  # of the run, or of the last attempt that had others
    status: str  # one of STATES
    attempt_status: str | None  # how the last attempt ended; a run that finished before stays so
    sha256: str


class Row(Summary, total=False):
    """A run in a list of runs: its summary, its tags and where it is."""

    run_dir: str
    commit: str | None  # of the snapshot
    package_tree: str | None  # git's hash of src/<package>
    trial_tree: str | None  # git's hash of the trial's directory
    renamed_from: str | None  # the recorded id, when the directory has another name
    is_copied: NotRequired[bool]  # another directory in the list has the same recorded id
    tags: list[str]
