"""torchvision and torchaudio: each is built for one version and one build of torch, that which is there.

The package index has them for its own build of torch only. With that of TORCH=cpu they would install,
and fail when they are used; or the installer would exchange torch, which is gigabytes.
"""

from __future__ import annotations

import platform
import re
import sys
import zipfile
from collections.abc import Iterable
from email.parser import BytesParser
from pathlib import Path
from typing import NoReturn

from ..project import Project
from .installer import WHEELS, index_variables, name_of, pip_command, quiet
from .process import run, say, stop
from .torch_build import (
    DEFAULT,
    PYTORCH,
    answers,
    family_requirements,
    installed_family,
    numbers_of,
    usable_wheels,
    version_of,
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
