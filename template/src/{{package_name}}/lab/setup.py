# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`make setup`: environment, packages, git repository, hooks. Safe to run again, and fast then.

Standard library only, and no newer syntax than old system Pythons read, since nothing is installed yet.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]
TORCH = os.environ.get(
    "TORCH", ""
)  # cpu, cu126, …: a build of torch; "": PyPI's own, on Linux the one for CUDA
WHEELS = (
    (os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS") or "")
    .replace(",", " ")
    .split()
)
CONSTRAINTS = os.environ.get("UV_CONSTRAINT") or os.environ.get("PIP_CONSTRAINT") or ""


def main():
    uv = shutil.which("uv")
    if sys.version_info < (3, 11):  # noqa: UP036 - the system's Python may well be older
        if uv:
            os.execv(uv, [uv, "run", "--no-project", "--python", ">=3.11", __file__])
        version = "{}.{}".format(*sys.version_info)
        stop(
            f"Python {version} is too old; 3.11 is needed. Install uv, or: make setup PYTHON=python3.11"
        )
    environment = environment_path()
    make_environment(environment, uv)
    install(environment, uv)
    make_repository(environment)
    print("\nReady. To call `lab` in this shell:\n  . .venv/bin/activate")
    if (ROOT / "uv.lock").exists():
        print("or, without activating: uv run lab …")
    print("Then: lab --help")


def environment_path():
    """`paths.environment` of conf/config.yaml, else of the site's profile, else .venv."""
    config = (PACKAGE / "conf" / "config.yaml").read_text(encoding="utf-8")
    site = re.search(r"^[ \t]*-[ \t]*(?:override[ \t]+)?/?site:[ \t]*([\w-]+)", config, re.MULTILINE)
    config_home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    folders = [PACKAGE / "conf" / "site", config_home / "lab" / "site"]
    extra = os.environ.get("LAB_SITE_PATH", "").split(os.pathsep)
    folders += [
        *(Path(part).expanduser() for part in extra if part),
        PACKAGE / "lab" / "conf" / "site",
    ]
    profiles = [folder / f"{site[1]}.yaml" for folder in folders] if site else []
    profile = next((path.read_text(encoding="utf-8") for path in profiles if path.is_file()), "")
    for text in (config, profile):
        entry = re.search(r"^[ \t]+environment:[ \t]*['\"]?([^\s'\"#]+)", text, re.MULTILINE)
        if entry and entry[1] not in ("null", "~"):
            path = os.path.expandvars(entry[1].replace("${package}", PACKAGE.name))
            if "$" not in path:
                return ROOT / Path(path).expanduser()
            print(
                f"setup: paths.environment is {entry[1]}, but that is not set here; .venv is used instead"
            )
    return ROOT / ".venv"


def make_environment(environment, uv):
    """An environment at `environment`, and `.venv` as a link to it when it lies elsewhere."""
    link = ROOT / ".venv"
    if link.is_symlink() and Path(os.readlink(str(link))) != environment:
        link.unlink()
    if environment != link and link.exists() and not link.is_symlink():
        stop(
            f"paths.environment is {environment}, but .venv is an environment too. First: rm -r .venv"
        )
    if not (environment / "bin" / "python").exists():
        foreign = environment.is_dir() and not (environment / "pyvenv.cfg").exists()
        if foreign and os.listdir(str(environment)):
            stop(
                f"{environment} is no environment, and not empty. Empty it, or change paths.environment"
            )
        print(f"setup: making the environment {environment}")
        environment.parent.mkdir(parents=True, exist_ok=True)
        new = (
            (uv, "venv", "--quiet", "--python", sys.executable)
            if uv
            else (sys.executable, "-m", "venv")
        )
        if subprocess.call([*new, "--clear", str(environment)], cwd=str(ROOT)):
            shutil.rmtree(str(environment), ignore_errors=True)
            stop(
                "the environment could not be made. On Debian: apt install python3-venv. Or install uv"
            )
    if environment != link and not link.exists():
        link.symlink_to(environment, target_is_directory=True)


def install(environment, uv):
    """The packages: as uv.lock says when uv takes them from the index, else resolved now and written down."""
    python = environment / "bin" / "python"
    locked = bool(uv) and not TORCH and not WHEELS
    record = ROOT / ("uv.lock" if locked else "env-freeze.txt")
    stamp = environment / "lab-setup.txt"
    if record.exists() and stamp.exists() and stamp.read_text() == wanted(record):
        print(f"setup: the environment is up to date ({record.name})")
        return
    print("setup: installing the packages; the first time takes minutes")
    quiet = () if sys.stdout.isatty() else ("--quiet",)
    if locked:
        pins = [line.split(";")[0].strip() for line in constraint_lines() if "==" in line]
        place = {"UV_PROJECT_ENVIRONMENT": str(environment), "UV_PYTHON": str(python)}
        run(
            uv,
            "lock",
            "--quiet",
            *[part for pin in pins for part in ("--upgrade-package", pin)],
            **place,
        )
        run(uv, "sync", *quiet, "--inexact", "--extra", "dev", **place)
    else:
        if TORCH and not uv:  # only uv knows where each build of torch lies
            run(python, "-m", "pip", "install", "--quiet", "uv")
            uv = environment / "bin" / "uv"
        installer = (
            (uv, "pip", "install", "--python", python) if uv else (python, "-m", "pip", "install")
        )
        backend = ("--torch-backend", TORCH) if TORCH else ()
        run(*installer, *quiet, *backend, "--editable", ".[dev]", UV_FIND_LINKS=" ".join(WHEELS))
        freeze = (
            (uv, "pip", "freeze", "--python", python) if uv else (python, "-m", "pip", "freeze")
        )
        record.write_bytes(subprocess.check_output([str(word) for word in freeze], cwd=str(ROOT)))
    stamp.write_text(wanted(record))


def constraint_lines():
    return [line for path in CONSTRAINTS.split() for line in Path(path).read_text().splitlines()]


def wanted(record):
    """What the environment was made from; when this changes, it is installed again."""
    inputs = [str(ROOT), TORCH, *constraint_lines()]
    inputs += [
        path.read_text("utf-8") for path in (ROOT / "pyproject.toml", record) if path.exists()
    ]
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()


def make_repository(environment):
    """`git init`, a first commit, the hooks; nothing of it inside a larger repository."""
    if not shutil.which("git"):
        stop("git is not installed, and every record needs it. Install it, then again: make setup")
    if not (ROOT / ".git").exists():
        if succeeds("git", "ls-files", "--error-unmatch", "pyproject.toml"):
            print("setup: the project is part of a larger git repository; its hooks are left alone")
            return
        run("git", "init", "--quiet")
        run("git", "symbolic-ref", "HEAD", "refs/heads/main")
    if not succeeds("git", "rev-parse", "--quiet", "--verify", "HEAD"):
        identity = ()
        if not (
            succeeds("git", "var", "GIT_AUTHOR_IDENT")
            and succeeds("git", "var", "GIT_COMMITTER_IDENT")
        ):
            identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
            print(
                "setup: git does not know who you are, so the first commit is by `nobody`. For yours:\n"
                '  git config --global user.name "Your Name"; git config --global user.email you@example.org'
            )
        run("git", "add", "--all")
        run("git", *identity, "commit", "--quiet", "--message", "Start from the template")
    run(environment / "bin" / "pre-commit", "install", fatal=False)


def run(*command, fatal=True, **variables):
    """Runs a command in the project, with its own words on the screen; a failing one stops the setup."""
    words = [str(word) for word in command]
    env = dict(os.environ, **{name: value for name, value in variables.items() if value})
    if subprocess.call(words, cwd=str(ROOT), env=env) and fatal:
        said = " ".join(map(shlex.quote, words))
        stop(
            f"this failed, its own words are above:\n  {said}\nMend it, and type again: make setup"
        )


def succeeds(*command):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.call(command, cwd=str(ROOT), **quiet) == 0


def stop(message):
    sys.exit(f"setup: {message}")


if __name__ == "__main__":
    main()
