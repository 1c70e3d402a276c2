"""The environment of a run: what it was recorded as, and how it differs now."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from ... import env
from ...machine.caches import CACHES
from ...machine.secrets import find_tokens, known_secrets, says_secret
from ..files.atomic import sha256
from ..files.schema import Environment, StartRecord
from ..read.settings import list_differences
from .packages import installed_packages, other_packages, versions_by_name

# What native libraries read and what changes their numbers: each is named by the manual of its library.
CHANGE_NUMBERS = (
    "ATEN_*",
    "BLIS_*",
    "CUBLAS_*",
    "CUDNN_*",
    "DNNL_*",
    "GOTO_*",
    "KMP_*",
    "MKL_*",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NPY_*",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "ONEDNN_*",
    "OPENBLAS_*",
    "TORCH_ALLOW_TF32_*",
    "TORCH_BLAS_*",
    "TORCH_CUDNN_*",
    "XLA_*",
)
# These and those of record.env_vars are recorded with their values, the others with a hash.
OTHERS = (
    "CUDA_*",
    "GLOO_*",
    "LAB_*",
    "NCCL_*",
    "OMP_*",
    "PYTORCH_*",
    "SLURM_*",
    "TORCH*",
    "TRITON_*",
)
PATTERNS = (*CHANGE_NUMBERS, *OTHERS)
# How Python itself runs: PYTHONOPTIMIZE leaves out asserts, the seed of hashes orders sets.
OF_PYTHON = ("PYTHONHASHSEED", "PYTHONOPTIMIZE")
NAMES = {
    *OF_PYTHON,
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    *env.JOB_IDS,
    "LOADEDMODULES",
    "VIRTUAL_ENV",
}
# Variables that are set again as they were, next to those of record.env_vars.
REPEATED = (*OF_PYTHON, *CHANGE_NUMBERS)
# What a terminal, a login, a launcher, a scheduler, our jobs and, when they are imported, libraries set anew
# each time. They are not compared.
SET_ANEW = """
    _ BASH_* BROWSER COLORTERM COLUMNS DBUS_* DISPLAY EDITOR ENVIRONMENT GIT_* GPG_* HIST* HOME HOST
    HOSTNAME KRB5* LESS* LINES LOGNAME LS_COLORS MAIL MOTD_* OLDPWD PAGER PATH PS1 PWD SHELL SHLVL
    SSH_* STY SUDO_* TEMP TERM* TMP* TMUX* TZ USER VISUAL VSCODE_* WINDOWID XDG_* PYTEST_*
    LOADEDMODULES PYTHONFAULTHANDLER PYTHONNOUSERSITE PYTHONPATH PYTHONSAFEPATH PYTHONUNBUFFERED
    VIRTUAL_ENV* WANDB_*
    JOB_* LAB_* LSB_* LSF_* LS_* PBS_* PJM_* SGE_* SLURM* SRUN_* TASK_ID
    GROUP_* LOCAL_* MASTER_* NODE_RANK OMPI_* PALS_* PL_* PMI* PRTE_* RANK ROLE_* TORCHELASTIC_*
    WORLD_SIZE CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES
    KMP_DUPLICATE_LIB_OK KMP_INIT_AT_FORK PYTORCH_NVML_BASED_CUDA_CHECK TORCHINDUCTOR_*
