# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`make setup`: environment, packages, git repository, hooks. Safe to run again, and fast then.

Standard library only, and syntax that old system Pythons read: nothing is installed yet.
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
TORCH = os.environ.get("TORCH", "")  # a build of torch: cpu, cu126, …; "" for PyPI's own
CONSTRAINTS = os.environ.get("UV_CONSTRAINT") or os.environ.get("PIP_CONSTRAINT") or ""
FIND_LINKS = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS") or ""
WHEELS = FIND_LINKS.replace(",", " ").split()  # directories with wheels
STAMP = "lab-setup.txt"  # in the environment: from what it was installed


def main():
    uv = shutil.which("uv")
    require_python(uv)
    environment = environment_path()
    make_environment(environment, uv)
    install(environment, uv)
    make_repository(environment)
    print("\nReady. To call `lab` in this shell:\n  . .venv/bin/activate")
    if (ROOT / "uv.lock").exists():
        print("or, without activating: uv run lab …")
    print("Then: lab --help")


def require_python(uv):
    """Starts this file again with a newer Python that uv brings, or stops."""
    if sys.version_info >= (3, 11):  # noqa: UP036 - the system's Python may well be older
        return
    if uv:
        os.execv(uv, [uv, "run", "--no-project", "--python", ">=3.11", __file__])
    version = "{}.{}".format(*sys.version_info)
    stop(
        f"Python {version} is too old; 3.11 is needed. Install uv, or: make setup PYTHON=python3.11"
    )


# Where the environment lies


def environment_path():
    """`paths.environment` of conf/config.yaml, else of the site's profile, else .venv."""
    config = (PACKAGE / "conf" / "config.yaml").read_text(encoding="utf-8")
    for text in (config, site_profile(config)):
        # lab.project reads YAML with a package that is not installed yet
        entry = re.search(r"^[ \t]+environment:[ \t]*['\"]?([^\s'\"#]+)", text, re.MULTILINE)
        if entry and entry[1] not in ("null", "~"):
            path = os.path.expandvars(entry[1].replace("${package}", PACKAGE.name))
            if "$" not in path:
                return ROOT / Path(path).expanduser()
            print(
                f"setup: paths.environment is {entry[1]}, but that variable is not set here. "
                "Using .venv instead"
            )
    return ROOT / ".venv"


def site_profile(config):
    """The text of the site's profile that `config` names in its defaults, or ""."""
    entry = r"^[ \t]*-[ \t]*(?:override[ \t]+)?/?site:[ \t]*([\w-]+)"
    site = re.search(entry, config, re.MULTILINE)
    if not site:
        return ""
    config_home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    shared = os.environ.get("LAB_SITE_PATH", "").split(os.pathsep)
    folders = [PACKAGE / "conf" / "site", config_home / "lab" / "site"]
    folders += [Path(folder).expanduser() for folder in shared if folder]
    folders += [PACKAGE / "lab" / "conf" / "site"]
    for folder in folders:
        path = folder / f"{site[1]}.yaml"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return ""


def make_environment(environment, uv):
    """Makes an environment at `environment`, and `.venv` as a link to it when it lies elsewhere."""
    link = ROOT / ".venv"
    elsewhere = environment != link
    if link.is_symlink() and Path(os.readlink(str(link))) != environment:
        link.unlink()
    if elsewhere and link.exists() and not link.is_symlink():
        stop(
            f"paths.environment is {environment}, but .venv is a directory of its own. "
            f"Move it away: mv .venv ../{ROOT.name}-venv"
        )
    if not (environment / "bin" / "python").exists():
        require_new_or_environment(environment)
        create_environment(environment, uv)
    if elsewhere and not link.exists():
        link.symlink_to(environment, target_is_directory=True)


def require_new_or_environment(path):
    """Stops before a directory with something else in it is overwritten."""
    if not path.is_dir() or (path / "pyvenv.cfg").exists():
        return
    if os.listdir(str(path)):
        stop(
            f"{path} exists and is not a Python environment. "
            "Set paths.environment to a new directory"
        )


def create_environment(environment, uv):
    print(f"setup: making the environment {environment}")
    environment.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "venv"]
    if uv:
        command = [uv, "venv", "--quiet", "--python", sys.executable]
    failed = subprocess.call([*command, "--clear", str(environment)], cwd=str(ROOT))
    if failed:
        shutil.rmtree(str(environment), ignore_errors=True)
        stop(
            "the environment could not be made. On Debian: apt install python3-venv. Or install uv"
        )


# What is installed into it


