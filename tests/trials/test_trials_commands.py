"""`lab trials new`, `diff`, `drop`, `restore`, `rename`: what they change in a project, and what they leave."""

import json
import os
import subprocess

import pytest
from commands import write_command
from projects import call, environment_of
from repositories import IDENTITY, commit, git
from trial_runs import add_run, replace_in, trial_folder

PAGE = "TRIALS.md"
OTHER_HOOKS = "style,large-files,private-keys,tokens,imports"


def trials(folder, *words, rc=0):
    return call(folder, "lab", "trials", *words, rc=rc, cold=True, **IDENTITY)


@pytest.fixture
def wide(own_project):
    """A project with a second trial, and a run of it."""
    trials(own_project, "new", "wide", "--no-check")
    commit(own_project, "Add wide")
    add_run(own_project, "wide", loss=0.25)
    return own_project


@pytest.mark.slow
def test_new_copies_code_and_settings_and_trains_one_batch(home):
    parent = trial_folder(home, "baseline")
    (parent / "curve.png").write_bytes(b"a result")
    (parent / "old.ckpt").write_text("git ignores it")
    output = call(home, "lab", "trials", "new", "copied", "-m", "Is a copy as good?")
    (parent / "curve.png").unlink()
    (parent / "old.ckpt").unlink()
    assert "ok  copied: " in output
    assert "one batch in" in output
    folder = trial_folder(home, "copied")
    names = {path.name for path in folder.iterdir() if path.name != "__pycache__"}
    assert names == {"README.md", "__init__.py", "config.yaml", "model.py"}
    text = (folder / "README.md").read_text()
    assert "**Parent.** [baseline](../baseline/README.md)" in text
    assert "**Question.** Is a copy as good?" in text
    for part in ("**Change.**", "**Numbers.**", "**Verdict.** Open."):
        assert part in text


@pytest.mark.slow
def test_new_tells_what_its_check_finds(home):
    model = trial_folder(home, "baseline") / "model.py"
    text = model.read_text()
    replace_in(model, "nn.Linear(128, n_classes)", "nn.Linear(127, n_classes)")
    try:
        output = call(home, "lab", "trials", "new", "unfit", rc=1)
    finally:
        model.write_text(text)
    assert "one batch fails" in output
    assert (trial_folder(home, "unfit") / "config.yaml").exists(), "it is there to be repaired"


def test_names_that_cannot_be_used(own_project):
    for name, message in {
        "Wide": "cannot be the name of a trial",
        "lambda": "avoid Python's keywords",
        "baseline": "exists already",
    }.items():
        assert message in trials(own_project, "new", name, rc=2)
    assert "did you mean: baseline" in trials(own_project, "new", "x", "--from", "baselin", rc=2)
    assert git(own_project, "status", "--porcelain") == ""


def test_the_readme_opens_on_a_terminal_only(own_project):
    editor = own_project / "editor.sh"
    write_command(own_project, editor.name, f'#!/bin/sh\necho "$1" >> {own_project}/opened\n')
    words = ["lab", "trials", "new", "--no-check"]
    call(own_project, *words, "piped", cold=True, EDITOR=str(editor))
    assert not (own_project / "opened").exists()
    terminal, inside = os.openpty()
    environment = environment_of(own_project, EDITOR=f"{editor} -x", VISUAL="")
    ends = {"stdin": inside, "stdout": inside, "stderr": inside}
    done = subprocess.run([*words, "typed"], cwd=own_project, env=environment, timeout=120, **ends)
    os.close(inside)
    os.close(terminal)
    assert done.returncode == 0
    assert (own_project / "opened").read_text() == "-x\n", "the words of $EDITOR come first"


def test_drops_of_two_branches_merge(wide):
    trials(wide, "new", "deep", "--no-check")
    commit(wide, "Add deep")
    git(wide, "checkout", "-q", "-b", "other")
    trials(wide, "drop", "deep", "--why", "Too deep.")
    git(wide, "checkout", "-q", "main")
    trials(wide, "drop", "wide", "--why", "Too wide.")
    git(wide, "merge", "-q", "-m", "both", "other")
    lines = [line for line in (wide / PAGE).read_text().splitlines() if line.startswith("- ")]
    assert [line.split("`")[1] for line in lines] == ["wide", "deep"]


