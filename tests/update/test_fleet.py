"""hooks/fleet.py and docs/lab.md: a lab's projects follow its fork, are listed and updated."""

import os
import re
import shutil
import subprocess
import sys

import copier
import pytest
import yaml
from projects import HELPERS, PROJECT, ROOT, equip
from release_history import FIRST, add_entry, record_tags, release, write_version
from rendering import copy_template
from repositories import IDENTITY, NO_SETTINGS_OF_THIS_MACHINE, commit, git, write

sys.path.insert(0, str(ROOT / "hooks"))
import fleet

PAGE = (ROOT / "docs/lab.md").read_text(encoding="utf-8")


@pytest.fixture
def template(tmp_path, monkeypatch):
    """A small template with the releases 1.3.0 and 1.4.0; fleet.py belongs to it."""
    folder = tmp_path / "upstream"
    write(folder, FIRST | {"CHANGELOG.md": "# Changes\n\n## 1.3.0\n\nThe first.\n"})
    release(folder, "1.3.0")
    write(folder, {"template/Makefile": "all: more\n"})
    add_entry(folder, "1.4.0", "More.")
    record_tags(folder)
    release(folder, "1.4.0")
    monkeypatch.setattr(fleet, "TEMPLATE", folder)
    caches = {"COPIER_CACHE_DIR": str(tmp_path / "copier")}
    for name, value in (IDENTITY | NO_SETTINGS_OF_THIS_MACHINE | caches).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin", prepend=os.pathsep)
    return folder


def make_project(template, folder, version):
    copier.run_copy(f"git+file://{template}", folder, vcs_ref=version, defaults=True, quiet=True)
    commit(folder, "Start")
    return folder


def call(capsys, projects, *words):
    (projects[0].parent / "projects.txt").write_text(
        "# ours\n" + "".join(f"{p}\n" for p in projects)
    )
    code = fleet.main(["--projects", str(projects[0].parent / "projects.txt"), *words])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.release
@pytest.mark.slow
def test_branches_with_the_newest_release(template, tmp_path, capsys):
    old = make_project(template, tmp_path / "old", "1.3.0")
    new = make_project(template, tmp_path / "new", "1.4.0")
    (old / "README.md").write_text("unfinished\n")
    code, out, err = call(capsys, [old, new, tmp_path / "nowhere"], "update")
    assert code == 1
    assert "old: branch template-update\nUpdate the template from 1.3.0 to 1.4.0" in out
    assert "new: nothing to do: 1.4.0 is the newest release" in out
    assert "nowhere: no project of a template here" in err
    assert git(old, "show", "template-update:Makefile") == "all: more"
    assert git(old, "status", "--porcelain") == " M README.md", "the work tree is the owner's"
    assert git(old, "branch", "--show-current") == "main"
    assert "fleet" not in git(old, "worktree", "list")


