"""TORCH=cpu, TORCH=cu126: another build of torch than that of the package index.

It is installed first, and the other packages leave it as it is. The environment remembers it, so
that `make add` and the next `make setup` keep it.

torchvision and torchaudio are each built for one version and one build of torch, that which is there.
The index has them for its own build only: they would install, and fail when they are used; or the
installer would exchange torch, which is gigabytes.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import urllib.request
import zipfile
from collections.abc import Iterable
from email.parser import BytesParser
from pathlib import Path
from typing import NoReturn

from ..project import Project
from .installer import (
    WHEELS,
    constraint_lines,
    index_variables,
    name_of,
    pip_command,
    quiet,
    requirements_of,
    run,
    say,
    stop,
)

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


EXACT_TORCH = re.compile(r"torch *\(?== *([0-9.]+)")


def is_of_build(version: str, build: str) -> bool:
    """Whether a version is of a build; only on Linux with x86 does every version name its own."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return True
    return version.partition("+")[2] == build


def others_than(environment: Path, build: str) -> list[str]:
    """What of torch's family is installed in another build."""
    installed = installed_family(environment)
    return sorted(name for name, version in installed.items() if not is_of_build(version, build))


def pins_of_family(environment: Path) -> list[str]:
    """`name==version` of torch and of what is built for it: they stay while others are installed."""
    return [f"{name}=={version}" for name, version in sorted(installed_family(environment).items())]


def install_members(project: Project, environment: Path, uv: str | None, build: str) -> None:
    """Installs what the project asks for of torch's family, for the torch that is there."""
    installed = installed_family(environment)
    asked_for = {name_of(line): line for line in family_requirements(project)}
    lacking = {
        name: line
        for name, line in asked_for.items()
        if not is_of_build(installed.get(name, ""), build) or name not in installed
    }
    if lacking:
        install_fitting(environment, uv, build, lacking)


def replace_others(environment: Path, uv: str | None, build: str) -> None:
    """Exchanges what another package has brought of torch's family in another build."""
    others = others_than(environment, build)
    if others:
        remove(environment, uv, others)
        install_fitting(environment, uv, build, {name: name for name in others})


def install_fitting(
    environment: Path, uv: str | None, build: str, requirements: dict[str, str]
) -> None:
    """Installs packages of torch's family from a directory, else from PyTorch's index; or stops.

    Args:
        requirements: by their names.
    """
    torch = installed_family(environment)["torch"]
    index = f"{PYTORCH}/{build}"
    wheels = {name: fitting_wheel(name, build, torch) for name in requirements}
    words = list(requirements.values())
    variables = index_variables()
    if all(wheels.values()):
        words += [f"{name}=={version}" for name, version in wheels.items()]
        source = " ".join(WHEELS)
    elif answers(f"{index}/{next(iter(requirements))}/"):
        words += ["--default-index" if uv else "--index-url", index, f"torch=={torch}"]
        # That index has other versions of other packages than the constraints name.
        variables |= {"PIP_CONSTRAINT": "", "UV_CONSTRAINT": "", "UV_INDEX": ""}
        variables |= {"PIP_EXTRA_INDEX_URL": "", "UV_EXTRA_INDEX_URL": ""}
        source = index
    else:
        stop_without(requirements, build, torch, index)
    say(f"{' '.join(requirements.values())} for torch {torch}, from {source}")
    run(*pip_command(environment, uv, "install"), *quiet(), *words, variables=variables)


def stop_without(names: Iterable[str], build: str, torch: str, index: str) -> NoReturn:
    """Nothing has them for this torch."""
    places = " and ".join([*WHEELS, index])
    stop(
        f"{' '.join(names)} of the build {build} for torch {torch} is not to be had from\n{places},\n"
        "and that of the package index is built for another torch. Type the same again\n"
        f"- where {index} can be reached, or\n"
        "- with PIP_FIND_LINKS=DIRECTORY in front: a directory with such a wheel, or\n"
        f"- with TORCH={DEFAULT} behind: the torch of the package index, on Linux about 5 GB"
    )


def fitting_wheel(name: str, build: str, torch: str) -> str | None:
    """The newest version of a build in the directories of wheels that is made for this torch."""
    fitting = []
    for wheel in usable_wheels(name):
        made_for = torch_of_wheel(wheel)
        is_made_for_it = made_for is None or made_for == torch.partition("+")[0]
        if is_of_build(version_of(wheel), build) and is_made_for_it:
            fitting.append(version_of(wheel))
    return max(fitting, key=numbers_of, default=None)


def torch_of_wheel(wheel: Path) -> str | None:
    """The version of torch that a wheel asks for; None when it takes any."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        headers = BytesParser().parsebytes(archive.read(metadata), headersonly=True)
    for line in headers.get_all("Requires-Dist", []):
        if match := EXACT_TORCH.match(line):
            return match[1]
    return None


def remove(environment: Path, uv: str | None, names: list[str]) -> None:
    agreed = [] if uv else ["--yes"]
    run(*pip_command(environment, uv, "uninstall"), *agreed, *names)
