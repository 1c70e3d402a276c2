"""An error in the project's own code: its line, the error, and what to do about it."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
from dataclasses import dataclass

from . import env
from .errors import LabError
from .project import LIBRARY, Project, this_project

MAX_LINES = 3  # of the text of an error
# of torch on a CPU, of torch on a GPU, of the system
NO_MEMORY = re.compile("can't allocate memory|out of memory|Cannot allocate memory")
# torch raises the error of a DataLoader's worker again, with the worker's traceback as its text
OF_WORKER = "Original Traceback (most recent call last):"
# `pip install -U 'psutil'`, pip install rich
PIP_INSTALL = re.compile(r"pip install (?:-\S+ )*[\"']?([A-Za-z0-9][\w.-]*\w)")
FRAME = re.compile(r'^ *File "(.+)", line (\d+), in .*\n +(.+)$', re.MULTILINE)


@dataclass(frozen=True)
class CodePlace:
    """A line of code."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{shown_path(self.file)}:{self.line}: {self.code}"


def shown_path(path: str | os.PathLike[str]) -> str:
    """What lies below this directory by its relative path; in full elsewhere, as in a job."""
    relative = os.path.relpath(path)
    return os.fspath(path) if relative.startswith("..") else relative


def debugging() -> bool:
    """Whether the user wants errors with their traceback, as Python and its debugger show them."""
    return os.environ.get(env.DEBUG, "0") not in ("", "0")


def is_interruption(error: BaseException) -> bool:
    """Whether the user ended the command: Ctrl-C, or `q` in the debugger."""
    # Lightning turns Ctrl-C into SystemExit.
    return isinstance(error, KeyboardInterrupt | SystemExit) or type(error).__name__ == "BdbQuit"


def describe(error: BaseException) -> str:
    """Where an error happened, and the error: a line each. A third says what to do, if that is known."""
    lines = [place_of(error) or last_place(error), message_of(error), advice_for(error)]
    return "\n".join(str(line) for line in lines if line)


def place_of(error: BaseException) -> CodePlace | None:
    """The last line of the project's own code that led to `error`; None when there is none."""
    if isinstance(error, SyntaxError) and error.filename and is_own(error.filename):
        return CodePlace(error.filename, error.lineno or 0, (error.text or "").strip())
    own_places = [place for place in places_of(error) if is_own(place.file)]
    return own_places[-1] if own_places else None


def last_place(error: BaseException) -> CodePlace | None:
    """The line of any code that raised `error`."""
    places = places_of(error)
    return places[-1] if places else None


def places_of(error: BaseException) -> list[CodePlace]:
    """The lines that led to `error`, the last one last; those in a DataLoader's worker too."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [CodePlace(frame.filename, frame.lineno or 0, frame.line or "") for frame in frames]
    in_worker = FRAME.findall(worker_text(error))
    return places + [CodePlace(file, int(line), code) for file, line, code in in_worker]


def is_own(file: str | None) -> bool:
    """Whether a file is code of the project, and of no installed package."""
    if not file or file.startswith("<"):  # <frozen importlib._bootstrap>, <string>
        return False
    path = os.path.realpath(file)
    project = project_here()
    if project is None or path.startswith(f"{LIBRARY}/") or "/site-packages/" in path:
        return False
    # A compiled package may name a source file that lies nowhere, such as numpy/random/mtrand.pyx.
    return path.startswith(f"{project.frozen or project.root}/") and os.path.exists(path)


def project_here() -> Project | None:
    """The project of this process; None outside of any."""
    try:
        return this_project()
    except LabError:
        return None


def worker_text(error: BaseException) -> str:
    """The traceback of a DataLoader's worker, or ""."""
    return str(error).partition(OF_WORKER)[2]


def message_of(error: BaseException) -> str:
    """The type and the text of an error, of at most MAX_LINES lines."""
    lines = worker_text(error).strip().splitlines()
    if lines:
        return lines[-1]
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = ["..."]
    name = type(error).__name__
    return f"{name}: " + "\n".join(lines) if lines else name


def advice_for(error: BaseException) -> str | None:
    """What to do about an error that many users meet; None for any other."""
    text = str(error)
    if isinstance(error, ModuleNotFoundError):
        return advice_for_module(error.name or package_in(text))
    if "num_samples=0" in text:
        return (
            "The data set is empty. A relative path in the code is looked up in\n"
            f"{os.getcwd()}\nand a job runs elsewhere: write the full path."
        )
    if re.search(r"Target -?\d+ is out of bounds", text):
        return (
            "A class number in the data is negative, or too large for the model.\n"
            "To see the data: lab data info NAME. The model's classes: model.n_classes"
        )
    if "Expected more than 1 value per channel when training" in text:
        return (
            "A batch has one sample, too few for batch normalisation: often the last of an\n"
            "epoch. Leave it out with data.drop_last=true, or change data.batch_size."
        )
    if isinstance(error, MemoryError) or NO_MEMORY.search(text):
        return (
            "The memory is full. Take a smaller data.batch_size, and set batch.global to its\n"
            "old value: the result stays nearly the same. More ways: lab docs memory"
        )
    if "uninitialized parameter" in text:
        return (
            "A layer takes its size from the first batch (torch.nn.Lazy...), and this needs it before.\n"
            "Write its size, or show the network one sample at the end of the task's __init__."
        )
    if "device-side assert" in text:
        return "Often this is a class number that is too large. trainer=cpu names it."
    return None


def advice_for_module(name: str) -> str | None:
    """How to install the package of a module that is missing; None for a module of the project."""
    package = name.partition(".")[0]
    if not package:
        return "To add a package to the project: make add PACKAGE=NAME"
    project = project_here()
    is_own_package = project is not None and package == project.package
    if is_own_package or importlib.util.find_spec(package):
        return None
    return f"If it is a package, add it to the project: make add PACKAGE={package}"


def package_in(text: str) -> str:
    """The package that a library's own message names, as Lightning's do; "" where none is named."""
    named = PIP_INSTALL.search(text)
    return named[1] if named else ""


def explain_missing_package(error: ModuleNotFoundError) -> str | None:
    """What to do when lab itself misses a package; None for a module of the project.

    Most often it was started with a Python that is not the project's.
    """
    package = (error.name or "").partition(".")[0]
    project = project_here()
    if package in ("", LIBRARY.name) or (project is not None and package == project.package):
        return None
    return (
        f"this Python has no package {package!r}: {sys.executable}\n"
        "Use the project's environment: . .venv/bin/activate. make setup makes it."
    )
