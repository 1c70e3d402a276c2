# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Makes the environment and installs labrig in it, which does the rest, as `lab setup`.
LABRIG=../template installs that copy, to edit it; LABRIG=pinned what pyproject.toml says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALLED = "lab-library.txt"  # in the environment: what was installed as labrig
PROJECTS = "lab-projects.txt"  # in the environment: who uses it
VENDORED = ROOT / "vendor" / "labrig.txt"  # of `lab vendor`: the pin, its wheel, perhaps "all"
UV = shutil.which("uv")
TYPED = os.environ.get("LABRIG")


def main(words):
    if sys.version_info < (3, 11):  # noqa: UP036 - the system's Python may well be older
        if not UV:
            sys.exit("setup: Python 3.11 is needed. Install uv, or: make setup PYTHON=python3.11")
        os.execv(UV, [UV, "run", "--no-project", "--python", ">=3.11", __file__, *words])
    os.chdir(str(ROOT))
    os.environ["LAB_PYTHON"] = sys._base_executable  # below every environment
    os.environ.pop("PYTHONPATH", None)  # not of the environment
    environment = Path(os.environ.get("LAB_ENVIRONMENT") or ROOT / ".venv")
    python = str(environment / "bin" / "python")
    installed = text_of(environment / INSTALLED)
    library = chosen_library(installed)
    if not os.path.exists(python):
        make_environment(environment)
    broken = subprocess.call([python, "-c", "import labrig"], stderr=subprocess.DEVNULL)
    if TYPED or broken or library != installed:
        require_own(environment, installed, library)
        print(f"setup: installing {library}", flush=True)
        source = ["-e", library] if os.path.isdir(library) else [library]
        pip = [python, "-m", "pip", "install", "--quiet", *source]
        again = [[*pip, "--force-reinstall", "--no-deps"]] if installed else []
        if any(subprocess.call(command) for command in [pip, *again]):
            sys.exit(f"setup: pip install {library} failed, see above. Then again: make setup")
        (environment / INSTALLED).write_text(library, "utf-8")
    os.execv(python, [python, "-m", "labrig", *words])


def make_environment(environment):
    print(f"setup: making the environment {environment}", flush=True)
    if environment.is_symlink():
        environment.unlink()  # it leads to a place that is gone
    if environment.exists() and not (environment / "pyvenv.cfg").exists():
        sys.exit(f"setup: {environment} exists and is no environment. Move it, or name another")
    options = ["--clear", str(environment)]
    options += ["--system-site-packages"] if os.environ.get("LAB_SYSTEM_PACKAGES") else []
    commands = [[sys.executable, "-m", "venv"]]
    if UV and "UV_OFFLINE" not in os.environ:  # a tenth of the time, but it fetches pip
        commands.insert(0, [UV, "venv", "-q", "--no-cache", "--seed", "--python", sys.executable])
    if all(subprocess.call([*command, *options]) for command in commands):
        shutil.rmtree(str(environment), ignore_errors=True)
        sys.exit("setup: see above. On Debian: apt install python3-venv. Or install uv")
    (environment / PROJECTS).write_text("")  # made here, and nobody's yet


def chosen_library(installed):
    """What pip installs as labrig: what is typed, what was typed before, or what is pinned."""
    place = TYPED or (installed if os.path.isabs(installed) else "pinned")
    if place != "pinned":
        if not (place.endswith(".whl") or os.path.isdir(os.path.join(place, "src", "labrig"))):
            sys.exit(f"setup: no labrig lies in {place}. What is pinned: make setup LABRIG=pinned")
        return os.path.abspath(place)
    # The line of pyproject.toml without its extras, or the wheel that `lab vendor` kept for it.
    pin = re.search(r'"labrig(?:\[[^]]*\])? *([@=<>~!][^"]*)"', text_of(ROOT / "pyproject.toml"))
    if not pin:
        sys.exit("setup: pyproject.toml names no labrig. What it named: git log -p pyproject.toml")
    vendored = text_of(VENDORED).splitlines()
    if vendored[:1] != [f"labrig {pin[1]}"]:
        return f"labrig {pin[1]}"
    if vendored[2:] == ["all"] and len(list(VENDORED.parent.glob("*.whl"))) > 1:
        os.environ.update(PIP_NO_INDEX="1", UV_OFFLINE="1", PIP_FIND_LINKS=str(VENDORED.parent))
    return f"vendor/{vendored[1]}"


def require_own(environment, installed, library):
    """Stops before the library of other projects is exchanged, unless that is asked for."""
    projects = text_of(environment / PROJECTS).splitlines()
    others = [line for line in projects if line != str(ROOT) and os.path.exists(line)]
    if installed != library and others and not TYPED:
        sys.exit(
            f"setup: {environment.resolve()} is also that of {others[0]}, and has {installed}.\n"
            f"To give {library} to all: make setup LABRIG=pinned"
        )


def text_of(path):
    return path.read_text("utf-8") if path.exists() else ""


if __name__ == "__main__":
    main(sys.argv[1:])
