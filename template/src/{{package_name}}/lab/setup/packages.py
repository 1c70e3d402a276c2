# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Which packages the environment gets: those of uv.lock, or the newest that fit."""

import hashlib

from .installer import WHEELS, constraint_lines, index_variables, name_of, pip_command, quiet
from .process import ROOT, output_of, run, say
from .torch_build import FAMILY, RECORD, install_torch, say_how_large_torch_is

STAMP = "lab-setup.txt"  # in the environment: from what it was installed
LOCK = ROOT / "uv.lock"


def install(environment, uv, build):
    """Installs the packages, unless nothing has changed since the last time.

    With uv and its index they are those of uv.lock. Otherwise the versions are resolved now, and
    written to env-freeze.txt: a lock file of local wheels, or of one build of torch, fits no other
    machine.

    Args:
        build: of torch, as cpu; "" for that of the package index.
    """
    follows_lock = bool(uv) and not build and not WHEELS
    record = LOCK if follows_lock else ROOT / "env-freeze.txt"
    stamp = environment / STAMP
    if record.exists() and stamp.exists() and stamp.read_text() == fingerprint(record, build):
        say(f"the environment is up to date ({record.name})")
        return
    say("installing the packages; the first time takes minutes")
    if not build:
        say_how_large_torch_is(environment)
    build = install_torch(environment, uv, build)
    if follows_lock:
        install_locked(environment, uv)
    else:
        install_resolved(environment, uv, build)
        freeze = pip_command(environment, uv, "freeze")
        record.write_text(output_of(*freeze), encoding="utf-8")
    (environment / RECORD).write_text(build)
    stamp.write_text(fingerprint(record, build))


def install_locked(environment, uv):
    """As uv.lock says; constraints change it first."""
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


def install_resolved(environment, uv, build):
    """The versions of uv.lock where the repository has one, else the newest that fit."""
    command = [*pip_command(environment, uv, "install"), *quiet()]
    if LOCK.exists():
        own_torch = bool(build or WHEELS)
        say("the versions are those of uv.lock" + (", but for torch" if own_torch else ""))
        pins = environment / "lab-versions.txt"
        pins.write_text("\n".join(locked_versions(FAMILY if own_torch else ())) + "\n")
        command += ["--constraint", pins]
    run(*command, "--editable", ".[dev]", **index_variables())


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


def fingerprint(record, build):
    """Of all that decides what is installed; when it changes, the packages are installed again."""
    inputs = [str(ROOT), build, *constraint_lines()]
    files = [ROOT / "pyproject.toml", LOCK, record]
    inputs += [path.read_text("utf-8") for path in files if path.exists()]
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()
