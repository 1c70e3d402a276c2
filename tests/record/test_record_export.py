"""`lab runs export`: tables for a paper."""

import csv
import re

import pytest
from labrig.errors import LabError
from record_package import call, make_project
from report_runs import settled


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Three seeds of two learning rates, one run that failed, one of another trial."""
    project = make_project(tmp_path_factory.mktemp("export") / "myproj")
    for lr in (0.1, 0.001):
        for seed in range(3):
            loss = lr + seed / 100 + (lr == 0.1) * seed**2 / 10_000
            settled(project, lr=lr, seed=seed, metrics={"test/loss": loss, "test/acc_%": 1 - loss})
    settled(project, lr=0.1, seed=4, status="failed", metrics={"test/loss": 99.0})
    settled(project, lr=0.1, trial="wide", metrics={"test/loss": 0.05})
    return project


def export(project, name, *args):
    call(project, "runs export", *args, "-o", project.root / name)
    return (project.root / name).read_text(encoding="utf-8")


def test_markdown_has_the_best_in_bold_and_names_the_runs(project):
    lines = export(project, "results.md").splitlines()
    assert lines[0] == "| trial | lr | test/loss | test/acc_% | n |"
    assert lines[2:5] == [
        "| baseline | 0.001 | 0.011 ± 0.010 | 0.989 ± 0.010 | 3 |",
        "| baseline | 0.1 | 0.110 ± 0.010 | 0.890 ± 0.010 | 3 |",
        "| wide | 0.1 | 0.05 | - | 1 |",
    ], "one line has fewer runs, so none is the best"
    lines = export(project, "results.md", "trial=baseline").splitlines()
    assert lines[2] == "| baseline | 0.001 | **0.011 ± 0.010** | **0.989 ± 0.010** | 3 |"
    assert sum(len(line.split()) - 2 for line in lines if line.startswith("line ")) == 6


def test_latex_is_escaped_and_bold(project):
    text = export(project, "results.tex", "trial=baseline", "--by", "optimizer.lr")
    assert r"lr & {test/loss} & {test/acc\_\%} & {n} \\" in text
    assert r"0.001 & \bfseries 0.011 +- 0.010 & \bfseries 0.989 +- 0.010 & 3 \\" in text
    numbers = "S[table-format=1.3(2)]"
    assert rf"\begin{{tabular}}{{l{numbers}{numbers}S[table-format=1]}}" in text
    assert [line for line in text.splitlines() if "rule" in line] == [
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
    ]
    assert "\n% line 1: 2" in text


def test_what_is_said_of_a_table_is_in_its_file_and_on_the_screen(project, capsys):
    text = export(project, "results.tex")
    said = "left out: 1 unfinished run; status=... takes others"
    assert f"% {said}\n" in text
    assert f"lab: {said}" in capsys.readouterr().err
    assert said in export(project, "results.md").partition("<!--")[2]
    rows = csv.DictReader(export(project, "results.csv").splitlines())
    assert {row["remarks"] for row in rows} == {said}


def test_csv_has_whole_numbers(project):
    rows = list(csv.DictReader(export(project, "results.csv").splitlines()))
    assert [row["optimizer.lr"] for row in rows] == ["0.001", "0.1", "0.1"]
    assert float(rows[0]["test/loss mean"]) == pytest.approx(0.011)
    assert float(rows[0]["test/loss sd"]) == pytest.approx(0.01)
    assert (rows[2]["test/loss n"], rows[2]["test/loss sd"]) == ("1", "")
    assert [len(row["runs"].split()) for row in rows] == [3, 3, 1]


def test_mistakes_are_reported_and_leave_the_file(project, capsys):
    (project.root / "kept.md").write_text("mine")
    with pytest.raises(LabError, match="expected a name"):
        export(project, "results.pdf")
    with pytest.raises(LabError, match="mean: test"):
        export(project, "kept.md", "--metric", "test/los")
    with pytest.raises(LabError, match="no run has a metric or setting 'widht'"):
        export(project, "kept.md", "--by", "widht")
    assert export(project, "kept.md", "trial=none") == "mine"
    assert re.fullmatch(r"none of 8 runs\n.*kept.md was not written\n", capsys.readouterr().out)
