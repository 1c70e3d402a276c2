"""Which errors the tests reach, in every process: REACHED_ERRORS=FILE names where each error adds its line.

`hooks/error_catalogue.py` lets each Python of a test run import this file when it starts, and joins the lines with the
sites in the code. The library carries no hook of the tests. Without the variable nothing happens.
"""

import contextlib
import json
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

VARIABLE = "REACHED_ERRORS"
FOLDER = Path(__file__).parent
ERRORS = "labrig.errors"
BOOTSTRAP = "tools/bootstrap.py"  # of a project; it ends with messages, too
MAX_FRAMES = 8
MAX_LETTERS = 400


def add_line(kind, message, frame):
    """Adds the test, the class, the lines of labrig that led to the error, and its text."""
    frames = []
    while frame and len(frames) < MAX_FRAMES:
        file = file_of(frame.f_code.co_filename)
        if file:
            frames.append([file, name_of(frame.f_code), frame.f_lineno])
        frame = frame.f_back
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    row = [test, kind, frames, message[:MAX_LETTERS]]
    with contextlib.suppress(OSError), open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def file_of(path):
    """A file of the library, wherever that copy of it lies, relative to it; "" for any other."""
    if path.endswith(f"/{BOOTSTRAP}"):
        return BOOTSTRAP
    _, labrig, file = path.rpartition("/labrig/")
    return file if labrig else ""


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)  # bootstrap.py may run in an old Python


class ErrorsFinder:
    """Finds labrig.errors as Python does, and lets its errors add their lines."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != ERRORS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (execute(module), watch_errors(module))
        return spec


def watch_errors(module):
    def __init__(self, *arguments):
        Exception.__init__(self, *arguments)
        add_line(type(self).__name__, str(self), sys._getframe(1))

    module.LabError.__init__ = __init__


def watch_ends():
    """`setup: …` of lab setup and of bootstrap.py is no error but the end of the program."""
    end = sys.exit

    def exit_and_add_line(status=None):
        if isinstance(status, str):
            add_line("SystemExit", status, sys._getframe(1))
        end(status)

    sys.exit = exit_and_add_line


def follow_bootstrap():
    """bootstrap.py drops PYTHONPATH, by which the program that it becomes would load this file."""
    become = os.execv

    def become_and_watch(path, words):
        os.environ["PYTHONPATH"] = str(FOLDER)
        become(path, words)

    os.execv = become_and_watch


if VARIABLE in os.environ:
    sys.meta_path.insert(0, ErrorsFinder)
    watch_ends()
    if sys.argv[:1] == [BOOTSTRAP]:
        follow_bootstrap()

# A record names the files that a run imports: this one is none of them.
sys.modules[__name__] = ModuleType(__name__)