@pytest.mark.slow
def test_diff_shows_settings_side_by_side_and_code_as_git_does(wide):
    assert "no difference" in trials(wide, "diff", "wide")
    replace_in(trial_folder(wide, "wide") / "config.yaml", "width: 32", "width: 64")
    replace_in(trial_folder(wide, "wide") / "model.py", "nn.Dropout(0.2)", "nn.Dropout(0.5)")
    (trial_folder(wide, "wide") / "block.py").write_text("A = 1\t# \x1b[31m\n")
    lines = trials(wide, "diff", "baseline", "wide", rc=1).splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["setting", "baseline", "wide"],
        ["model.width", "32", "64"],
    ]
    assert [line for line in lines if line.startswith("+++")] == [
        "+++ src/myproj/trials/wide/block.py",
        "+++ src/myproj/trials/wide/model.py",
    ]
    assert [line.split() for line in lines if line[0] in "+-" and "nn.Dropout" in line] == [
        ["-", "nn.Dropout(0.2),"],
        ["+", "nn.Dropout(0.5),"],
    ]
    (added,) = [line for line in lines if line.startswith("+A = 1")]
    assert "\x1b" not in added, "no file steers the terminal"
    assert "names no parent" in trials(wide, "diff", "baseline", rc=2)


@pytest.mark.slow
def test_drop_and_restore_commit_the_trial_alone(wide):
    before = git(wide, "rev-parse", "HEAD^{tree}")
    (wide / "README.md").write_text("staged")
    git(wide, "add", "README.md")
    (wide / "notes.txt").write_text("not staged")
    output = trials(wide, "drop", "wide", "--why", "No better\nthan the baseline.")
    assert "lab trials restore wide" in output
    assert not trial_folder(wide, "wide").exists()
    names = git(wide, "show", "--name-only", "--format=%s", "HEAD").split()
    assert names[:3] == ["Drop", "trial", "wide"]
    assert set(names[3:]) == {
        PAGE,
        *(
            f"src/myproj/trials/wide/{name}"
            for name in ("README.md", "__init__.py", "config.yaml", "model.py")
        ),
    }
    last = git(wide, "rev-parse", "HEAD~1")[:12]
    page = (wide / PAGE).read_text()
    assert (
        f"dropped `wide` at `{last}`: val/loss 0.25 in 1 run. No better than the baseline." in page
    )
    assert "dropped: 1 (wide)" in trials(wide, "tree")
    assert "lab trials restore wide" in trials(wide, "new", "wide", rc=2)
    trials(wide, "restore", "wide")
    git(wide, "rm", "-q", "--cached", PAGE)
    assert git(wide, "status", "--porcelain") == f"M  README.md\nD  {PAGE}\n?? {PAGE}\n?? notes.txt"
    git(wide, "reset", "-q", "--hard")
    git(wide, "rm", "-q", PAGE)
    assert git(wide, "write-tree") == before
    assert "0.25" in trials(wide, "tree"), "its runs are there again"


@pytest.mark.slow
def test_nothing_is_lost_when_a_drop_fails(wide):
    folder = trial_folder(wide, "wide")
    state = git(wide, "status", "--porcelain")
    (wide / ".git/index.lock").touch()
    assert "not committed: " in trials(wide, "drop", "wide", "--why", "x", rc=1)
    (wide / ".git/index.lock").unlink()
    assert git(wide, "status", "--porcelain") == state
    assert (folder / "model.py").exists()
    assert not (wide / PAGE).exists()
    (folder / "new.py").touch()
    assert "new.py: not committed, so it would be lost" in trials(
        wide, "drop", "wide", "--why", "x", rc=4
    )
    (folder / "new.py").unlink()
    (folder / "old.ckpt").touch()
    assert "old.ckpt: git ignores it" in trials(wide, "drop", "wide", "--why", "x", rc=4)
    token = "ghp_" + "a1" * 18
    assert "--why:1 looks like" in trials(wide, "drop", "wide", "--why", token, rc=4)
    assert "say why" in trials(wide, "drop", "wide", "--why", " ", rc=2)
    assert "did you mean: wide" in trials(wide, "drop", "wid", "--why", "x", rc=2)
    assert (folder / "old.ckpt").exists()


