"""Fixtures of all tests. Only tests/template and tests/update render the template."""

import importlib
import os
import shutil
import sys

import pytest
from labrig.project import Project
from messages import take_faults, watch_messages
from projects import PROJECT, call, copy_project, equip, work_on
from record_of_imports import with_extra  # noqa: F401 (fixture)
from setup_projects import bare, fresh, light  # noqa: F401 (fixtures)
from tracebacks import take_seen, watch_commands

SLOWEST_FILES = (
    # of make test-slow
    "project",
    "exact",
    "script",
    "means",
    "record_reproduce",
    "record_crash",
    "records",
    "pin",
    "checkpoints_in_parts",
    "library",
    "mistakes",
    "multirun",
    "steps",
    "setup_library",
    "remote_lost",
    "loggers",
    # of make test, and of both
    "training_ends",
    "training",
    "hdf5_processes",
    "hdf5_resume",
    "update",
    "signals",
    "training_resume",
    "profile",
    "bench",
    "failures",
    "setup",
)

sys.path.insert(0, str(PROJECT / "src"))  # `import myproj`
work_on(Project(PROJECT, "myproj"))  # in fixtures of modules, too
watch_commands()
watch_messages()


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
def project():
    """The project of the default answers. Shared: read it, do not change it."""
    return PROJECT


@pytest.fixture(scope="session")
def module():
    """module("cluster.sites.site"): a module of the library, which a test changes or looks into."""
    return lambda name: importlib.import_module(f"labrig.{name}")


@pytest.fixture
def own_project(tmp_path):
    """A copy of the default project to work in: in git, with an environment."""
    return equip(copy_project(tmp_path / "myproj"))


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A project with packed data and a finished run of two epochs. Shared: add trials and runs, take nothing away."""
    folder = equip(copy_project(tmp_path_factory.mktemp("home") / "myproj"))
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


@pytest.fixture(scope="session", autouse=True)
def one_bundle_of_the_library(tmp_path_factory):
    """Commands in this process write the bundle of the library once, for half a second of CPU, and copy it into
    each further project."""
    from labrig.record.freeze import library

    write, folder = library.write_library_bundle, tmp_path_factory.mktemp("library")

    def copy(now, path):
        made = folder / now.commit
        if not made.exists():
            write(now, made)
        temporary = path.with_suffix(f".{os.getpid()}")
        shutil.copyfile(made, temporary)
        temporary.rename(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "write_library_bundle", copy)
        yield


@pytest.fixture(scope="module", autouse=True)
def own_path():
    """A project that this process enters stands first in sys.path, also of processes that it starts: that ends
    with the file."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture(autouse=True)
def own_caches(monkeypatch):
    """A command that runs in this process leads all caches to its project: that ends with the test."""
    from labrig.machine import caches

    for name in (caches.ROOT, *caches.CACHES):
        value = os.environ.get(name)
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def in_default_project():
    """Code that runs in the process of a test works on the default project, unless the test enters another."""
    work_on(Project(PROJECT, "myproj"))
    yield
    work_on(Project(PROJECT, "myproj"))  # a fixture of the next module comes before the line above


@pytest.fixture(autouse=True)
def no_traceback(request):
    """Fails a test with a command that prints a traceback; see tracebacks.py."""
    yield
    seen = take_seen()
    if seen and not request.node.get_closest_marker("traceback"):
        pytest.fail(f"a command printed a traceback:\n{seen[0]}")


@pytest.fixture(autouse=True)
def messages_say_what_to_type():
    """Fails a test that provokes a message without an instruction; see messages.py."""
    yield
    faults = take_faults()
    if faults:
        pytest.fail(f"a message of lab must say what was found and what to type; {faults[0]}")


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
