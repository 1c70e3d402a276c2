"""Creates a run: freezes the code, then writes the record.

The directory of the run appears under its name when everything in it is written.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import env
from ...machine.secrets import refuse_tokens_in, secret_hider
from ...project import Project, read_yaml, say_once
from ..files.atomic import FORMAT, write_file
from ..files.manifest import list_files, write_listed
from ..files.process import process_facts, user
from ..files.schema import AfterRuns, Code, ImageFacts, InitialWeights, Job, RunRecord
from ..freeze.bundle import STORE, link_bundles
from ..freeze.environment import read_environment
from ..freeze.frozen import check_frozen_directory, freeze_code
from ..freeze.packages import installed_packages
from ..freeze.snapshot import format_code
from ..read.each import INPUTS, Inputs
from ..read.order import next_order_unix_ms, order_of
from ..read.rows import read_rows
from ..read.run import Run, record_root
from ..read.settings import settings_of_yaml, settings_to_record
from .inputs import ASKS, origin_of_data, resolve_weights, yaml_with_source
from .weights_place import mark_place

if TYPE_CHECKING:
    from ...config.compose import Composition  # imports Hydra

ANSWERS = ".copier-answers.yml"  # its `_commit` is the version of the template


@dataclass(frozen=True)
class RunRequest:
    """What a new run is made of."""

    trial: str  # "wide", or "wide/lowlr" for a variant
    config_yaml: str  # the composed configuration
    overrides: list[str]
    argv: list[str]
    seed: int
    why: str | None = None
    parent: str | None = None  # id of the run that this one repeats
    run_id: str | None = None  # chosen before, by the machine that sends the run here
    dirty: str = "snapshot"  # what to do about uncommitted changes: "snapshot" or "refuse"
    allow: bool = False  # record also what looks like a token
    max_file_mb: float = 10  # files that git does not track are skipped above this (10**6 bytes)
    env_vars: tuple[str, ...] = ()  # patterns of further environment variables to record
    package_files: bool = False  # compare every installed file with the hash of its installation
    checkpoints: Path | None = None  # root for checkpoints that shall not lie in the run directory
    code: Code | None = None  # what `freeze_code` returned, when that was done before
    job_of: Callable[[Path], Job] | None = None  # of its directory, where the run is submitted
    after: AfterRuns | None = None  # the runs that it comes after
    inputs: Inputs | None = None  # of a command over files
    image: ImageFacts | None = None  # what the job takes its packages from
    init_from: InitialWeights | None = None  # what `create_run` found for `init_from`
    settings: dict[str, Any] | None = None  # those of config_yaml, when they were read before
    packages: list[str] | None = None  # what is installed, when it was listed before

    @classmethod
    def of(cls, composition: Composition, **more: Any) -> RunRequest:
        """The request for a composed configuration.

        Args:
            more: the fields that a configuration does not say, such as argv and why.
        """
        settings = composition.settings
        rules = settings["record"]
        checkpoints = settings["paths"]["checkpoints"]
        fields: dict[str, Any] = {
            "trial": composition.trial,
            "config_yaml": composition.yaml,
            "settings": settings_to_record(composition.recorded),
            "overrides": composition.overrides,
            "seed": settings["seed"],
            "dirty": rules["dirty"],
            "max_file_mb": rules["max_file_mb"],
            "env_vars": tuple(rules.get("env_vars", ())),
            "package_files": rules.get("package_files", False),
            "checkpoints": Path(checkpoints) if checkpoints else None,
        }
        return cls(**(fields | more))


@dataclass(frozen=True)
class RunDirectory:
    """The place of a new run: it is written into `staging`, which is then renamed to `final`."""

    run_id: str
    staging: Path
    final: Path


def create_run(project: Project, runs: Path, request: RunRequest) -> Run:
    """Freezes the code and writes the record to runs/<trial>/<run_id>/.

    The directory of a variant is runs/<trial>+<variant>/<run_id>/.

    Args:
        runs: root of all runs.
    """
    check_frozen_directory()
    request = fix_weights(request, project)
    request = hide_in_request(request)
    if not request.allow:
        refuse_tokens_in_request(request)
    code = request.code or code_of_request(project, runs, request)
    print_code(code)
    packages = request.packages or installed_packages(project.root, request.package_files)
    directory = create_run_dir(runs / request.trial.replace("/", "+"), request.run_id)
    try:
        write_run_files(directory.staging, request, packages)
        link_bundles(code, runs / STORE, directory.staging)
        record = build_record(project, request, directory, code, packages)
        record["order_unix_ms"] = next_order_unix_ms(runs, lambda: newest_order_unix_ms(runs))
        list_files(directory.staging, [path.name for path in sorted(directory.staging.iterdir())])
        record = write_listed(directory.staging, "run.json", record)
        create_checkpoint_dir(directory, request.checkpoints)
        record_root(project, runs)
        os.rename(directory.staging, directory.final)
    except BaseException:
        shutil.rmtree(directory.staging, ignore_errors=True)
        raise
    return Run(directory.final, record, code)


def code_of_request(project: Project, runs: Path, request: RunRequest) -> Code:
    """Freezes the code; see `freeze_code`."""
    return freeze_code(
        project,
        runs,
        request.trial,
        dirty=request.dirty,
        max_file_mb=request.max_file_mb,
        allow=request.allow,
    )


def fix_weights(request: RunRequest, project: Project) -> RunRequest:
    """The request with an `init_from` that means the same for ever, and what it names now."""
    if not ASKS.search(request.config_yaml):
        return request
    reference = str(settings_of_yaml(request.config_yaml)["init_from"])
    # A job may wait for the run that makes them.
    weights = resolve_weights(reference, project, may_come=request.job_of is not None)
    config_yaml = yaml_with_source(request.config_yaml, weights["source"])
    return replace(request, config_yaml=config_yaml, settings=None, init_from=weights)


def hide_in_request(request: RunRequest) -> RunRequest:
    """The request with `${oc.env:NAME}` where a known secret was typed or composed."""
    hide_secrets = secret_hider()
    config_yaml = hide_secrets(request.config_yaml)
    return replace(
        request,
        config_yaml=config_yaml,
        settings=request.settings if config_yaml == request.config_yaml else None,
        overrides=[hide_secrets(line) for line in request.overrides],
        argv=[hide_secrets(word) for word in request.argv],
        why=hide_secrets(request.why) if request.why else request.why,
    )


def newest_order_unix_ms(runs: Path) -> int:
    """The place of the newest recorded run in the order of runs; 0 before the first."""
    return max((order_of(row) for row in read_rows([runs])), default=0)


def refuse_tokens_in_request(request: RunRequest) -> None:
    """Looks for tokens in what the record will show."""
    texts = {
        "command line": " ".join(request.argv),
        "overrides": "\n".join(request.overrides),
        "configuration": request.config_yaml,
        "--why": request.why or "",
    }
    refuse_tokens_in(texts)


def print_code(code: Code) -> None:
    """One line about what was recorded as the code, unless it is just HEAD; once for many runs of it."""
    if not code.get("commit"):
        print(f"lab: the code is NOT recorded: {code['reason']}", file=sys.stderr)
    elif code["dirty"] or code["skipped"]:
        say_once(f"code {format_code(code)}")


def create_run_dir(folder: Path, run_id: str | None = None) -> RunDirectory:
    """Makes a hidden directory for a new run in `folder`. Whoever makes it owns the id.

    Args:
        run_id: chosen before. What a killed try left in its hidden directory is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if run_id:
        staging = folder / f".{run_id}"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        return RunDirectory(run_id, staging, folder / run_id)
    while True:
        run_id = new_run_id()
        directory = RunDirectory(run_id, folder / f".{run_id}", folder / run_id)
        try:
            directory.staging.mkdir()
        except FileExistsError:
            continue
        if not directory.final.exists():
            return directory


