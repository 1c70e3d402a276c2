"""`copier update` from an older release brings the new machinery and touches nothing of the user's."""

import filecmp
import shutil
import sys

import copier
import pytest
import yaml
from conftest import ROOT, call, equip
from project_files import files
from repositories import commit, git

OPTIONS = {"defaults": True, "quiet": True, "unsafe": False}
LAB = "template/src/{{package_name}}/lab"
SEED = "template/src/{{package_name}}"


@pytest.fixture(scope="module")
def releases(template, tmp_path_factory):
    """A repository of the template with two tags: 99.0.0 is what lies here, 0.0.1 an older one made of it."""
    folder = shutil.copytree(template, tmp_path_factory.mktemp("releases") / "template")
    key = folder / LAB / "conf/lab.yaml.jinja"
    pyproject = folder / "template/pyproject.toml.jinja"
    ignored = folder / "template/.gitignore"
    task = folder / SEED / "task.py"
    now = {path: path.read_text(encoding="utf-8") for path in (key, pyproject, ignored, task)}
    moved = folder / LAB / "machine/disk.py"
    moved.rename(folder / LAB / "machine/older_name.py")
    (folder / "template/notes.md").write_text("a seed of 0.0.1 that 99.0.0 drops\n")
    key.write_text(
        now[key].replace("seed: 0 #", "seed: 7 #").replace("    every_n_steps", "    every_n")
    )
    key.write_text(
        "".join(line for line in key.read_text().splitlines(True) if "matmul_precision" not in line)
    )
    pyproject.write_text(now[pyproject].replace('    "python-dotenv>=1.0",\n', ""))
    ignored.write_text(now[ignored].replace("/wandb\n", ""))
    task.write_text(now[task] + "\n# an older comment\n")
    commit(folder, "0.0.1")
    git(folder, "tag", "0.0.1")
    for path, text in now.items():
        path.write_text(text, encoding="utf-8")
    (folder / LAB / "machine/older_name.py").rename(moved)
    (folder / "template/notes.md").unlink()
    config = (folder / "copier.yml").read_text()
    begin = config.index("  # Tombstones")
    with_tombstone = config[begin:].replace('"update" %}\n', '"update" %}\n    /notes.md\n', 1)
    (folder / "copier.yml").write_text(config[:begin] + with_tombstone)
    commit(folder, "99.0.0")
    git(folder, "tag", "99.0.0")
    return folder


@pytest.fixture
def old(releases, tmp_path):
    """A project of 0.0.1, set up."""
    copier.run_copy(str(releases), tmp_path / "myproj", vcs_ref="0.0.1", **OPTIONS)
    return equip(tmp_path / "myproj")


def update(folder, releases):
    copier.run_update(folder, vcs_ref="99.0.0", overwrite=True, **OPTIONS)
    assert git(folder, "ls-files", "-u") == "", "conflicts"
    assert not list(folder.rglob("*.rej"))
    assert git(folder, "diff", "--check", "HEAD") == ""
    assert "_commit: 99.0.0" in (folder / ".copier-answers.yml").read_text()


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} has changed; change this test with it"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_an_untouched_project_becomes_a_new_one(old, releases, tmp_path):
    update(old, releases)
    fresh = tmp_path / "fresh" / "myproj"
    copier.run_copy(str(releases), fresh, vcs_ref="99.0.0", **OPTIONS)
    seeds = {"src/myproj/task.py", "notes.md"}  # the older ones stay
    names = [name for name in files(fresh) if name not in seeds]
    assert filecmp.cmpfiles(old, fresh, names, shallow=False) == (names, [], [])
    tracked = set(git(old, "ls-files", "-co", "--exclude-standard", "--deduplicate").split())
    assert {name for name in tracked if (old / name).exists()} - {".venv"} == set(files(fresh)) | {
        "notes.md"
    }


