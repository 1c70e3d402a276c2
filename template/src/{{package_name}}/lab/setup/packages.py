# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Which packages the environment gets: those of the lock, or the newest that fit."""

import hashlib
import os
import shutil
from pathlib import Path

from .centre import kept_versions
from .installer import WHEELS, constraint_lines, index_variables, name_of, pip_command, quiet
from .process import ROOT, output_of, run, say, stop
from .torch_build import (
    FAMILY,
    RECORD,
    family_requirements,
    install_torch,
    installed_build,
    say_how_large_torch_is,
)

STAMP = "lab-setup.txt"  # in the environment: from what it was installed
LOCK = ROOT / "uv.lock"
PIP_LOCK = ROOT / "requirements.lock"  # the same with hashes, for pip


def install(environment, uv, build, centre=None):
    """Installs the packages, unless nothing has changed since the last time.

    With uv and its index they are those of uv.lock. Otherwise the versions are resolved now, and
    written to env-freeze.txt: a lock file of local wheels, or of one build of torch, fits no other
    machine.

    Args:
        build: of torch, as cpu; "" for that of the package index.
        centre: name -> version of what lies below the environment and is not installed again.
    """
    follows_lock = bool(uv) and not build and not WHEELS
    record = LOCK if follows_lock else ROOT / "env-freeze.txt"
    stamp = environment / STAMP
    if (
        record.exists()
        and stamp.exists()
        and stamp.read_text() == fingerprint(record, build, centre)
    ):
        say(f"the environment is up to date ({record.name})")
        return
    say("installing the packages; the first time takes minutes")
    say_little_room(environment, build, centre)
    if not build and centre is None:
        say_how_large_torch_is(environment)
    build = install_torch(environment, uv, build)
    if follows_lock:
        install_locked(environment, uv)
    else:
        install_resolved(environment, uv, build, centre)
        freeze = pip_command(environment, uv, "freeze")
        record.write_text(output_of(*freeze), encoding="utf-8")
    (environment / RECORD).write_text(build)
    stamp.write_text(fingerprint(record, build, centre))


def say_little_room(environment, build, centre):
    """Before gigabytes go to a disk without room for them."""
    if installed_build(environment) is not None:
        return
    needed_GB = 8
    if build == "cpu" or centre:
        needed_GB = 2
    caches = os.environ.get("LAB_CACHES") or os.path.expanduser("~")
    for key, place in (("environment", environment), ("caches", Path(caches))):
        directory = next(folder for folder in (place, *place.parents) if folder.exists())
        free_GB = shutil.disk_usage(str(directory)).free / 1e9
        if free_GB < needed_GB:
            say(
                f"the disk of {place} has {free_GB:.1f} GB free, and the packages take up to "
                f"{needed_GB} GB. For another disk set paths.{key} in src/*/conf/config.yaml"
            )


def install_locked(environment, uv):
    """As uv.lock says; constraints change it first. Then it is written again for pip."""
    variables = {
        "UV_PROJECT_ENVIRONMENT": str(environment),
        "UV_PYTHON": str(environment / "bin" / "python"),
    }
    variables.update(index_variables())
    upgrades = []
    for line in constraint_lines():
        if "==" in line:
            upgrades += ["--upgrade-package", line.split(";")[0].strip()]
    run(uv, "lock", "--quiet", *upgrades, **variables)
    run(uv, "sync", *quiet(), "--inexact", "--extra", "dev", **variables)
    words = ["--extra", "dev", "--no-emit-project", "--no-header", "--no-annotate", "--frozen"]
    target = ["--format", "requirements.txt", "--output-file", PIP_LOCK]
    run(uv, "export", "--quiet", *words, *target, **variables)


def install_resolved(environment, uv, build, centre=None):
    """The versions of the lock where the repository has one, else the newest that fit."""
    command = [*pip_command(environment, uv, "install"), *quiet()]
    own_torch = bool(build or WHEELS)
    if PIP_LOCK.exists() and not (own_torch or centre):
        say(f"the versions and hashes are those of {PIP_LOCK.name}")
        run(*command, "--require-hashes", "--requirement", PIP_LOCK, PIP_CONSTRAINT="")
    pins = []
    if LOCK.exists():
        replaced = "what the centre has" if centre else "torch"
        exception = f", but for {replaced}" if centre or own_torch else ""
        say(f"the versions are those of uv.lock{exception}")
        pins = locked_versions(centre or (FAMILY if own_torch else ()))
    pins_of_centre = kept_versions(centre or {})
    pins += pins_of_centre
    if pins:
        file = environment / "lab-versions.txt"
        file.write_text("\n".join(pins) + "\n")
        command += ["--constraint", file]
    done = run(*command, "--editable", ".[dev]", fatal=not centre, **index_variables())
    if not done:
        stop(
            "the packages do not fit to those of the centre, see above. "
            f"{', '.join(pins_of_centre)} stays, and "
            f"pyproject.toml asks for {', '.join(family_requirements())}.\n"
            "Load a newer module, then again: make setup PYTHON=python3"
        )


def locked_versions(except_for):
    """`name==version` of each package that uv.lock has in one version, unless constraints name it."""
    import tomllib  # an old Python has stopped before

    skipped = {name_of(line) for line in constraint_lines()}.union(except_for)
    versions = {}
    for package in tomllib.loads(LOCK.read_text(encoding="utf-8")).get("package", []):
        if "registry" in package.get("source", {}):
            versions.setdefault(package["name"], set()).add(package["version"])
    return [
        f"{name}=={min(several)}"
        for name, several in sorted(versions.items())
        if len(several) == 1 and name not in skipped
    ]


def fingerprint(record, build, centre=None):
    """Of all that decides what is installed; when it changes, the packages are installed again."""
    inputs = [str(ROOT), build, *constraint_lines()]
    inputs += [f"{name}=={version}" for name, version in sorted((centre or {}).items())]
    files = [ROOT / "pyproject.toml", LOCK, PIP_LOCK, record]
    inputs += [path.read_text("utf-8") for path in files if path.exists()]
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()
