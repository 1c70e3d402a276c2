"""Renders are shared between tests; projects run in the environment of the tests, without being installed.

The project of the default answers is rendered when this file is imported, once in a process: `import myproj` is its
package, in tests and, with PYTHONPATH=SOURCE, in the programs they start.
"""

import atexit
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import copier
import pytest
import yaml
from commands import write_command
from reached_errors import add_collector
from repositories import commit
from tracebacks import take_seen, watch_commands
from warm import WarmProcess, same_libraries

ROOT = Path(__file__).parents[1]
QUESTIONS = {
    name: question
    for name, question in yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8")).items()
    if not name.startswith("_")
}


def render_template(template, folder, **answers):
    """A project as a user makes it: no trust, else defaults."""
    assert set(answers) <= set(QUESTIONS), "copier ignores answers to questions that do not exist"
    copier.run_copy(
        str(template),
        folder,
        data=answers,
        defaults=True,
        unsafe=False,
        quiet=True,
    )
    return Path(folder)


def copy_template(folder, answers_only=False):
    """The template as it lies here, uncommitted edits too, outside git."""
    folder.mkdir()
    shutil.copy(ROOT / "copier.yml", folder)
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    shutil.copytree(ROOT / "template", folder / "template", ignore=ignored)
    add_collector(folder)
    if answers_only:
        for path in (folder / "template").rglob("*"):
            if path.is_file() and path.suffix != ".jinja":
                path.unlink()
    return folder


SLOWEST_FILES = (
    # of make test-slow
    "gpu_rehearsal",
    "examples",
    "first_day",
    "loggers",
    "remote_lost",
    "fleet",
    "report_browser",
    "setup_places",
    # of make test, and of both
    "training_ends",
    "training",
    "project",
    "hdf5_processes",
    "hdf5_resume",
    "record_reproduce",
    "update",
    "signals",
    "training_resume",
    "exact",
    "profile",
    "bench",
    "failures",
    "setup",
)
IMPORT_TORCH = ("train", "resume", "eval", "predict", "check", "bench", "data")  # commands that do

RENDERED_FIRST = "TESTS_RENDERED"  # where the process that was started first has them
RENDERED = Path(tempfile.mkdtemp(prefix="myproj-"))
atexit.register(shutil.rmtree, RENDERED, ignore_errors=True)
TEMPLATE = RENDERED / "template"
PROJECT = RENDERED / "myproj"
if "PYTEST_XDIST_WORKER" in os.environ and RENDERED_FIRST in os.environ:
    first = os.environ[RENDERED_FIRST]
    shutil.copytree(first, RENDERED, symlinks=True, dirs_exist_ok=True)
    answers = PROJECT / ".copier-answers.yml"
    answers.write_text(answers.read_text().replace(first, str(RENDERED)))  # where its template lies
else:
    copy_template(TEMPLATE)
    render_template(TEMPLATE, PROJECT)
    os.environ[RENDERED_FIRST] = str(RENDERED)  # for the processes that it starts with -n
SOURCE = PROJECT / "src"
sys.path.insert(0, str(SOURCE))
watch_commands()


def pytest_addoption(parser):
    parser.addoption(
        "--regenerate",
        action="store_true",
        help="write the golden lists again; read the diff afterwards",
    )


