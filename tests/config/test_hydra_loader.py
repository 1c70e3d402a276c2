"""Hydra's loader for a project: what it searches, what it sees of ConfigStore, and that it leaves no trace."""

import copy
import os
import sys
from dataclasses import dataclass

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobRuntime
from hydra.version import VersionBase
from hydra_tree import make_tree
from labrig.config import hydra_loader
from labrig.config.compose import compose
from labrig.config.hydra_loader import project_loader
from labrig.errors import LabError
from labrig.project import Project
from omegaconf import OmegaConf
from projects import LIBRARY, copy_project
from repositories import write

PACKAGE = "loader_test"
REGISTER = """
from dataclasses import dataclass
from hydra.core.config_store import ConfigStore

@dataclass
class Augment:
    p: float = 0.1

ConfigStore.instance().store(group="augment", name="typed", node=Augment)
ConfigStore.instance().store(group="augment", name="plain", node={"p": 0.3})
"""


@dataclass
class OfNotebook:
    p: float = 0.9


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose package no other test has imported."""
    folder = copy_project(tmp_path / "p")
    (folder / "src/myproj").rename(folder / "src" / PACKAGE)
    monkeypatch.syspath_prepend(folder / "src")
    monkeypatch.setattr(hydra_loader, "_registered", {})
    yield Project(folder, PACKAGE)
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture
def notebook(monkeypatch):
    """Hydra's state as a notebook left it: a stored config, a version and the name of a job."""
    store = ConfigStore.instance()
    monkeypatch.setattr(store, "repo", copy.copy(store.repo))
    store.store(group="augment", name="notebook", node=OfNotebook)
    store.store(group="augment", name="dict", node={"p": 0.8})
    monkeypatch.setattr(VersionBase.instance(), "version_base", "1.1")
    job = OmegaConf.create({"name": "notebook"})
    monkeypatch.setattr(JobRuntime.instance(), "conf", job)
    return state()


def state():
    """The objects of Hydra that hold for the whole process."""
    store, version, job = ConfigStore.instance(), VersionBase.instance(), JobRuntime.instance()
    return store.repo, copy.copy(store.repo), version.version_base, job.conf


def same(before, now):
    is_job = before[3] is now[3] and now[3].name == "notebook"
    return before[0] is now[0] and before[1:3] == now[1:3] and is_job


def test_inside_hydra_is_the_projects(project, notebook):
    with project_loader(project):
        assert JobRuntime.instance().get("name") == PACKAGE
        assert str(VersionBase.instance().version_base) == "1.3"
        assert ConfigStore.instance().repo is not notebook[0]
        assert OmegaConf.has_resolver("hydra")
    assert same(notebook, state())


def test_an_error_leaves_hydra_as_it_was(project, notebook):
    with pytest.raises(ValueError, match="broken"), project_loader(project):
        raise ValueError("broken")
    assert same(notebook, state())


def test_a_register_that_fails_leaves_hydra_as_it_was_and_is_tried_again(project, notebook):
    write(project.source, {"conf/register.py": f"{REGISTER}\nraise ValueError('broken')\n"})
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), project_loader(project):
            pass
        assert same(notebook, state())


def test_only_hydras_own_nodes_and_the_projects_are_seen(project, notebook):
    write(project.source, {"conf/register.py": REGISTER})
    with project_loader(project) as loader:
        options = loader.repository.get_group_options("augment")
        assert options == ["plain", "typed"]
        assert "default" in loader.repository.get_group_options("hydra/help")
    assert same(notebook, state())


def test_what_the_projects_own_classes_stored_before_is_seen(project, notebook):
    """As a module of the package that a notebook has imported."""
    own = type("Own", (), {"__annotations__": {"p": float}, "p": 0.7, "__module__": PACKAGE})
    ConfigStore.instance().store(group="augment", name="own", node=dataclass(own))
    with project_loader(project) as loader:
        assert loader.repository.get_group_options("augment") == ["own"]


def test_a_module_is_imported_once_and_its_nodes_stay(project):
    file = project.source / "conf/register.py"
    write(project.source, {"conf/register.py": REGISTER})
    for _ in range(2):
        with project_loader(project) as loader:
            result = loader.repository.load_config("augment/typed")
            assert result.config.p == 0.1
            assert result.provider == str(file)
    assert set(hydra_loader._registered[PACKAGE]) == {"augment"}
    with project_loader(Project(project.root, "other")) as loader:
        assert not loader.repository.get_group_options("augment"), "it belongs to one project"


def test_a_file_is_read_once_for_both_passes(tmp_path, monkeypatch):
    reads = []
    load = OmegaConf.load

    def note(file):
        reads.append(str(getattr(file, "name", file)))
        return load(file)

    monkeypatch.setattr(OmegaConf, "load", note)
    compose(make_tree(tmp_path, {}), ["trial=baseline"])
    assert any(path.endswith("labrig/conf/lab.yaml") for path in reads)
    assert len(reads) == len(set(reads))


def test_no_private_module_of_hydra_is_imported():
    """What Hydra promises is enough, but for one attribute in one file."""
    for path in LIBRARY.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "hydra._internal" not in text, path
        assert "loader.repository" not in text or path.name == "hydra_loader.py", path


def test_profiles_are_searched_in_the_project_then_shared_then_in_the_library(
    project, tmp_path, monkeypatch
):
    shared = tmp_path / "shared"
    monkeypatch.setenv("LAB_SITE_PATH", f"{shared}:{tmp_path}/gone")
    write(shared, {"slurm.yaml": "from: shared\n", "ours.yaml": "from: shared\n"})

    def profile(name):
        with project_loader(project) as loader:
            return loader.repository.load_config(f"site/{name}").config

    assert profile("ours")["from"] == "shared"
    assert profile("slurm")["from"] == "shared"
    assert profile("workstation").scheduler == "local", "the library's"
    write(project.source, {"conf/site/slurm.yaml": "from: project\n"})
    assert profile("slurm")["from"] == "project"


def test_the_links_to_shared_directories_go(project, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_SITE_PATH", str(tmp_path / "shared"))
    write(tmp_path / "shared", {"ours.yaml": "from: shared\n"})
    with project_loader(project) as loader:
        paths = [each.path.removeprefix("file://") for each in loader.config_search_path.get_path()]
        links = [path for path in paths if "/lab-sites-" in path]
        assert all(os.listdir(link) == ["site"] for link in links)
    assert links
    assert not any(os.path.exists(link) for link in links)
    assert (tmp_path / "shared/ours.yaml").exists()


@pytest.mark.parametrize(
    ("written", "read"), [("010", 8), ("-0_20", -16), ("1:30", 90), ("12:30:00", 45000)]
)
@pytest.mark.parametrize("file", ["conf/config.yaml", "trials/baseline/config.yaml"])
def test_a_number_of_base_8_or_60_is_refused(tmp_path, file, written, read):
    project = make_tree(tmp_path, {})
    path = project.source / file
    text = path.read_text()
    path.write_text(f"{text}\nmetrics: {{a: 'min'}}\nprogram: {{n: 007, time: 1:30, id: '010'}}\n")
    assert compose(project, ["trial=baseline"]).config.program == {"n": 7, "time": 90, "id": "010"}
    path.write_text(f"{text}\nprogram:\n  n: {written}\n")
    line = len(path.read_text().splitlines())
    expected = (
        f"{file}, line {line}: YAML reads {written} as {read}. Write that number; or for a text"
    )
    with pytest.raises(LabError, match=expected):
        compose(project, ["trial=baseline"])
