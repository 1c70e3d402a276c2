"""`lab runs export`: tables for a paper."""

import csv

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
            loss = lr + seed / 100
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
        "| baseline | 0.001 | **0.011 ± 0.010** | **0.989 ± 0.010** | 3 |",
        "| baseline | 0.1 | 0.110 ± 0.010 | 0.890 ± 0.010 | 3 |",
        "| wide | 0.1 | 0.05 | - | 1 |",
    ]
    assert sum(len(line.split()) - 2 for line in lines if line.startswith("line ")) == 7


def test_latex_is_escaped_and_bold(project):
    text = export(project, "results.tex", "trial=baseline", "--by", "optimizer.lr")
    assert r"lr & test/loss & test/acc\_\% & n \\" in text
    assert r"0.001 & \textbf{0.011 $\pm$ 0.010} & \textbf{0.989 $\pm$ 0.010} & 3 \\" in text
    assert text.startswith("% line 1: 2")


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
    with pytest.raises(LabError, match="mean: optimizer"):
        export(project, "kept.md", "--by", "lr")
    assert export(project, "kept.md", "trial=none") == "mine"
    assert "none of 8 runs" in capsys.readouterr().out
