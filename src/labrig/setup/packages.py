"""Which packages the environment gets: those of the lock, or the newest that fit."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import time
import tomllib
from collections.abc import Collection
from importlib.metadata import distributions
from pathlib import Path

from ..machine.command import output_of
from ..machine.text_formats import and_more
from ..project import LIBRARY, PYPROJECT, Project, owners_of
from ..record.read.used import bytes_below, format_bytes
from .environment import STAMPS, kept_versions
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
from .torch_build import (
    FAMILY,
    RECORD,
    family_requirements,
    install_members,
    install_torch,
    installed_build,
    others_than,
    pins_of_family,
    replace_others,
    say_how_large_torch_is,
)

LOCK = "uv.lock"
PIP_LOCK = "requirements.lock"  # the same with hashes, for pip
FREEZE = "env-freeze.txt"  # what was installed where no lock is followed
MAX_NAMES = 5


def install(
    project: Project,
    environment: Path,
    uv: str | None,
    build: str,
    centre: dict[str, str] | None = None,
    *,
    adds: bool = False,
) -> None:
    """Installs the packages, unless nothing has changed since the last time.

    With uv and its index they are those of uv.lock. Otherwise the versions are resolved now, and
    written to env-freeze.txt: a lock file of local wheels, or of one build of torch, fits no other
    machine.

    Args:
        build: of torch, as cpu; "" for that of the package index.
        centre: name -> version of what lies below the environment and is not installed again.
        adds: a package was added to those that are there; torch stays as it is.
    """
    if not os.access(environment, os.W_OK):
        require_packages(project, environment)
        return
    follows_lock = bool(uv) and not build and not WHEELS
    record = project.root / (LOCK if follows_lock else FREEZE)
    stamp = stamp_of(project, environment)
    others = others_than(environment, build) if build else []
    if (
        not others
        and record.exists()
        and stamp.exists()
        and stamp.read_text() == fingerprint(project, record, build, centre)
    ):
        say(f"the environment is up to date ({record.name})")
        return
    began_s = time.monotonic()
    say("installing the packages; the first time takes minutes")
    say_little_room(environment, build, centre)
    if not build and centre is None:
        say_how_large_torch_is(project, environment)
    build = install_torch(project, environment, uv, build)
    if uv and follows_lock:
        install_locked(project, environment, uv)
    else:
        # Also one that nobody chose, such as that of a directory of wheels.
        kept = build or installed_build(environment) or ""
        if kept:
            install_members(project, environment, uv, kept)
        stays = pins_of_family(environment) if kept or adds else []
        install_resolved(project, environment, uv, build, centre, stays)
        if kept:
            replace_others(environment, uv, kept)
        freeze = pip_command(environment, uv, "freeze")
        record.write_text(output_of(*freeze) or "", encoding="utf-8")
    (environment / RECORD).write_text(build)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(fingerprint(project, record, build, centre))
    size = format_bytes(bytes_below(environment))
    say(f"the packages are installed: {size}, in {time.monotonic() - began_s:.0f} s")


def stamp_of(project: Project, environment: Path) -> Path:
    """The file that says from what the packages of a project were installed."""
    name = hashlib.sha256(str(project.root).encode()).hexdigest()[:12]
    return environment / STAMPS / f"{name}.txt"


def require_packages(project: Project, environment: Path) -> None:
    """Stops where an environment that somebody else keeps lacks a package."""
    installed = {name_of(each.metadata["Name"] or "") for each in distributions()}
    missing = [line for line in requirements_of(project) if name_of(line) not in installed]
    if missing:
        stop(
            f"{environment} is not yours to change, and lacks: {and_more(missing, MAX_NAMES)}.\n"
            f"Ask {environment.owner()} to install them, or choose another paths.environment"
        )
    say(f"the environment {environment} belongs to {environment.owner()}: nothing is installed")


def say_little_room(environment: Path, build: str, centre: dict[str, str] | None) -> None:
    """Before gigabytes go to a disk without room for them."""
    if installed_build(environment) is not None:
        return
    needed_GB = 8
    if build == "cpu" or centre:
        needed_GB = 2
    caches = os.environ.get("LAB_CACHES") or os.path.expanduser("~")
    for key, place in (("environment", environment), ("caches", Path(caches))):
        directory = next(folder for folder in (place, *place.parents) if folder.exists())
        free_GB = shutil.disk_usage(directory).free / 1e9
        if free_GB < needed_GB:
            say(
                f"the disk of {place} has {free_GB:.1f} GB free, and the packages take up to "
                f"{needed_GB} GB. For another disk set paths.{key} in src/*/conf/config.yaml"
            )


def install_locked(project: Project, environment: Path, uv: str) -> None:
    """As uv.lock says; constraints change it first. Then it is written again for pip."""
    variables = {
        "UV_PROJECT_ENVIRONMENT": str(environment),
        "UV_PYTHON": str(environment / "bin" / "python"),
    }
    variables |= index_variables()
    upgrades = []
    for line in constraint_lines():
        if "==" in line:
            upgrades += ["--upgrade-package", line.split(";")[0].strip()]
    run(uv, "lock", "--quiet", *upgrades, variables=variables)
    leave_library = ["--no-install-package", LIBRARY.name]
    run(
        uv,
        "sync",
        *quiet(),
        "--inexact",
        *leave_library,
        *project_words(project, environment),
        variables=variables,
    )
    words = ["--no-emit-project", "--no-emit-package", LIBRARY.name]
    words += ["--no-header", "--no-annotate", "--frozen"]
    target = ["--format", "requirements.txt", "--output-file", PIP_LOCK]
    run(uv, "export", "--quiet", *words, *target, variables=variables)


def project_words(project: Project, environment: Path) -> list[str]:
    """An environment of several projects imports each from where it lies, and installs none."""
    return [] if owners_of(environment) == [project.root] else ["--no-install-project"]


def install_resolved(
    project: Project,
    environment: Path,
    uv: str | None,
    build: str,
    centre: dict[str, str] | None = None,
    stays: Collection[str] = (),
) -> None:
    """The versions of the lock where the repository has one, else the newest that fit.

    Args:
        stays: `name==version` of torch and what is built for it, which are not exchanged.
    """
    command = [*pip_command(environment, uv, "install"), *quiet()]
    own_torch = bool(build or WHEELS)
    if (project.root / PIP_LOCK).exists() and not (own_torch or centre):
        say(f"the versions and hashes are those of {PIP_LOCK}")
        without = {"PIP_CONSTRAINT": ""}
        run(*command, "--require-hashes", "--requirement", PIP_LOCK, variables=without)
    pins = []
    if (project.root / LOCK).exists():
        replaced = "what the centre has" if centre else "torch"
        exception = f", but for {replaced}" if centre or own_torch else ""
        say(f"the versions are those of {LOCK}{exception}")
        pins = locked_versions(project, centre or (FAMILY if own_torch or stays else ()))
    pins_of_centre = kept_versions(centre or {})
    stays = pins_of_centre or stays
    pins += stays
    constraint: list[str | Path] = []
    if pins:
        file = environment / "lab-versions.txt"
        file.write_text("\n".join(pins) + "\n")
        constraint = ["--constraint", file]
    requirements = requirements_of(project)
    done = run(*command, *constraint, *requirements, fatal=not stays, variables=index_variables())
    if not done and centre:
        stop(
            "the packages do not fit to those of the centre, see above. "
            f"{', '.join(pins_of_centre)} stays, and "
            f"pyproject.toml asks for {', '.join(family_requirements(project))}.\n"
            "Load a newer module, then again: make setup PYTHON=python3"
        )
    if not done:
        stop(
            f"the installation failed, see above. {', '.join(stays)} stays.\n"
            "No matching distribution? Check the spelling and the version.\n"
            "Does a package need another torch? Choose a version of it that fits this one. For a newer "
            f"torch:\n  {shlex.join(map(str, [*pip_command(environment, uv, 'uninstall'), *FAMILY]))}"
            "\nThen type the same make again"
        )
    if owners_of(environment) == [project.root]:
        run(*command, "--no-deps", "--editable", ".", variables=index_variables())


def locked_versions(project: Project, except_for: Collection[str]) -> list[str]:
    """`name==version` of each package that uv.lock has in one version, unless constraints name it."""
    skipped = {name_of(line) for line in constraint_lines()}.union(except_for)
    versions: dict[str, set[str]] = {}
    content = tomllib.loads((project.root / LOCK).read_text(encoding="utf-8"))
    for package in content.get("package", []):
        if "registry" in package.get("source", {}):
            versions.setdefault(package["name"], set()).add(package["version"])
    return [
        f"{name}=={min(several)}"
        for name, several in sorted(versions.items())
        if len(several) == 1 and name not in skipped
    ]


def fingerprint(
    project: Project, record: Path, build: str, centre: dict[str, str] | None = None
) -> str:
    """Of all that decides what is installed; when it changes, the packages are installed again."""
    inputs = [str(project.root), build, *constraint_lines(), *requirements_of(project)]
    inputs += [f"{name}=={version}" for name, version in sorted((centre or {}).items())]
    files = [project.root / name for name in (PYPROJECT, LOCK, PIP_LOCK)]
    inputs += [path.read_text("utf-8") for path in [*files, record] if path.exists()]
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()