def pytest_collection_modifyitems(items):
    """Puts the slowest files first: two processes then end at nearly the same time."""
    places = {f"test_{name}.py": place for place, name in enumerate(SLOWEST_FILES)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture(scope="session")
def template():
    return TEMPLATE


@pytest.fixture(scope="session")
def render(template):
    """render(folder, **answers): a project as a user makes it: no trust, else defaults."""
    return lambda folder, **answers: render_template(template, folder, **answers)


@pytest.fixture(scope="session")
def render_answers(tmp_path_factory):
    """render_answers(folder, **answers): only the files that answers are written into, in a seventh of the time."""
    small = copy_template(tmp_path_factory.mktemp("answers") / "template", answers_only=True)
    return lambda folder, **answers: render_template(small, folder, **answers)


@pytest.fixture(scope="session")
def project():
    """The project of the default answers. Shared: read it, do not change it."""
    return PROJECT


@pytest.fixture(scope="session")
def module():
    """module("cluster.site"): a module of the default project's lab, in this process."""
    return lambda name: importlib.import_module(f"myproj.lab.{name}")


@pytest.fixture
def own_project(project, tmp_path):
    """A copy of the default project to work in: in git, with an environment and the command `lab`."""
    return equip(shutil.copytree(project, tmp_path / "myproj"))


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A project with packed data and a finished run of two epochs. Shared: add trials and runs, take nothing away."""
    folder = equip(shutil.copytree(PROJECT, tmp_path_factory.mktemp("home") / "myproj"))
    call(folder, "lab", "data", "pack", "digits")
    call(
        folder,
        "lab",
        "train",
        "trial=baseline",
        "trainer=cpu",
        "trainer.max_epochs=2",
        "trainer.threads=1",
    )
    return folder


@pytest.fixture(scope="session")
def slurm_ends():
    """Slurm stays up between the modules that use it, and ends with the tests."""
    from slurm_jobs import stop_slurm

    yield
    stop_slurm()


@pytest.fixture(autouse=True)
def own_caches(monkeypatch):
    """A command that runs in this process leads all caches to its project: that ends with the test."""
    from myproj.lab.machine import caches

    for name in (caches.ROOT, *caches.CACHES):
        value = os.environ.get(name)
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def no_traceback(request):
    """Fails a test with a command that prints a traceback; see tracebacks.py."""
    yield
    seen = take_seen()
    if seen and not request.node.get_closest_marker("traceback"):
        pytest.fail(f"a command printed a traceback:\n{seen[0]}")


@pytest.fixture
def no_git_settings(monkeypatch):
    """git as on a machine where nobody has configured it."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def repo(tmp_path):
    """A repository of one commit, for the tests of the snapshot."""
    from record_package import repository

    return repository(tmp_path / "repo")


def equip(folder):
    """What `make setup` would do, in a second: git, a commit, and .venv as a link to this environment."""
    package = package_of(folder)
    script = (
        "#!/bin/sh\n"
        f'PYTHONPATH="{folder}/src:$PYTHONPATH" exec "{sys.executable}" -m {package}.lab "$@"\n'
    )
    write_command(folder.parent / f"{folder.name}-bin", "lab", script)
    (folder / ".venv").symlink_to(sys.prefix)
    commit(folder, "Start")
    return folder


def call(folder, *command, rc=0, timeout_s=300, cold=False, **variables):
    """Runs a command in a project and returns its output; any other exit code than `rc` fails the test.

    A `lab` command that imports torch is a fork of the warm process. With `cold` it starts as for a user.
    """
    environment = environment_of(folder, **variables)
    command = [str(word) for word in command]
    heavy = command[0] == "lab" and (
        " ".join(command[1:2]) in IMPORT_TORCH or command[1:3] == ["trials", "new"]
    )
    if heavy and not cold and same_libraries(environment):
        module = f"{package_of(folder)}.lab"
        done = warm_process().start(module, command[1:], folder, environment)
        out, err = done.communicate(timeout=timeout_s)
    else:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        out, err = done.stdout, done.stderr
    assert done.returncode == rc, f"{command} gave {done.returncode}:\n{out}\n{err}"
    return out + err


def environment_of(folder, **variables):
    """The variables of a command in a project: these, those of its environment, and the others as they are."""
    tools = folder.parent / f"{folder.name}-bin"
    path = os.pathsep.join([str(tools), str(Path(sys.prefix) / "bin"), os.environ["PATH"]])
    own = {
        "PATH": path,
        "PYTHONPATH": str(folder / "src"),
        "PRE_COMMIT_HOME": str(folder.parent / "pre-commit"),
    }
    return os.environ | own | variables


def package_of(folder):
    return next(folder.glob("src/*/lab")).parent.name


@cache
def warm_process():
    """One for each process that runs tests."""
    process = WarmProcess()
    atexit.register(process.close)
    return process