def new_run_id() -> str:
    """A run id. It begins with the time in UTC: hosts of other time zones write into one `runs`."""
    second = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"{second}-{secrets.token_hex(3)}"


def ids_from(first_id: str, n: int) -> list[str]:
    """`n` run ids that follow from the first: a submission that is sent twice has the same."""
    second = first_id.rpartition("-")[0]
    words = (hashlib.sha256(f"{first_id}/{i}".encode()).hexdigest()[:6] for i in count(1))
    ids = {first_id: None}
    while len(ids) < n:
        ids[f"{second}-{next(words)}"] = None  # of a thousand words, two may be the same
    return list(ids)


def write_run_files(staging: Path, request: RunRequest, packages: list[str]) -> None:
    """Writes config.yaml, overrides.txt, env.txt and, for a command over files, inputs.json."""
    if request.inputs:
        write_file(staging / INPUTS, request.inputs.text())
    write_file(staging / "config.yaml", request.config_yaml)
    write_file(staging / "overrides.txt", "".join(f"{line}\n" for line in request.overrides))
    write_file(staging / "env.txt", "".join(f"{line}\n" for line in packages))


def build_record(
    project: Project,
    request: RunRequest,
    directory: RunDirectory,
    code: Code,
    packages: list[str],
) -> RunRecord:
    """What run.json says."""
    record: RunRecord = {
        "format": FORMAT,
        "run_id": directory.run_id,
        "trial": request.trial,
        "parent": request.parent,
        "why": request.why,
        "who": user(),
        "created": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "host": platform.node(),
        "project": str(project.root),
        "process": process_facts(),
        "template": template_version(project),
        "seed": request.seed,
        "allow": request.allow,
        "max_file_mb": request.max_file_mb,
        "code": code,
        "command": {
            "argv": request.argv,
            "cwd": os.getcwd(),
            "overrides": request.overrides,
        },
        "config_sha256": hashlib.sha256(request.config_yaml.encode()).hexdigest(),
        "settings": request.settings or settings_of_yaml(request.config_yaml),
        "env": read_environment(project.root, packages, request.env_vars, request.package_files),
    }
    if os.environ.get(env.CHECK):
        record["is_check"] = True
    if request.image is not None:
        image = request.image
        record["env"]["container"] = image["file"]
        record["env"]["container_sha256"] = image["sha256"]
    if request.init_from is not None:
        record["init_from"] = request.init_from
    if data_from := origin_of_data(record["settings"]):
        record["data_from"] = data_from
    if request.job_of is not None:
        record["job"] = request.job_of(directory.final)
    if request.after is not None:
        record["after"] = request.after
    return record


def template_version(project: Project) -> str | None:
    """The version of the template that the project was made from or last updated to."""
    answers = project.root / ANSWERS
    return read_yaml(answers).get("_commit") if answers.exists() else None


def create_checkpoint_dir(directory: RunDirectory, root: Path | None) -> None:
    """Makes checkpoints/; a link when `root`, the root for all checkpoints, is given."""
    checkpoints = directory.staging / "checkpoints"
    if root is None:
        checkpoints.mkdir()
        return
    elsewhere = root / directory.final.parent.name / directory.run_id
    elsewhere.mkdir(parents=True)
    mark_place(elsewhere, directory.final)
    checkpoints.symlink_to(elsewhere)
