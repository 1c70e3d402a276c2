"""TORCH=cpu, TORCH=cu126: another build of torch than that of the package index.

It is installed first, and the other packages leave it as it is. The environment remembers it, so
that `make add` and the next `make setup` keep it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import urllib.request
from pathlib import Path

from ..project import Project
from .installer import WHEELS, constraint_lines, index_variables, name_of, pip_command, quiet
from .process import run, say, stop
from .requirements import requirements_of

PYTORCH = os.environ.get("TORCH_INDEX") or "https://download.pytorch.org/whl"
FAMILY = ("torch", "torchvision", "torchaudio")  # these are built for each other
RECORD = "lab-torch.txt"  # in the environment: its build
DEFAULT = "default"  # TORCH=default: that of the package index again
TIMEOUT_S = 10


def chosen_build(environment: Path) -> str:
    """The build that was typed, else that of the environment; "" is that of the package index."""
    typed = os.environ.get("TORCH", "")
    if typed and not re.match(r"(cpu|cu[0-9]+|rocm[0-9.]+|xpu|default)\Z", typed):
        stop(f"TORCH is {typed!r}, but must be a build such as cpu or cu126, or {DEFAULT}")
    if typed:
        return "" if typed == DEFAULT else typed
    record = environment / RECORD
    return record.read_text().strip() if record.exists() else ""


def install_torch(project: Project, environment: Path, uv: str | None, build: str) -> str:
    """Installs torch of a build from the first place that has it, and says which.

    Returns the build that the environment then has; "" when only the package index has torch.
    """
    installed = installed_build(environment)
    is_chosen = build or os.environ.get("TORCH") == DEFAULT
    if not is_chosen or installed == build:
        return build
    source = source_of(project, build, uv) if build else []
    if source is None:
        return ""
    if installed is not None:
        say(f"torch of the build {installed or DEFAULT} is replaced")
        uninstall_torch(environment, uv)
    if source:
        # PyTorch's index has other versions of other packages than the constraints name.
        without = {"PIP_CONSTRAINT": "", "UV_CONSTRAINT": "", "UV_INDEX": ""}
        without.update({"PIP_EXTRA_INDEX_URL": "", "UV_EXTRA_INDEX_URL": ""})
        command = [*pip_command(environment, uv, "install"), *quiet(), *source]
        run(*command, variables=index_variables() | without)
    return build


def source_of(project: Project, build: str, uv: str | None) -> list[str] | None:
    """The words after `pip install` that bring torch of a build; None when nothing has it."""
    wheel = local_wheel(project, build)
    index = f"{PYTORCH}/{build}"
    if wheel:
        say(f"torch: {wheel}, from {' '.join(WHEELS)}")
        return ["--no-deps", wheel]
    if answers(f"{index}/torch/"):
        say(f"torch: the build {build} of {index}")
        return ["--default-index" if uv else "--index-url", index, *family_requirements(project)]
    say(
        f"{index} does not answer,\nso torch comes from the package index. "
        "On Linux that is the build for NVIDIA GPUs,\nabout 5 GB. It works without a GPU too."
    )
    return None


def installed_build(environment: Path) -> str | None:
    """cpu of torch 2.13.0+cpu, "" of torch 2.13.0; None when torch is not installed."""
    version = installed_family(environment).get("torch")
    return None if version is None else version.partition("+")[2]


def installed_family(environment: Path) -> dict[str, str]:
    """name -> version of torch and of what is built for it, as far as it is installed."""
    names = installed_names(environment, *FAMILY)
    return {name_of(name.split("-")[0]): name.split("-")[1] for name in names}


def installed_names(environment: Path, *packages: str) -> list[str]:
    """The names of .dist-info directories of some packages, as torch-2.13.0+cpu."""
    folders = environment.glob("lib/python3*/site-packages/*.dist-info")
    names = [folder.name[: -len(".dist-info")] for folder in folders]
    return [name for name in names if name_of(name.split("-")[0]) in packages]


def uninstall_torch(environment: Path, uv: str | None) -> None:
    """Removes torch and what was built for it; what another build needs comes back with it."""
    folders = environment.glob("lib/python3*/site-packages/nvidia_*.dist-info")
    nvidia = {name_of(folder.name.split("-")[0]) for folder in folders} - {"nvidia-ml-py"}
    names = installed_names(environment, *FAMILY, "triton", *nvidia)
    packages = [name.split("-")[0] for name in names]
    agreed = [] if uv else ["--yes"]
    run(*pip_command(environment, uv, "uninstall"), *agreed, *packages)


def local_wheel(project: Project, build: str) -> str | None:
    """A requirement such as torch==2.13.0+cpu, for the newest wheel of a build in directories."""
    asked_for = {name_of(line): line for line in family_requirements(project)}
    if "torch" not in asked_for:
        return None
    pin = asked_for["torch"].partition("==")[2]
    versions = [version for version in wheel_versions("torch") if version.endswith(f"+{build}")]
    versions = [version for version in versions if not pin or version.startswith(f"{pin}+")]
    return f"torch=={max(versions, key=numbers_of)}" if versions else None


def wheel_versions(name: str) -> list[str]:
    """The versions of a package of which a directory has a wheel for this Python."""
    return [version_of(wheel) for wheel in usable_wheels(name)]


def usable_wheels(name: str) -> list[Path]:
    """The wheels of a package for this Python in the directories of wheels."""
    tag = "-cp{}{}-".format(*sys.version_info)
    files = [path for folder in WHEELS for path in Path(folder).glob(f"{name}-*.whl")]
    return [file for file in files if tag in file.name or "-py3-" in file.name]


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1].replace("%2B", "+")


def numbers_of(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version.partition("+")[0])]


def family_requirements(project: Project) -> list[str]:
    """torch, and those of its family that the project asks for; a version that constraints name."""
    listed = [line.split(";")[0].strip() for line in requirements_of(project)]
    asked_for = {name_of(line): line for line in listed}
    pins = {
        name_of(line): line.split(";")[0].strip() for line in constraint_lines() if "==" in line
    }
    asked_for.update({name: pins[name] for name in asked_for if name in pins})
    return [line for name, line in asked_for.items() if name in FAMILY]


def answers(url: str) -> bool:
    """Whether a server answers, behind a proxy or not."""
    try:
        urllib.request.urlopen(url, timeout=TIMEOUT_S).close()
    except (OSError, ValueError):
        return False
    return True


def has_nvidia_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or bool(shutil.which("nvidia-smi"))


def say_how_large_torch_is(project: Project, environment: Path) -> None:
    """Before gigabytes are fetched for GPUs that are not there."""
    if (
        has_nvidia_gpu()
        or wheel_versions("torch")
        or sys.platform != "linux"
        or platform.machine() != "x86_64"
    ):
        return
    if installed_build(environment) is None and family_requirements(project):
        say(
            "no NVIDIA GPU here, but torch of the package index brings 5 GB for one.\n"
            "On the login node of a cluster that is right. For a machine without a GPU\n"
            "stop with Ctrl-C, and type: make setup TORCH=cpu"
        )
