"""The environment of a run: what it was recorded as, and how it differs now."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from ... import env
from ...machine.secrets import find_tokens, known_secrets, says_secret
from ..files.atomic import sha256
from ..files.schema import Environment
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
# Only these variables and those of record.env_vars are recorded, so that no token gets in. They
# change numbers, placement or speed.
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
NAMES = {
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    *env.JOB_IDS,
    "LOADEDMODULES",
    "VIRTUAL_ENV",
}
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
    """The environment variables that a record may hold, without those that look like a secret.

    Args:
        root: the project; a variable that its .env names is a secret.
        env_vars: patterns of variables that the user wants to be recorded.
    """
    secret_names = names_in_dotenv(root) if env_vars else set()
    secrets = known_secrets()
    variables = {}
    for name, value in sorted(os.environ.items()):
        asked_for = any(fnmatchcase(name, pattern) for pattern in env_vars)
        if says_secret(name) or not (is_listed(name) or (asked_for and name not in secret_names)):
            continue
        if not find_tokens(value.encode(errors="replace"), name, secrets):
            variables[name] = value
    return variables


@cache
def is_listed(name: str) -> bool:
    """Whether every record holds the value of a variable."""
    return name in NAMES or any(fnmatchcase(name, pattern) for pattern in PATTERNS)


def names_in_dotenv(root: Path) -> set[str]:
    """The variables that the project's .env sets."""
    from dotenv import dotenv_values  # commands that only read records do without

    return set(dotenv_values(root / ".env"))


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
    """What of an environment counts when it is compared; an older record may lack keys."""
    compared: dict[str, object] = {key: environment.get(key) for key in COMPARED}
    # The same image may lie in another place.
    compared["container"] = environment.get("container_sha256") or environment.get("container")
    return compared | {"package": other_packages(packages)}