"""
OF_A_SESSION = {*SET_ANEW.split(), *CACHES}
SESSION_BEGINNINGS = tuple(name[:-1] for name in OF_A_SESSION if name.endswith("*"))
HASH_DIGITS = 8  # too few to tell the value
LOCKS = ("uv.lock", "env-freeze.txt")
CONTAINERS = (env.IMAGE, "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
COMPARED = ("python", "lock_sha256", "container", "modules")  # and the packages


def read_environment(
    root: Path, packages: list[str], env_vars: Sequence[str] = (), checked_files: bool = False
) -> Environment:
    """The `env` section of a record.

    Args:
        root: the project, for its lock file and its .env.
        packages: what `installed_packages` returned.
        env_vars: patterns of further variables to record, such as MY_*.
        checked_files: whether `packages` says which files were edited.
    """
    locks = [root / name for name in LOCKS if (root / name).is_file()]
    containers = [os.environ[name] for name in CONTAINERS if name in os.environ]
    modules = os.environ.get("LOADEDMODULES", "").split(":")
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "torch": versions_by_name(packages).get("torch"),
        "lock": locks[0].name if locks else None,
        "lock_sha256": sha256(locks[0]) if locks else None,
        "n_packages": len(packages),
        "container": containers[0] if containers else None,
        "container_sha256": os.environ.get(env.IMAGE_SHA256),
        "modules": [name for name in modules if name],
        "variables": recorded_variables(root, env_vars),
        "env_vars": list(env_vars),
        "checked_files": checked_files,
    }


def recorded_variables(root: Path, env_vars: Sequence[str] = ()) -> dict[str, str]:
    """The environment variables that a record holds with their values; none looks like a secret.

    Args:
        root: the project; a variable that its .env names is a secret.
        env_vars: patterns of variables that the user wants to be recorded.
    """
    plain = variables_without_secrets(root)
    return {
        name: value for name, value in plain.items() if is_listed(name) or matches(name, env_vars)
    }


def other_variables(root: Path, recorded: Iterable[str]) -> dict[str, str | None]:
    """A short hash of each variable that is not among the `recorded` ones; None for a secret."""
    plain = variables_without_secrets(root)
    return {
        name: short_hash(plain[name]) if name in plain else None
        for name in sorted(os.environ.keys() - set(recorded))
    }


def variables_without_secrets(root: Path) -> dict[str, str]:
    """The variables of this process that neither .env sets nor their name or value makes a secret."""
    of_dotenv = names_in_dotenv(root)
    secrets = known_secrets()
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if not (says_secret(name) or name in of_dotenv)
        and not find_tokens(value.encode(errors="replace"), name, secrets)
    }


def names_in_dotenv(root: Path) -> set[str]:
    """The variables that the project's .env sets."""
    if not (root / ".env").is_file():
        return set()
    from dotenv import dotenv_values  # commands that only read records do without

    return set(dotenv_values(root / ".env"))


def short_hash(value: str) -> str:
    return hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()[:HASH_DIGITS]


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class VariableChanges:
    """Names of variables with another value than recorded, with what is known of the change.

    Args:
        numbers: those that are known to change numbers, and those of record.env_vars.
        others: whose meaning is not known.
    """

    numbers: dict[str, str]
    others: dict[str, str]

    @property
    def lines(self) -> list[str]:
        return [
            f"variable {name}: {change}" for name, change in (self.numbers | self.others).items()
        ]


def variable_changes(
    start: StartRecord, root: Path, env_vars: Sequence[str] = ()
) -> VariableChanges:
    """How the variables of this process differ from those of an attempt.

    Args:
        start: its start.json.
        root: the project.
        env_vars: the patterns of record.env_vars.
    """
    found = VariableChanges({}, {})
    if "other_variables" not in start:  # of a command
        return found
    hashes = start["other_variables"]
    then = start.get("variables") or {}
    plain = variables_without_secrets(root)
    for name in sorted({*then, *hashes, *plain}):
        if is_of_a_session(name) and not matches(name, env_vars):
            continue
        now = os.environ.get(name)
        before = hashes[name] if name in hashes else then.get(name)
        is_secret = name in hashes and before is None
        compared = short_hash(now) if name in hashes and now is not None else now
        if is_secret or before == compared:
            continue
        if name in hashes:
            change = "another value" if name in os.environ else "absent now"
        else:
            shown = plain.get(name, "absent" if now is None else "a secret")
            was = "absent" if before is None else before
            change = f"{was} -> {shown}"
        numbers = matches(name, (*REPEATED, *env_vars))
        (found.numbers if numbers else found.others)[name] = change
    return found


def is_of_a_session(name: str) -> bool:
    """Whether each terminal or job has another value of a variable."""
    return name in OF_A_SESSION or name.startswith(SESSION_BEGINNINGS)


@cache
def is_listed(name: str) -> bool:
    """Whether every record holds the value of a variable."""
    return name in NAMES or matches(name, PATTERNS)


def environment_differences(
    recorded: Environment, recorded_packages: list[str], root: Path
) -> list[str]:
    """How the environment of this process differs from the recorded one, a line each."""
    packages = installed_packages(root, recorded.get("checked_files") or False)
    return list_differences(
        comparable_environment(recorded, recorded_packages),
        comparable_environment(read_environment(root, packages), packages),
    )


def comparable_environment(environment: Environment, packages: list[str]) -> dict[str, object]:
    """What of an environment counts when it is compared."""
    compared: dict[str, object] = {key: environment.get(key) for key in COMPARED}
    # The same image may lie in another place.
    compared["container"] = environment.get("container_sha256") or environment.get("container")
    return compared | {"package": other_packages(packages)}
