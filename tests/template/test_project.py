"""A generated project, used as a student uses it: README, checks, tests, hooks, trials."""

import re
import resource
import shutil

import pytest
from markdown_it import MarkdownIt
from projects import call, equip

LIMIT_CPU_S = 60  # of a project's own tests


def test_make_check_passes(own_project):
    assert "Failed" not in call(own_project, "make", "check")
    assert call(own_project, "git", "status", "--porcelain") == ""


@pytest.mark.release
def test_make_test_passes_in_a_minute(own_project):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert " passed" in call(own_project, "make", "test")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime <= LIMIT_CPU_S
    assert call(own_project, "git", "status", "--porcelain") == ""


@pytest.mark.release
def test_a_project_of_a_cluster_works_on_a_laptop(render, tmp_path, monkeypatch):
    for name in ("WORK", "SCRATCH", "DSDIR", "JOBSCRATCH"):
        monkeypatch.delenv(name, raising=False)
    folder = equip(render(tmp_path / "myproj", site="jean_zay_h100"))
    assert " passed" in call(folder, "make", "test")
    assert "$WORK/${package}/runs, and the variable is not set here" in call(
        folder, "lab", "runs", "list"
    )
    assert "target" in call(folder, "lab", "config", "trial=baseline")


@pytest.mark.slow
def test_readme_commands_run_in_order(own_project):
    readme = (own_project / "README.md").read_text(encoding="utf-8")
    blocks = [token for token in MarkdownIt().parse(readme) if token.type == "fence"]
    commands = [
        line.split("#")[0].split() for block in blocks for line in block.content.split("\n")
    ]
    outputs = {
        " ".join(words): call(own_project, *words) for words in commands if words[:1] == ["lab"]
    }
    assert len(outputs) >= 10
    assert "epoch 20/20" in outputs["lab train trial=baseline"]
    assert "\r" not in outputs["lab train trial=baseline"], "plain lines where is no terminal"
    assert "finished" in outputs["lab runs list"]
    accuracy = re.search(r"test/acc\D*([\d.]+)", outputs["lab runs show @last"])
    assert float(accuracy[1]) >= 0.975
    assert "wide" in outputs["lab trials tree"]
    (snippet,) = [block.content for block in blocks if block.info == "python"]
    assert "CNN" in call(own_project, "python", "-c", f"{snippet}\nprint(type(model), model)")


def trial(project, name, code=""):
    """A new trial with a model.py of that code, as a student makes one by hand."""
    folder = project / "src/myproj/trials" / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "model.py").write_text(code)
    return folder


def check(project, rc=0):
    """What the template's checks say of a project, as its hook runs them."""
    call(project, "git", "add", "-A")
    return call(project, "pre-commit", "run", "lab", "--all-files", rc=rc)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, 3])
def test_contracts_hold_for_any_number_of_trials(own_project, number):
    shutil.rmtree(own_project / "src/myproj/trials/baseline")
    for n in range(number):
        trial(own_project, f"idea{n}", "from ... import task  # noqa: F401\n")
    assert "Passed" in check(own_project)


def test_a_trial_that_imports_another_is_stopped(own_project):
    trial(own_project, "wide", "from ..baseline import model  # noqa: F401\n")
    output = check(own_project, rc=1)
    assert "myproj.trials.wide is not allowed to import myproj.trials.baseline" in output


def test_a_package_that_imports_a_trial_is_stopped(own_project):
    (own_project / "src/myproj/extra.py").write_text(
        "from .trials.baseline import model  # noqa: F401\n"
    )
    assert "the package does not import a trial BROKEN" in check(own_project, rc=1)


@pytest.mark.slow
def test_a_trial_that_no_contract_sees_is_stopped(own_project):
    (trial(own_project, "wide", "from ..baseline import model\n") / "__init__.py").unlink()
    assert "trials/wide/__init__.py" in check(own_project, rc=1)


@pytest.mark.release
@pytest.mark.slow
def test_a_large_file_is_stopped(own_project):
    (own_project / "scan.bin").write_bytes(bytes(1_000_000))
    assert "Passed" in check(own_project)
    (own_project / "scan.bin").write_bytes(bytes(1_100_000))
    output = check(own_project, rc=1)
    assert "scan.bin" in output
    assert "data/" in output


def test_a_private_key_is_stopped(own_project):
    (own_project / "id.txt").write_text("-----BEGIN OPENSSH " + "PRIVATE KEY-----\n")
    assert "id.txt" in check(own_project, rc=1)


def test_a_secret_is_not_committed(own_project):
    call(own_project, "pre-commit", "install")
    (own_project / "notes.md").write_text("key: AKIA" + "ABCDEFGHIJKLMNOP\n")
    call(own_project, "git", "add", "notes.md")
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    assert "notes.md:1 looks like an AWS key" in call(
        own_project, "git", *identity, "commit", "-m", "Notes", rc=1
    )
    assert call(own_project, "git", "log", "--format=%s") == "Start\n"
