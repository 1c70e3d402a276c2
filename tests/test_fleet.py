"""hooks/fleet.py and docs/lab.md: a lab's projects follow its fork, are listed and updated."""

import os
import re
import shutil
import subprocess
import sys

import copier
import pytest
import yaml
from conftest import PROJECT, ROOT, copy_template
from release_history import FIRST, add_entry, record_tags, release
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
    for name, value in (IDENTITY | NO_SETTINGS_OF_THIS_MACHINE).items():
        monkeypatch.setenv(name, value)
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


def test_a_project_with_an_address_gets_the_branch_pushed(template, tmp_path, capsys):
    old = make_project(template, tmp_path / "old", "1.3.0")
    git(tmp_path, "clone", "-q", "--bare", old, tmp_path / "forge.git")
    address = f"file://{tmp_path}/forge.git"
    (tmp_path / "projects.txt").write_text(f"{address}\n")
    assert fleet.main(["--projects", str(tmp_path / "projects.txt"), "update"]) == 0
    assert git(tmp_path / "forge.git", "show", "template-update:Makefile") == "all: more"
    assert fleet.main(["--projects", str(tmp_path / "projects.txt"), "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split() == [address, "1.3.0", "1", "release", "?", "-", "-"]


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


def test_the_table_has_edits_and_runs(template, tmp_path, capsys):
    folder = shutil.copytree(PROJECT, tmp_path / "myproj")
    write(folder, {".copier-answers.yml": f"_commit: 1.3.0\n_src_path: {template}\n"})
    commit(folder, "Start")
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    program = [sys.executable, ROOT / "tests/record_program.py", folder, "1"]
    subprocess.run(program, env=environment, check=True, timeout=120)
    run = next((folder / "runs").glob("*/*/run.json"))
    code, out, err = call(capsys, [folder], "list")
    assert (code, err) == (0, "")
    cells = re.split(r"\s{2,}", out.splitlines()[1])
    assert cells[1:3] == ["1.3.0", "1 release"]
    date = run.parent.name[:8]
    assert cells[4] == f"{date[:4]}-{date[4:6]}-{date[6:]}"
    assert re.fullmatch(r"\S.* 0\.0", cells[5])


def test_edited_files_are_counted_and_hours_are_summed(tmp_path):
    write(tmp_path, {"a.py": "1\n", "b.py": "2\n"})
    one = "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865"
    assert fleet.edited_files(tmp_path) is None
    write(tmp_path, {"src/p/lab/hashes.txt": f"# x\n{one}  a.py\n{one}  b.py\n{one}  c.py\n"})
    assert fleet.edited_files(tmp_path) == 2
    row = fleet.Row("p", "1.0", "-", 2, "2026-01-02", {"bob": 3.04, "ann": 12.5})
    assert row.cells()[-1] == "ann 12.5, bob 3.0"


def blocks():
    """The commands of docs/lab.md, a text per block."""
    return re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


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
    copy, site, fork, pull, tag, retarget, update, merge = blocks()
    (answers,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    write(tmp_path / "shared", {"answers.yml": answers})
    upstream = copy_template(tmp_path / "upstream")
    shutil.copytree(ROOT / "hooks", upstream / "hooks")
    write(upstream, {".gitignore": "/.venv\n__pycache__/\n/projects.txt\n"})
    write(upstream, {"CHANGELOG.md": "# Changes\n\n## 1.4.0\n\nThe first.\n"})
    release(upstream, "1.4.0")

    shell(copy, tmp_path)
    project = tmp_path / "wide-nets"
    commit(project, "Start")
    recorded = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert {name: recorded[name] for name in ("author", "license", "site")} == {
        "author": "The Vision Lab",
        "license": "Apache-2.0",
        "site": "slurm",
    }
    assert recorded["package_name"] == "wide_nets"
    show = f"cd wide-nets; PYTHONPATH=src {sys.executable} -m wide_nets.lab site show ourcluster"
    assert "slurm" in shell(site + show, tmp_path)

    git(tmp_path, "init", "-q", "--bare", "-b", "main", "fork.git")
    shell(fork, tmp_path)
    folder = tmp_path / "lab-template"
    add_entry(upstream, "1.5.0", "More.")
    release(upstream, "1.5.0")
    shell(pull, folder)
    assert git(folder, "tag") == "1.4.0"
    assert "## 1.5.0" in (folder / "CHANGELOG.md").read_text()
    neighbours = folder / "template/src/{{package_name}}/lab/conf/site"
    shutil.copy(neighbours / "slurm.yaml", neighbours / "ours.yaml")
    questions = (folder / "copier.yml").read_text()
    line = "    A cluster with Slurm: slurm\n"
    assert line in questions
    (folder / "copier.yml").write_text(questions.replace(line, f"{line}    Ours: ours\n"))
    git(folder, "add", "--all")
    add_entry(folder, "1.5.0.post1", "The site `ours`.")
    record_tags(folder)
    git(folder, "add", "--all")
    (folder / ".venv").symlink_to(sys.prefix)
    assert "1.5.0.post1 can be tagged" in shell(tag, folder)

    write(folder, {"projects.txt": f"# ours\n{project}\n"})
    shell(retarget, folder)
    git(project, "merge", "-q", "template-retarget")
    out = shell(update, folder)
    assert re.search(r"wide-nets +1\.4\.0 +1 release +\S+ +- +-\n", out)
    assert "Update the template from 1.4.0 to 1.5.0.post1" in out
    shell(merge.replace("make setup check test", ""), project)
    assert (project / "src/wide_nets/lab/conf/site/ours.yaml").exists()
    assert "_commit: 1.5.0.post1" in (project / ".copier-answers.yml").read_text()