@pytest.mark.slow
def test_a_project_with_a_life_of_its_own_keeps_all_of_it(old, releases):
    package = old / "src/myproj"
    shutil.copytree(package / "trials/baseline", package / "trials/wide")
    edit(package / "trials/wide/config.yaml", "width: 32", "width: 64")
    edit(package / "trials/wide/README.md", "# baseline", "# wide")
    edit(old / "README.md", "## Set up", "My thesis.\n\n## Set up")
    edit(package / "task.py", "# an older comment", "# my loss")
    edit(package / "conf/config.yaml", "max_epochs: 20", "max_epochs: 2")
    edit(
        old / "pyproject.toml",
        '    "scikit-learn>=1.5",\n',
        '    "scikit-learn>=1.5",\n    "tqdm>=4.67",\n',
    )
    edit(old / "pyproject.toml", 'version = "0.1.0"', 'version = "0.4.0"')
    edit(old / ".gitignore", "# yours\n", "# yours\n/figures\n")
    (package / "plots.py").write_text('"""Mine."""\n')
    (old / "tests/test_plots.py").write_text("def test_mine():\n    assert True\n")
    (old / "CITATION.cff").unlink()
    commit(old, "my work")
    mine = {name: (old / name).read_bytes() for name in (
        "README.md", "notes.md", "tests/test_plots.py", "src/myproj/task.py", "src/myproj/plots.py",
        "src/myproj/conf/config.yaml", "src/myproj/trials/wide/config.yaml",
        "src/myproj/trials/wide/README.md", "src/myproj/trials/wide/model.py",
        "src/myproj/trials/baseline/model.py",
    )}  # fmt: skip

    update(old, releases)

    assert {name: (old / name).read_bytes() for name in mine} == mine
    assert not (old / "CITATION.cff").exists()
    pyproject = (old / "pyproject.toml").read_text()
    for line in ('    "tqdm>=4.67",', 'version = "0.4.0"', '    "python-dotenv>=1.0",'):
        assert line in pyproject
    assert {"/figures", "/wandb"} <= set((old / ".gitignore").read_text().split("\n"))
    keys = yaml.safe_load((package / "lab/conf/lab.yaml").read_text(encoding="utf-8"))
    assert keys["seed"] == 0
    assert "matmul_precision" in keys["trainer"]
    assert (package / "lab/machine/disk.py").exists()
    assert not (package / "lab/machine/older_name.py").exists()
    assert "matmul_precision" in call(old, "lab", "config", "trial=wide")
    assert " passed" in call(old, "make", "test")


def test_a_deleted_trial_stays_deleted(old, releases):
    shutil.rmtree(old / "src/myproj/trials/baseline")
    commit(old, "without baseline")
    update(old, releases)
    assert not (old / "src/myproj/trials/baseline").exists()
    assert (old / "src/myproj/trials/__init__.py").exists()


def test_recopy_keeps_seeds(old, releases):
    edit(old / "README.md", "## Set up", "My thesis.\n\n## Set up")
    commit(old, "my readme")
    copier.run_recopy(old, vcs_ref="99.0.0", overwrite=True, **OPTIONS)
    assert "My thesis." in (old / "README.md").read_text()
    assert "# an older comment" in (old / "src/myproj/task.py").read_text()


def test_the_template_is_the_one_that_is_tested(releases):
    assert filecmp.cmp(releases / LAB / "cli.py", ROOT / LAB / "cli.py", shallow=False)


def test_files_of_the_template_that_the_user_deleted_stay_away(old, releases):
    deleted = ["Makefile", ".github/workflows/check.yml", "src/myproj/lab/conf/site/lanta.yaml"]
    for name in deleted:
        (old / name).unlink()
    commit(old, "without them")
    update(old, releases)
    assert not [name for name in deleted if (old / name).exists()]
    assert (old / "src/myproj/lab/machine/disk.py").exists(), "the others are updated"
    assert "# an older comment" in (old / "src/myproj/task.py").read_text()


def test_a_conflict_is_told_in_words_until_it_is_solved(old, releases, capfd):
    edit(old / ".gitignore", "/dist\n", "/dist\n/mine\n")
    commit(old, "mine")
    copier.run_update(old, vcs_ref="99.0.0", overwrite=True, **OPTIONS | {"quiet": False})
    said = capfd.readouterr().err
    assert "Choose between the lines after <<<<<<< and those before >>>>>>>" in said
    assert f"docs/update.md of {releases}" in said
    commands = [
        line.partition("#")[0].strip() for line in said.splitlines() if line.startswith("  git ")
    ]
    assert len(commands) == 2
    assert git(old, *commands[0].split()[1:]) == ".gitignore"
    text = call(old, "make", "setup", f"PYTHON={sys.executable}", rc=2)
    assert "hold two versions of some lines:\n  .gitignore\n" in text
    lines = (old / ".gitignore").read_text().splitlines(True)
    solved = [line for line in lines if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
    (old / ".gitignore").write_text("".join(solved))
    git(old, "add", ".gitignore")
    assert git(old, *commands[0].split()[1:]) == ""