def install(environment, uv):
    """Installs the packages, unless nothing has changed since the last time.

    With uv and its index they are those of uv.lock. Otherwise the versions are resolved now, and
    written to env-freeze.txt: a lock file of local wheels, or of one build of torch, fits no other
    machine.
    """
    follows_lock = bool(uv) and not TORCH and not WHEELS
    record = ROOT / ("uv.lock" if follows_lock else "env-freeze.txt")
    stamp = environment / STAMP
    if record.exists() and stamp.exists() and stamp.read_text() == fingerprint(record):
        print(f"setup: the environment is up to date ({record.name})")
        return
    print("setup: installing the packages; the first time takes minutes")
    if follows_lock:
        install_locked(environment, uv)
    else:
        install_resolved(environment, uv, record)
    stamp.write_text(fingerprint(record))


def install_locked(environment, uv):
    """As uv.lock says; constraints change it first."""
    variables = {
        "UV_PROJECT_ENVIRONMENT": str(environment),
        "UV_PYTHON": str(environment / "bin" / "python"),
    }
    upgrades = []
    for line in constraint_lines():
        if "==" in line:
            upgrades += ["--upgrade-package", line.split(";")[0].strip()]
    run(uv, "lock", "--quiet", *upgrades, **variables)
    run(uv, "sync", *quiet(), "--inexact", "--extra", "dev", **variables)


def install_resolved(environment, uv, record):
    """The newest versions that fit, which are then written to `record`."""
    python = environment / "bin" / "python"
    if TORCH and not uv:  # only uv knows where each build of torch lies
        run(python, "-m", "pip", "install", "--quiet", "uv")
        uv = environment / "bin" / "uv"
    pip_install = [python, "-m", "pip", "install"]
    pip_freeze = [python, "-m", "pip", "freeze"]
    if uv:
        pip_install = [uv, "pip", "install", "--python", python]
        pip_freeze = [uv, "pip", "freeze", "--python", python]
    if TORCH:
        pip_install += ["--torch-backend", TORCH]
    run(*pip_install, *quiet(), "--editable", ".[dev]", UV_FIND_LINKS=" ".join(WHEELS))
    packages = subprocess.check_output([str(word) for word in pip_freeze], cwd=str(ROOT))
    record.write_bytes(packages)


def quiet():
    """An installer shows its progress on a terminal only."""
    return [] if sys.stdout.isatty() else ["--quiet"]


def constraint_lines():
    return [line for path in CONSTRAINTS.split() for line in Path(path).read_text().splitlines()]


def fingerprint(record):
    """Of all that decides what is installed; when it changes, the packages are installed again."""
    inputs = [str(ROOT), TORCH, *constraint_lines()]
    files = [ROOT / "pyproject.toml", record]
    inputs += [path.read_text("utf-8") for path in files if path.exists()]
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()


# The repository


def make_repository(environment):
    """`git init`, a first commit, the hooks; nothing of it inside a larger repository."""
    if not shutil.which("git"):
        stop("git is not installed, and every record needs it. Install it, then again: make setup")
    if not (ROOT / ".git").exists():
        if succeeds("git", "ls-files", "--error-unmatch", "pyproject.toml"):
            print(
                "setup: the project is part of a larger git repository; its hooks stay as they are"
            )
            return
        run("git", "init", "--quiet")
        run("git", "symbolic-ref", "HEAD", "refs/heads/main")
    if not succeeds("git", "rev-parse", "--quiet", "--verify", "HEAD"):
        make_first_commit()
    run(environment / "bin" / "pre-commit", "install", fatal=False)


def make_first_commit():
    author = succeeds("git", "var", "GIT_AUTHOR_IDENT")
    committer = succeeds("git", "var", "GIT_COMMITTER_IDENT")
    identity = []
    if not (author and committer):
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        print(
            "setup: git does not know who you are, so the first commit is by `nobody`. For yours:\n"
            '  git config --global user.name "Your Name"\n'
            "  git config --global user.email you@example.org"
        )
    run("git", "add", "--all")
    run("git", *identity, "commit", "--quiet", "--message", "Start from the template")


def run(*command, fatal=True, **variables):
    """Runs a command in the project; one that fails stops the setup, unless it is not `fatal`."""
    words = [str(word) for word in command]
    environ = dict(os.environ)
    environ.update({name: value for name, value in variables.items() if value})
    failed = subprocess.call(words, cwd=str(ROOT), env=environ)
    if failed and fatal:
        stop(
            f"this command failed, its output is above:\n  {' '.join(map(shlex.quote, words))}\n"
            "Fix the cause, then again: make setup"
        )


def succeeds(*command):
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.call(command, cwd=str(ROOT), **silent) == 0


def stop(message):
    sys.exit(f"setup: {message}")


if __name__ == "__main__":
    main()