@pytest.mark.release
@pytest.mark.slow
def test_a_project_with_an_address_gets_the_branch_pushed(template, tmp_path, capsys):
    old = make_project(template, tmp_path / "old", "1.3.0")
    git(tmp_path, "clone", "-q", "--bare", old, tmp_path / "forge.git")
    address = f"file://{tmp_path}/forge.git"
    (tmp_path / "projects.txt").write_text(f"{address}\n")
    assert fleet.main(["--projects", str(tmp_path / "projects.txt"), "update"]) == 0
    assert git(tmp_path / "forge.git", "show", "template-update:Makefile") == "all: more"
    assert fleet.main(["--projects", str(tmp_path / "projects.txt"), "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split() == [address, "1.3.0", "1", "release", "0", "-", "-"]


def test_a_project_follows_another_template_that_knows_its_release(template, tmp_path, capsys):
    old = make_project(template, tmp_path / "old", "1.3.0")
    fork = tmp_path / "fork"
    git(tmp_path, "clone", "-q", template, fork)
    code, _, _ = call(capsys, [old], "retarget", f"git+file://{fork}")
    assert code == 0
    answers = yaml.safe_load(git(old, "show", "template-retarget:.copier-answers.yml"))
    assert answers["_src_path"] == f"git+file://{fork}"
    assert answers["_commit"] == "1.3.0"
    git(fork, "tag", "-d", "1.3.0")
    code, _, err = call(capsys, [old], "retarget", f"git+file://{fork}")
    assert code == 1
    assert "has no tag 1.3.0" in err


@pytest.mark.slow
def test_the_table_has_edits_and_runs(template, tmp_path, capsys):
    folder = shutil.copytree(PROJECT, tmp_path / "myproj")
    write(folder, {".copier-answers.yml": f"_commit: 1.3.0\n_src_path: {template}\n"})
    commit(folder, "Start")
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    program = [sys.executable, HELPERS / "record_program.py", folder, "1"]
    subprocess.run(program, cwd=folder, env=environment, check=True, timeout=120)
    run = next((folder / "runs").glob("*/*/run.json"))
    code, out, err = call(capsys, [folder], "list")
    assert (code, err) == (0, "")
    cells = re.split(r"\s{2,}", out.splitlines()[1])
    assert cells[1:4] == ["1.3.0", "1 release", "2"], "two files of the small template are not here"
    date = run.parent.name[:8]
    assert cells[4] == f"{date[:4]}-{date[4:6]}-{date[6:]}"
    assert re.fullmatch(r"\S.* 0\.0", cells[5])


@pytest.mark.slow
@pytest.mark.traceback("copier shows it where there is no template any more")
def test_edited_files_are_counted(template, tmp_path):
    project = make_project(template, tmp_path / "project", "1.3.0")
    assert fleet.edited_files(project) == 0
    write(project, {"tools/start.sh": "echo mine\n", "Makefile": "all: mine\n"})
    (project / "tools/end.sh").unlink()
    assert fleet.edited_files(project) == 2
    shutil.rmtree(template)
    assert fleet.edited_files(project) is None


def test_hours_are_summed():
    row = fleet.Row("p", "1.0", "-", 2, "2026-01-02", {"bob": 3.04, "ann": 12.5})
    assert row.cells()[-1] == "ann 12.5, bob 3.0"


BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
IN_ORDER = (  # words of each block that the last test types
    *("copier copy", "LAB_SITE_PATH", "git clone", "git pull", "git tag"),
    *("fleet.py retarget", "fleet.py update", "git merge"),
)


def block(words):
    """The block of commands of docs/lab.md that has these words."""
    (found,) = [text for text in BLOCKS if words in text]
    return found


def test_no_block_of_the_page_is_left_out():
    assert [block(words) for words in IN_ORDER] == BLOCKS


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """shell(text, folder): runs a block of the page; its addresses are repositories here."""
    addresses = {
        "upstream": "https://git.example.org/upstream/template.git",
        "fork.git": "https://git.example.org/lab/template.git",
    }
    settings = {f"url.file://{tmp_path}/{n}.insteadOf": url for n, url in addresses.items()}
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for n, (key, value) in enumerate(settings.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{n}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{n}", value)
    for name, value in (IDENTITY | NO_SETTINGS_OF_THIS_MACHINE).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin", prepend=os.pathsep)

    def run(text, folder):
        text = text.replace("/shared/lab", f"{tmp_path}/shared").replace(
            "copy", "copy --defaults", 1
        )
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.mark.release
def test_every_command_of_the_page(shell, tmp_path):
    """A lab from its first project to the first update of it, as docs/lab.md has it."""
    (answers,) = re.findall(r"^```yaml\n(# /shared.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    write(tmp_path / "shared", {"answers.yml": answers})
    upstream = copy_template(tmp_path / "upstream", library=True)
    shutil.copytree(ROOT / "hooks", upstream / "hooks")
    write(upstream, {".gitignore": "/.venv\n__pycache__/\n/projects.txt\n"})
    write(upstream, {"CHANGELOG.md": "# Changes\n\n## 1.4.0\n\nThe first.\n"})
    release(upstream, "1.4.0")

    shell(block("copier copy"), tmp_path)
    project = tmp_path / "wide-nets"
    recorded = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert {name: recorded[name] for name in ("author", "license", "site")} == {
        "author": "The Vision Lab",
        "license": "Apache-2.0",
        "site": "slurm",
    }
    assert recorded["package_name"] == "wide_nets"
    equip(project)
    site = block("LAB_SITE_PATH")
    assert "slurm" in shell(f"{site}cd wide-nets; lab site show ourcluster", tmp_path)

    git(tmp_path, "init", "-q", "--bare", "-b", "main", "fork.git")
    shell(block("git clone"), tmp_path)
    folder = tmp_path / "lab-template"
    add_entry(upstream, "1.5.0", "More.")
    release(upstream, "1.5.0")
    shell(block("git pull"), folder)
    assert git(folder, "tag") == "1.4.0"
    assert "## 1.5.0" in (folder / "CHANGELOG.md").read_text()
    neighbours = folder / "src/labrig/conf/site"
    shutil.copy(neighbours / "slurm.yaml", neighbours / "ours.yaml")
    questions = (folder / "copier.yml").read_text()
    line = "    A cluster with Slurm: slurm\n"
    assert line in questions
    (folder / "copier.yml").write_text(questions.replace(line, f"{line}    Ours: ours\n"))
    write_version(folder, "1.5.0.post1")
    add_entry(folder, "1.5.0.post1", "The site `ours`.")
    record_tags(folder)
    git(folder, "add", "--all")
    (folder / ".venv").symlink_to(sys.prefix)
    assert "1.5.0.post1 can be tagged" in shell(block("git tag"), folder)

    write(folder, {"projects.txt": f"# ours\n{project}\n"})
    shell(block("fleet.py retarget"), folder)
    git(project, "merge", "-q", "template-retarget")
    out = shell(block("fleet.py update"), folder)
    assert re.search(r"wide-nets +1\.4\.0 +1 release +0 +- +-\n", out)
    assert "Update the template from 1.4.0 to 1.5.0.post1" in out
    shell(block("git merge").replace("make setup check test", ""), project)
    assert "_commit: 1.5.0.post1" in (project / ".copier-answers.yml").read_text()
    pin = f"lab/template.git@{git(folder, 'rev-parse', '1.5.0.post1^{}')}"
    assert pin in (project / "pyproject.toml").read_text(), "the library of the fork"
