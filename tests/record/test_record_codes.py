"""Means over seeds when the code changed between the runs: no mean is of two codes."""

import csv
import json

import pytest
from labrig.errors import LabError
from labrig.record.compare.code_files import code_of_rows
from labrig.record.read import rows as index
from projects import copy_of, work_on
from record_package import PACKAGE, call, make_project
from report_page import page_of, table_of
from report_runs import OwnSource, settled
from repositories import git, write

MODEL = f"src/{PACKAGE}/trials/baseline/model.py"
README = f"src/{PACKAGE}/trials/baseline/README.md"
AROUND = f"src/{PACKAGE}/data.py"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Three seeds of an older code of the trial, then two of a newer one, not committed. Shared: copy it."""
    project = OwnSource(make_project(tmp_path_factory.mktemp("codes") / "myproj").root, PACKAGE)
    settings = ("conf/config.yaml", "trials/baseline/config.yaml", "trials/wide/config.yaml")
    write(project.root, {f"src/{PACKAGE}/{name}": "{}\n" for name in settings})
    for seed in range(3):
        settled(project, seed=seed, metrics={"test/loss": 9.0 + seed})
    write(project.root, {MODEL: "WIDTH = 2\n"})
    for seed in range(2):
        settled(project, seed=seed, metrics={"test/loss": 1.0 + seed})
    return project


@pytest.fixture
def project(trained, tmp_path):
    return work_on(OwnSource(copy_of(trained.root, tmp_path / "myproj"), PACKAGE))


def printed_table(project, capsys, *words):
    call(project, "runs table", "--by", "optimizer.lr", *words)
    output = capsys.readouterr()
    return [line.split() for line in output.out.splitlines()], output.err


def add_seeds_after(project, path, seeds=(2, 3)):
    """Runs of further seeds after an edit of a file."""
    write(project.root, {path: f"edited for seeds {seeds}\n"})
    for seed in seeds:
        settled(project, seed=seed, metrics={"test/loss": 1.0 + seed})


@pytest.mark.parametrize("is_cached", [False, True])
def test_each_code_of_a_trial_has_lines_of_its_own(project, capsys, monkeypatch, is_cached):
    if is_cached:
        monkeypatch.setattr(index, "MANY", 0)
        printed_table(project, capsys)  # writes the cache
    (head, new, old), told = printed_table(project, capsys)
    assert head == ["optimizer.lr", "own", "code", "test/loss", "n"]
    assert new[2:] == ["1.50", "±", "0.71", "2"]
    assert old[2:] == ["10.0", "±", "1.0", "3"], "its seeds 0 and 1 are no repetitions of the new"
    assert git(project.root, "cat-file", "-t", new[1]) == "commit"
    assert "these runs differ in own code: see its column" in told


def test_results_in_the_directory_of_a_trial_are_no_code(project, capsys):
    add_seeds_after(project, README)
    (_, new, old), _ = printed_table(project, capsys)
    assert (new[-1], old[-1]) == ("4", "3")


def test_code_around_the_trials_makes_a_line_of_its_own_and_that_of_others_does_not(
    project, capsys
):
    write(project.root, {f"src/{PACKAGE}/trials/wide/model.py": "OTHER = True\n"})
    settled(project, seed=2, metrics={"test/loss": 3.0})
    assert [line[-1] for line in printed_table(project, capsys)[0]] == ["n", "3", "3"]
    add_seeds_after(project, AROUND, seeds=(3,))
    lines, _ = printed_table(project, capsys)
    assert [line[-1] for line in lines] == ["n", "1", "3", "3"], "the newest first"


def test_any_edit_is_other_code_and_the_table_names_the_file_and_the_commit(project, capsys):
    """A docstring may be a prompt; an unrelated class in data.py tears no seeds apart unseen."""
    write(project.root, {MODEL: '"""The model."""\n\nWIDTH = 2\n'})
    edited = settled(project, seed=2, metrics={"test/loss": 3.0})
    lines, told = printed_table(project, capsys, "test/loss<5")
    assert [line[-1] for line in lines] == ["n", "1", "2"]
    commit = edited.record["code"]["commit"][:10]
    assert f"the code of trial baseline differs: {MODEL} since {commit}\n" in told
    assert "--same-code FILE" in told


@pytest.mark.parametrize("typed", [MODEL, "baseline/model.py", "model.py"])
def test_files_are_left_out_on_purpose_and_the_table_says_so(project, capsys, typed):
    table, told = printed_table(project, capsys, "--same-code", typed)
    assert [line[-1] for line in table[:2]] == ["n", "3"], "seeds 0, 1 of the newer code, and 2"
    assert " ".join(table[2]) == f"joined whatever these files were: {MODEL}"
    assert "left out: 2 older runs with the same settings and seed" in told
    for ending in ("md", "tex", "csv"):
        file = project.root / f"results.{ending}"
        call(project, "runs export", "--same-code", typed, "-o", file)
        assert f"joined whatever these files were: {MODEL}" in file.read_text(encoding="utf-8")


def test_a_file_of_same_code_is_one_that_the_runs_used(project, capsys):
    settled(project, seed=2, trial="wide", metrics={"test/loss": 3.0})
    with pytest.raises(LabError, match=r"none of these runs used such a file") as error:
        call(project, "runs table", "--same-code", "modle.py")
    assert MODEL in str(error.value)
    with pytest.raises(LabError, match=rf"several files end so.*{MODEL}, .*wide/model\.py"):
        call(project, "runs table", "--same-code", "model.py")


def test_a_file_of_another_trial_has_its_own_place(project, capsys):
    """R1b: trials/wide/model.py took the place of trials/baseline/model.py, and hid its edit."""
    other = MODEL.replace("baseline", "wide")
    used = [{MODEL: "1" * 40, other: "2" * 40}]
    used += [used[0] | {MODEL: "3" * 40}, used[0] | {other: "4" * 40}]
    rows = [
        {"run_dir": f"{n}", "trial": "baseline", "code_files": files, "code_commit": f"{n}" * 40}
        for n, files in enumerate(used)
    ]
    assert len(set(code_of_rows(rows).values())) == 3


def test_the_directory_of_a_renamed_trial_is_compared_under_its_name_of_today(project):
    new = MODEL.replace("baseline", "wide")
    line = "- 2026-11-20 renamed `baseline` to `wide`\n"
    write(project.root, {f"src/{PACKAGE}/trials/TRIALS.md": line, "TRIALS.md": line})
    rows = [
        {"run_dir": path, "trial": "wide", "code_files": {path: "1" * 40}, "code_commit": "2" * 40}
        for path in (MODEL, new)
    ]
    (project.root / MODEL).unlink()
    for file in (project.root / MODEL).parent.iterdir():
        file.unlink()
    (project.root / MODEL).parent.rmdir()
    assert len(set(code_of_rows(rows).values())) == 1


def test_the_named_code_is_what_the_line_used(project, capsys):
    """Another line of the table has a newer commit with the same trial."""
    add_seeds_after(project, AROUND, seeds=(2,))
    (_, *lines), _ = printed_table(project, capsys)
    for line in lines:
        model = git(project.root, "show", f"{line[1]}:{MODEL}")
        around = git(project.root, "ls-tree", "--name-only", line[1], AROUND)
        assert (model == "WIDTH = 2") == (line[2] != "10.0")
        assert bool(around) == (line[-1] == "1")


def test_one_code_needs_no_column(project, capsys):
    lines, told = printed_table(project, capsys, "test/loss<5")
    assert lines[0] == ["optimizer.lr", "test/loss", "n"]
    assert told == ""


def test_export_tells_codes_apart(project):
    file = project.root / "results.csv"
    call(project, "runs export", "-o", file)
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert [row["test/loss n"] for row in rows] == ["2", "3"]
    assert len({row["own code"] for row in rows}) == 2
    assert [row["trial"] for row in rows] == ["baseline", "baseline"]


def test_the_report_averages_no_two_codes(project, capsys):
    call(project, "report")
    assert table_of(page_of(project))["seed_groups"] == [0, 0, 1, 1, 1]


def test_of_runs_whose_files_were_not_noted_the_commits_are_compared(project, capsys):
    for path in project.root.glob("runs/baseline/*/summary.json"):
        summary = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(summary | {"code_files": None}), encoding="utf-8")
    lines, told = printed_table(project, capsys)
    assert [line[-1] for line in lines] == ["n", "2", "3"]
    assert (
        "which files 5 runs of trial baseline used was not recorded: the commit is compared" in told
    )
