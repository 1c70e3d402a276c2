"""`lab trials tree` and `result`: the numbers of trials from their runs."""

import json
import re
from shutil import copytree

import pytest
from projects import PROJECT, call, equip
from repositories import commit, git
from trial_runs import add_run, replace_in, trial_folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with three trials. Tests add trials and runs of their own, and take nothing away."""
    folder = equip(copytree(PROJECT, tmp_path_factory.mktemp("tree") / "myproj"))
    for name in ("wide", "deep", "thin"):
        call(
            folder,
            "lab",
            "trials",
            "new",
            name,
            "--no-check",
            "-m",
            f"Is {name} better?",
            cold=True,
        )
    commit(folder, "trials")
    for seed, loss in enumerate((0.5, 0.3, 0.4)):
        add_run(folder, "baseline", seed, loss)
    add_run(folder, "baseline", 0, 0.9, lr=0.2)
    add_run(folder, "baseline", 0, 0.1, status="failed")
    add_run(folder, "wide/low", 0, 0.7, monitor="test/score", mode="max", **{"test/score": 3.0})
    add_run(folder, "wide/low", 1, 0.6, monitor="test/score", mode="max", **{"test/score": 5.0})
    verdict = "**Verdict.** Wider is better, and costs twice as much; " + 20 * "so it goes on "
    replace_in(trial_folder(folder, "wide") / "README.md", "**Verdict.** Open.", verdict)
    return folder


def tree(folder, *options):
    return {
        row["name"]: row
        for row in json.loads(call(folder, "lab", "trials", "tree", "--json", *options))
    }


def test_the_tree_fits_80_columns(made):
    lines = call(made, "lab", "trials", "tree").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[:5] == ["trial,", "by", "val/loss", "status", "runs"]
    baseline = next(line for line in lines if line.startswith("baseline"))
    # The newest run failed; the best of the finished ones, and all seeds with its settings
    assert re.fullmatch(r"baseline +failed +5 +0\.3 +0\.40 ± 0\.10 \(3\) +0\.0 +now", baseline)
    assert any(re.fullmatch(r"├─ deep +no runs", line) for line in lines)
    place = next(n for n, line in enumerate(lines) if line.startswith("└─ wide"))
    assert lines[place + 1].startswith("     by test/score · Wider is better")
    assert lines[place + 1].endswith("…")


def test_each_trial_has_its_own_metric(made):
    rows = tree(made)
    assert (rows["baseline"]["metric"], rows["baseline"]["best"]) == ("val/loss", 0.3)
    assert (rows["wide"]["metric"], rows["wide"]["best"]) == ("test/score", 5.0)
    assert (rows["wide"]["mean"], rows["wide"]["n_seeds"], rows["wide"]["n_runs"]) == (4.0, 2, 2)
    assert rows["wide"]["parent"] == "baseline"
    assert rows["wide"]["question"] == "Is wide better?"
    assert tree(made, "--metric", "val/loss")["wide"]["best"] == 0.6
    unknown = call(made, "lab", "trials", "tree", "--metric", "val/los", rc=2)
    assert "no run has the metric 'val/los'; did you mean: val/loss" in unknown


@pytest.mark.slow
def test_runs_of_other_code_are_not_averaged(made):
    """An edited README is no other code."""
    for seed, loss in ((0, 0.8), (1, 0.4)):
        add_run(made, "thin", seed, loss)
        readme = trial_folder(made, "thin") / "README.md"
        readme.write_text(readme.read_text() + "\nA note.\n")
    assert (tree(made)["thin"]["mean"], tree(made)["thin"]["n_seeds"]) == (pytest.approx(0.6), 2)
    replace_in(trial_folder(made, "thin") / "model.py", "Dropout(0.2)", "Dropout(0.3)")
    add_run(made, "thin", 2, 0.2)
    thin = tree(made)["thin"]
    assert (thin["best"], thin["mean"], thin["sd"], thin["n_seeds"]) == (0.2, 0.2, None, 1)


@pytest.mark.slow
def test_the_tree_says_whose_weights_a_trial_started_from(own_project):
    source = add_run(own_project, "baseline", 0, 0.9)
    assert "weights" not in call(own_project, "lab", "trials", "tree")
    run = add_run(own_project, "baseline", 0, 0.5, init_from=f"{source.id}:last")
    output = call(own_project, "lab", "trials", "tree")
    assert f"weights of {source.id} (baseline)" in output
    assert tree(own_project)["baseline"]["best_run"] == run.id


def result(folder, name, *options, rc=0):
    return call(folder, "lab", "trials", "result", name, *options, rc=rc)


def test_result_writes_the_table(made):
    readme = trial_folder(made, "baseline") / "README.md"
    before = readme.read_text()
    output = result(made, "baseline")
    assert "of 5 runs left out: 1 not finished\n" in output
    text = readme.read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    commits = re.findall(r"\b[0-9a-f]{10}\b", text)
    assert lines[0] == "| settings | val/loss | n | commit | GPU-hours |"
    assert lines[2:] == [
        f"| lr=0.1 | 0.40 ± 0.10 | 3 | {commits[0]} | 0.00 |",
        f"| lr=0.2 | 0.9 | 1 | {commits[0]} | 0.00 |",
    ]
    assert git(made, "cat-file", "-t", commits[0]) == "commit"
    result(made, "baseline")
    assert readme.read_text() == text, "the same runs give the same text"
    for paragraph in before.split("<!--")[0], before.split("-->")[-1]:
        assert paragraph in text, "what is outside of the marks stays"


@pytest.mark.slow
def test_result_marks_runs_of_other_code(own_project):
    add_run(own_project, "baseline", 0, 0.5)
    replace_in(
        trial_folder(own_project, "baseline") / "model.py", "nn.Dropout(0.2)", "nn.Dropout(0.5)"
    )
    add_run(own_project, "baseline", 1, 0.7)
    output = result(own_project, "baseline")
    first, second = [line for line in output.splitlines() if line.startswith("| 0.")]
    assert first.startswith("| 0.5 | 1 |")
    assert r" \* |" in first
    assert second.startswith("| 0.7 | 1 |")
    assert r"\*" not in second
    assert r"\* The code, or the settings files of the trial, were others than today's." in output


@pytest.mark.slow
def test_result_marks_other_settings_files_of_the_trial(own_project):
    settings = trial_folder(own_project, "baseline") / "config.yaml"
    add_run(own_project, "baseline", 0, 0.5)
    assert r"\*" not in result(own_project, "baseline")
    replace_in(settings, "width: 32", "width: 16")
    assert r" \* |" in result(own_project, "baseline")


@pytest.mark.slow
def test_result_averages_no_two_codes_around_the_trials(own_project):
    add_run(own_project, "baseline", 0, 0.5)
    add_run(own_project, "baseline", 1, 0.7)
    data = own_project / "src/myproj/data.py"
    data.write_text(data.read_text() + "EDITED = True\n")
    add_run(own_project, "baseline", 3, 0.1)
    output = result(own_project, "baseline")
    assert "| 0.1 | 1 |" in output
    assert re.search(r"\| 0\.60 ± 0\.14 \| 2 \|", output)
    assert output.count(r" \* |") == 1, "the older code"
    assert "the code of trial baseline differs: src/myproj/data.py since " in output


@pytest.mark.slow
def test_result_finds_its_place_in_a_readme_without_marks(own_project):
    add_run(own_project, "baseline", 0, 0.5)
    readme = trial_folder(own_project, "baseline") / "README.md"
    old = "# x\n\n**Numbers.** By hand.\n\n**Verdict.** Good.\n"
    readme.write_text(old)
    result(own_project, "baseline")
    text = readme.read_text()
    assert text.startswith("# x\n\n**Numbers.** By hand.\n\n<!-- numbers: written by")
    assert text.endswith("<!-- end of numbers -->\n\n**Verdict.** Good.\n")
    readme.write_text(text.replace("<!-- end of numbers -->\n", ""))
    assert "one of the two marks" in result(own_project, "baseline", rc=2)


@pytest.mark.slow
def test_result_counts_what_it_leaves_out_by_reason(own_project):
    add_run(own_project, "baseline", 0, 0.5, **{"test/score": 3.0})
    for seed in (1, 2):
        add_run(own_project, "baseline", seed, 0.4)
    add_run(own_project, "baseline", 3, 0.1, status="failed")
    output = result(own_project, "baseline", "--metric", "test/score:max")
    assert "of 4 runs left out: 1 not finished, 2 without test/score\n" in output


def test_result_says_what_is_missing(made):
    assert "did you mean: wide" in result(made, "wid", rc=2)
    output = result(made, "baseline", "--metric", "test/acc", rc=2)
    assert "has 'test/acc'. Choose another with --metric: val/loss" in output
