"""Where labrig comes from: an editable copy, vendor/, a private repository; and an environment of several projects."""

import os
import shutil
import subprocess

import pytest
from labrig.errors import LabError
from labrig.project import Project
from labrig.setup.installer import pin_of
from projects import ROOT, copy_project
from repositories import IDENTITY, NO_SETTINGS_OF_THIS_MACHINE, commit, git
from setup_projects import UV, make_light, output_of, packages, pin, setup, wheel
from small_disks import mounted, needs_root
from ssh_hosts import hosts  # noqa: F401 (a fixture)
from test_setup_places import configure

NOWHERE = "git+https://git.example.org/lab/template.git@" + "c0ffee" * 6 + "c0ff"
NO_INDEX = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "UV_INDEX_URL": "http://127.0.0.1:9/"}
NO_WHEELS = {"PIP_FIND_LINKS": "", "UV_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
OF_LABRIG = (
    "hydra_core-",
    "labrig-",
    "msgspec-",
    "nvidia_ml_py-",
    "omegaconf-",
    "python_dotenv-",
    "pyyaml-",
)
WHERE = "import labrig; print(labrig.__file__)"


def where_labrig_is(folder):
    return output_of(folder, ".venv/bin/python", "-c", WHERE)


def lab_says(folder, *words, rc=0):
    """Everything that `lab WORDS` of the project's environment prints."""
    command = [folder / ".venv/bin/lab", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def private_variables(monkeypatch):
    for name, value in (IDENTITY | NO_SETTINGS_OF_THIS_MACHINE).items():
        monkeypatch.setenv(name, value)


@pytest.mark.slow
def test_the_light_library_is_enough_to_send_jobs_and_to_look(light):
    commit(light, "Start")
    (light / "data").mkdir(exist_ok=True)
    for site in ("workstation", "slurm"):
        words = ("trial=baseline", f"site={site}", "--dry-run", "--no-batch")
        assert "would be sent with" in lab_says(light, "submit", *words)
    assert "no NVIDIA GPU here" in lab_says(light, "top", rc=1)
    for words in (("runs", "list"), ("queue",), ("trials", "tree"), ("config", "trial=baseline")):
        assert "has no package" not in lab_says(light, *words)


@pytest.mark.release
def test_an_editable_library_stays_until_the_pin_is_asked_for(light, tmp_path):
    clone = tmp_path / "template"
    clone.mkdir()
    for name in ("pyproject.toml", "mkdocs.yml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    shutil.copytree(ROOT / "src", clone / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", clone / "docs")
    said = setup(light, UV, LABRIG="../template")
    assert f"installing {clone}" in said
    assert where_labrig_is(light) == f"{clone}/src/labrig/__init__.py"
    said = setup(light, UV)
    assert "up to date" in said
    assert "installing" not in said
    (clone / "src/labrig/version.py").write_text('__version__ = "0.9"\n')
    assert output_of(light, ".venv/bin/lab", "--version").startswith("labrig 0.9")
    assert f"labrig is the copy {clone}" in setup(light, UV)
    said = lab_says(light, "vendor", rc=2)
    assert f"{clone} is installed, and pyproject.toml pins labrig @ file://" in said

    assert "installing labrig @ " in setup(light, UV, LABRIG="pinned")
    assert where_labrig_is(light).startswith(str(light / ".venv"))
    for typed in ("../nowhere", "pined", "."):
        said = setup(light, UV, LABRIG=typed, rc=2)
        assert f"no labrig lies in {typed}. What is pinned: make setup LABRIG=pinned" in said


@pytest.mark.release
@pytest.mark.slow
def test_a_library_that_is_gone_or_another_one_comes_back(light):
    assert "installing labrig" not in setup(light, UV)
    (site_packages,) = light.glob(".venv/lib/python3*/site-packages")
    shutil.rmtree(site_packages / "labrig")
    assert "installing labrig" in setup(light, UV)
    version = site_packages / "labrig/version.py"
    version.write_text('__version__ = "9.9"\n')
    setup(light, UV, LABRIG="pinned")
    assert "9.9" not in version.read_text()

    assert "Type: make setup" not in lab_says(light, "runs", "list")
    pin(light, NOWHERE)
    said = lab_says(light, "runs", "list")
    assert f"is installed, but pyproject.toml pins labrig @ {NOWHERE}. Type: make setup" in said


@pytest.mark.release
def test_a_clone_installs_from_vendor_without_a_network(light, tmp_path, private_variables):
    """The repository of the library is gone, and no index answers."""
    setup(light, UV)
    pin(light, NOWHERE)
    (light / ".venv/lab-library.txt").write_text(f"labrig @ {NOWHERE}")
    said = output_of(light, ".venv/bin/lab", "vendor")
    assert said.startswith(f"vendor/{wheel().name}  ")
    assert "git add vendor/labrig*" in said
    commit(light, "Keep the library")
    first = tmp_path / "first"
    git(tmp_path, "clone", "-q", light, first)
    assert f"installing vendor/{wheel().name}" in setup(first, UV)

    without_index = subprocess.run(
        [light / ".venv/bin/lab", "vendor", "--all"],
        cwd=light,
        env=os.environ | NO_INDEX | NO_WHEELS,
        capture_output=True,
        text=True,
    )
    assert without_index.returncode == 1
    assert "pip wheel failed, see above. What came is in" in without_index.stderr
    said = output_of(light, ".venv/bin/lab", "vendor", "--all")
    assert "wheels, " in said
    commit(light, "Say that all packages are kept")
    needed = {name for name in packages(first) if name.startswith(OF_LABRIG)}
    for name, uv in (("second", UV), ("third", None)):
        clone = tmp_path / name
        git(tmp_path, "clone", "-q", light, clone)
        shutil.copytree(light / "vendor", clone / "vendor", dirs_exist_ok=True)
        setup(clone, uv, **NO_INDEX, **NO_WHEELS)
        assert len(needed) == len(OF_LABRIG)
        assert needed <= set(packages(clone))
        assert "lab train" in output_of(clone, ".venv/bin/lab", "--help")

    git(tmp_path, "clone", "-q", light, tmp_path / "fourth")
    setup(tmp_path / "fourth", UV)  # without the other wheels they come from the index
    pin(clone, NOWHERE.replace("c0ffee", "beefed"))
    assert "installing labrig @ git+https" in setup(clone, rc=2, **NO_INDEX, **NO_WHEELS)

    text = (light / "pyproject.toml").read_text()
    (light / "pyproject.toml").write_text(text.replace('"labrig', '"labrigs'))
    with pytest.raises(LabError, match=r"pyproject.toml names no labrig\. Bring it back"):
        pin_of(Project(light, "myproj"))


@pytest.mark.release
def test_a_private_repository_over_ssh(hosts, light, tmp_path, private_variables, monkeypatch):  # noqa: F811
    """pip and uv ask git, and git asks ssh, with the key of the user."""
    repository = hosts.accounts["a"].home / "template.git"
    small = tmp_path / "small"
    for name in ("pyproject.toml", "mkdocs.yml", "README.md", "LICENSE", "docs/index.md"):
        (small / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, small / name)
    shutil.copytree(ROOT / "src", small / "src", ignore=shutil.ignore_patterns("__pycache__"))
    git(small, "init", "-q", "-b", "main")
    commit(small, "Start")
    git(tmp_path, "clone", "-q", "--bare", small, repository)
    pin(light, f"git+ssh://a{repository}@{git(small, 'rev-parse', 'HEAD')}")
    monkeypatch.delenv("GIT_ALLOW_PROTOCOL")
    monkeypatch.setenv("GIT_SSH", str(hosts.folder / "bin/ssh"))
    said = setup(light)
    assert f"installing labrig @ git+ssh://a{repository}" in said
    assert (repository.parent / "commands").read_text().count("git-upload-pack") >= 1
    assert "lab train" in output_of(light, ".venv/bin/lab", "--help")


def project_beside(light, folder):
    """One more project of the same package name, without an environment."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    return make_light(copy_project(folder), wheel().as_uri())


@pytest.mark.release
@pytest.mark.slow
def test_two_projects_share_one_environment(light, tmp_path):
    """Both have the package myproj and a trial wide, each with its own code."""
    other = project_beside(light, tmp_path / "other/myproj")
    for n_classes, folder in enumerate((light, other), 3):
        configure(folder, environment=tmp_path / "group/env")
        trial = folder / "src/myproj/trials/wide"
        shutil.copytree(folder / "src/myproj/trials/baseline", trial)
        (trial / "config.yaml").write_text(
            f"model:\n  _target_: .model.CNN\n  n_classes: {n_classes}\n"
        )
        setup(folder, UV)
    for n_classes, folder in enumerate((light, other), 3):
        assert (folder / ".venv").resolve() == tmp_path / "group/env"
        lab = folder / ".venv/bin/lab"
        assert f"n_classes: {n_classes}" in output_of(folder, lab, "config", "trial=wide")
        show = "from labrig import trials; from labrig.project import Project, enter; "
        show += "enter(Project.find()); import myproj.trials.wide as w; print(w.__path__[0])"
        shown = output_of(folder, folder / ".venv/bin/python", "-c", show)
        assert shown == str(folder / "src/myproj/trials/wide")
    linked = tmp_path / "linked"
    git(light, "worktree", "add", "-q", linked)
    shutil.copytree(linked / "src/myproj/trials/baseline", linked / "src/myproj/trials/deep")
    lab = light / ".venv/bin/lab"
    assert "n_classes: 10" in output_of(linked, lab, "config", "trial=deep")

    pin(other, NOWHERE)
    said = setup(other, UV, rc=2)
    assert f"{tmp_path}/group/env is also that of {light}" in said
    assert "make setup LABRIG=pinned" in said
    shutil.rmtree(light)
    assert "installing labrig @ git+https" in setup(other, UV, rc=2), "it is its own now"


@needs_root
@pytest.mark.release
@pytest.mark.slow
def test_an_environment_that_somebody_else_keeps_is_used_as_it_is(light, tmp_path):
    with mounted(tmp_path / "group", "size=400m") as group:
        configure(light, environment=group / "env")
        setup(light, UV)
        before = packages(light)
        subprocess.run(["mount", "-o", "remount,ro", group], check=True)
        other = project_beside(light, tmp_path / "other/myproj")
        configure(other, environment=group / "env")
        setup(other, UV)
        assert (other / ".venv").resolve() == group / "env"
        assert "lab train" in output_of(other, other / ".venv/bin/lab", "--help")
        text = (other / "pyproject.toml").read_text()
        first = "dependencies = [\n"
        assert first in text
        (other / "pyproject.toml").write_text(
            text.replace(first, f'{first}    "iniconfig>=2",\n', 1)
        )
        said = setup(other, UV, rc=2)
        assert f"{group}/env is not yours to change, and lacks: iniconfig>=2." in said
        assert packages(light) == before


@pytest.mark.release
@pytest.mark.slow
def test_the_lock_of_uv_holds_the_pin_with_its_hash(light):
    """A wheel has a hash; pip and uv then refuse another file under the same name."""
    subprocess.run([UV, "lock", "--quiet"], cwd=light, check=True, env=os.environ)
    lock = (light / "uv.lock").read_text()
    (entry,) = [part for part in lock.split("[[package]]") if part.startswith('\nname = "labrig"')]
    assert "sha256:" in entry