def commit_with_hooks(folder, *files):
    """What the hooks say to a commit of files, else of everything; they let it pass."""
    git(folder, "add", "-A")
    words = ("commit", "-q", "-m", "By hand", "--", *files)
    environment = environment_of(folder, SKIP=OTHER_HOOKS, **IDENTITY)
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_hook_tells_of_a_trial_deleted_by_hand(wide):
    call(wide, "pre-commit", "install")
    git(wide, "rm", "-q", "-r", "src/myproj/trials/wide")
    (wide / "README.md").write_text("# Ours\n")
    assert "trial wide" not in commit_with_hooks(wide, "README.md"), "that commit keeps it"
    last = git(wide, "rev-parse", "HEAD")[:12]
    output = commit_with_hooks(wide)
    assert "trial wide is deleted, and TRIALS.md does not say why" in output
    assert 'lab trials drop wide --why "..."' in output
    assert "rename" not in output
    trials(wide, "drop", "wide", "--why", "Too slow.")
    assert f"dropped `wide` at `{last}`: val/loss 0.25" in (wide / PAGE).read_text()
    assert git(wide, "show", "--name-only", "--format=", "HEAD") == PAGE
    trials(wide, "restore", "wide")
    assert trial_folder(wide, "wide").exists()


@pytest.mark.slow
def test_the_hook_tells_of_a_trial_renamed_by_hand(wide):
    call(wide, "pre-commit", "install")
    git(wide, "mv", "src/myproj/trials/wide", "src/myproj/trials/wider")
    assert "lab trials rename wide wider" in commit_with_hooks(wide)
    trials(wide, "rename", "wide", "wider")
    assert "Rename" not in commit_with_hooks(wide)
    assert "0.25" in trials(wide, "tree")


@pytest.mark.release
@pytest.mark.slow
def test_runs_of_a_renamed_trial_are_found(wide):
    trials(wide, "new", "deep", "--from", "wide", "--no-check")
    config = trial_folder(wide, "deep") / "config.yaml"
    config.write_text(config.read_text() + "# see trial=wide, src/myproj/trials/wide\n")
    output = trials(wide, "rename", "wide", "wider")
    assert "edited src/myproj/trials/deep/config.yaml" in output
    assert "still names wide: README.md:" in output
    assert config.read_text().endswith("# see trial=wider, src/myproj/trials/wider\n")
    assert (
        "**Parent.** [wider](../wider/README.md)"
        in (trial_folder(wide, "deep") / "README.md").read_text()
    )
    assert (trial_folder(wide, "wider") / "README.md").read_text().startswith("# wider\n")
    call(wide, "lab", "check", "trial=wider", "--no-batch")
    (row,) = json.loads(call(wide, "lab", "runs", "list", "trial=wider", "--json"))
    assert row["trial"] == "wider"
    assert row["run_dir"].startswith(str(wide / "runs/wide/")), "its record stays as it is"
    assert row["run_id"] in call(wide, "lab", "runs", "show", "@best:val/loss:wider")
    assert "as recorded" in call(wide, "lab", "runs", "verify", row["run_id"])
    assert "is 'wider' since" in trials(wide, "new", "wide", rc=2)
    add_run(wide, "wider", seed=1, loss=0.75)
    (trial,) = [row for row in json.loads(trials(wide, "tree", "--json")) if row["name"] == "wider"]
    assert (trial["mean"], trial["n_seeds"]) == (0.5, 2), "seeds before and after are one group"
    trials(wide, "rename", "wider", "widest")
    assert len(json.loads(call(wide, "lab", "runs", "list", "trial=widest", "--json"))) == 2
    trials(wide, "rename", "widest", "wide")
    assert len(json.loads(call(wide, "lab", "runs", "list", "trial=wide", "--json"))) == 2
