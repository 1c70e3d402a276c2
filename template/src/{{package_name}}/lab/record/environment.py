# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The environment of a run: packages, variables, versions; what has changed since."""

import os
import platform
import sys
from pathlib import Path

from ..machine.gpu import nvidia_driver
from ..machine.secrets import find_tokens
from .atomic import read_json, sha256
from .process import CONTAINERS

# By allow-list, so that no token ever gets in: what changes numbers, placement or speed.
PREFIXES = (
    "CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "GLOO_", "OMP_", "MKL_", "OPENBLAS_", "TORCH_", "PYTORCH_", "SLURM_", "LAB_",
)  # fmt: skip
NAMES = {
    "PYTHONHASHSEED", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "JOB_ID", "PBS_JOBID", "LOADEDMODULES", "VIRTUAL_ENV",
}  # fmt: skip
LOCKS = ("uv.lock", "env-freeze.txt")
COMPARED = ("python", "lock_sha256", "container", "modules")  # and the packages
ABSENT = "absent"


def packages() -> list[str]:
    """Installed distributions from directory names alone: `name==version`, with ` @ URL` when not from an index."""
    found: dict[str, str] = {}
    for place in sys.path:
        try:
            names = [
                entry.name
                for entry in os.scandir(place or ".")
                if entry.name.endswith(".dist-info")
            ]
        except OSError:
            continue
        for name in names:
            package, _, version = name.removesuffix(".dist-info").partition("-")
            direct = (
                read_json(Path(place, name, "direct_url.json"))
                if package.lower() not in found
                else None
            )
            origin = f" @ {direct['url']}" if direct and "url" in direct else ""
            found.setdefault(
                package.lower(), f"{package}=={version}{origin}"
            )  # the first on the path is imported
    return [found[key] for key in sorted(found)]


def variables() -> dict[str, str]:
    named = {k: v for k, v in sorted(os.environ.items()) if k.startswith(PREFIXES) or k in NAMES}
    return {k: v for k, v in named.items() if not find_tokens(v.encode(errors="replace"), k)}


def versions(installed: list[str]) -> dict[str, str]:
    """The lines of `packages` as {package: version}."""
    return dict(line.split("==", 1) for line in installed if "==" in line)


def environment(root: Path, installed: list[str]) -> dict:
    """The `env` section of a record; `installed` is the answer of `packages`."""
    lock = next((root / name for name in LOCKS if (root / name).is_file()), None)
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "torch": versions(installed).get("torch"),
        "lock": lock and lock.name,
        "lock_sha256": lock and sha256(lock),
        "n_packages": len(installed),
        "container": next((os.environ[name] for name in CONTAINERS if name in os.environ), None),
        "modules": [name for name in os.environ.get("LOADEDMODULES", "").split(":") if name],
        "variables": variables(),
    }


def drift(recorded: dict, recorded_packages: list[str], root: Path) -> list[str]:
    """How the environment of this process differs from the recorded one, a line each."""
    installed = packages()
    pairs = ((recorded, recorded_packages), (environment(root, installed), installed))
    before, after = (
        {key: env.get(key) for key in COMPARED} | {"package": versions(names)}
        for env, names in pairs
    )
    return changes(before, after)


def changes(before: dict, after: dict) -> list[str]:
    """`key: a -> b` for every leaf that differs."""
    left, right = flat(before), flat(after)
    keys = [key for key in {**left, **right} if left.get(key, ABSENT) != right.get(key, ABSENT)]
    return [f"{key}: {left.get(key, ABSENT)} -> {right.get(key, ABSENT)}" for key in keys]


def flat(tree: dict, prefix: str = "") -> dict:
    """A nested dict as `{"a.b": leaf}`."""
    found: dict = {}
    for key, value in tree.items():
        found |= (
            flat(value, f"{prefix}{key}.")
            if isinstance(value, dict) and value
            else {f"{prefix}{key}": value}
        )
    return found


def torch_facts() -> dict:
    """Versions, flags, threads and GPUs (model and UUID) of this process."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    gpus = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if gpus else None,
        "driver": nvidia_driver(),
        "gpus": [{"model": gpu.name, "uuid": f"GPU-{gpu.uuid}"} for gpu in gpus],
        "threads": torch.get_num_threads(),
        "determinism": {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_deterministic": torch.backends.cudnn.deterministic,
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
        },
    }
