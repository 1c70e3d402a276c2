"""What a table of means says: which rows, which of them are better, and in how many digits."""

import csv
import json
import re

import pytest
import test_experiments
from labrig.errors import LabError
from labrig.machine.text_formats import format_deviation
from labrig.trials.result import result_table
from record_package import call
from test_experiments import printed

repository = test_experiments.repository
project = test_experiments.project
made = test_experiments.made


def test_the_best_is_not_bold_on_other_data(project, made):
    for seed in range(3):
        made(seed, metrics={"test/loss": 1.0 + seed})
        made(seed, data_sha256="b" * 64, metrics={"test/loss": 5.0 + 1.01 * seed})
    file = project.root / "results.md"
    call(project, "runs export", "-o", file)
    assert "**" not in file.read_text()
    assert "no t-test: the lines differ in data" in file.read_text()


def test_a_part_of_a_split_is_not_compared_with_all_of_it(project, made, capsys):
    for seed in range(3):
        made(seed, metrics={"val/loss": 1.0 + seed})
        made(seed, trainer={"limit_val_batches": 1}, metrics={"val/loss": 5.0 + 1.01 * seed})
    call(project, "runs table", "--md")
    printed = capsys.readouterr()
    assert "**" not in printed.out
    assert "no t-test of val/loss: 0 seeds in common on the same samples" in printed.err


def test_folds_show_the_rows_that_were_held_out(project, made, capsys):
    for fold in range(3):
        made(
            0,
            data={"folds": 3, "fold": fold},
            metrics={"val/acc": 0.4 + 0.1 * fold, "test/acc": 0.9},
        )
    (header, line), _ = printed(project, capsys, "--over", "fold")
    assert header == ["trial", "val/acc", "n"]
    assert line == ["baseline", "0.50", "±", "0.10", "3"]
    call(project, "runs table", "--over", "data.fold", "--metric", "test/acc")
    assert "test/acc: the same samples in every fold" in capsys.readouterr().err


def test_folds_that_count_more_often_than_others_are_told(project, made, capsys):
    for fold, seed in ((0, 0), (1, 0), (2, 0), (0, 4)):
        metrics = {"val/acc": 0.4 + 0.1 * fold + seed}
        made(seed, data={"folds": 3, "fold": fold}, metrics=metrics)
    _, said = printed(project, capsys, "--over", "fold")
    assert "do not count alike in the mean, missing: fold 1 of seed 4, fold 2 of seed 4." in said
    _, said = printed(project, capsys, "--over", "fold", "seed!=4")
    assert "count alike" not in said


def amend(project, run_id, **facts):
    """Has the summary of a run say something else."""
    (file,) = project.root.glob(f"runs/*/{run_id}/summary.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


def test_what_a_script_parsed_tells_runs_apart(project, made, capsys):
    parsed = {"lr": 0.7, "out": "/out", "seed": 0}
    amend(project, made(0), parsed=parsed)
    amend(project, made(1), parsed=parsed | {"seed": 1})
    amend(project, made(2), parsed=parsed | {"lr": 0.1, "seed": 2})
    (head, *lines), _ = printed(project, capsys)
    assert head == ["trial", "args.lr", "test/loss", "n"]
    assert [(line[1], line[-1]) for line in lines] == [("0.1", "1"), ("0.7", "2")]
    assert len(printed(project, capsys, "args.lr=0.1")[0]) == 2


def test_args_of_a_damaged_record_break_no_table(project, made, capsys):
    amend(project, made(0), parsed={"lr": 0.7}, settings={"args": "lr"})
    (head, *lines), _ = printed(project, capsys)
    assert (head, len(lines)) == (["trial", "test/loss", "n"], 1)


def test_settings_have_as_many_digits_as_tell_them_apart(project, made, capsys):
    for lr in (0.001, 0.00100000001):
        made(0, lr=lr)
    (head, *lines), _ = printed(project, capsys)
    assert head == ["trial", "optimizer.lr", "test/loss", "n"]
    assert [line[1] for line in lines] == ["0.001", "0.00100000001"]


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_a_metric_that_is_not_finite_is_shown(project, made, capsys, value):
    made(0, metrics={"test/loss": value})
    made(1, metrics={"test/loss": 1.0})
    (_, line), _ = printed(project, capsys, "--ci")
    assert line == ["baseline", value, "2"]
    file = project.root / "results.csv"
    call(project, "runs export", "-o", file)
    (of_csv,) = csv.DictReader(file.read_text().splitlines())
    assert [of_csv[f"test/loss {what}"] for what in ("mean", "sd", "n")] == [value, "", "2"]
    n_found = len(printed(project, capsys, "test/loss>0")[0]) - 1
    assert n_found == 1
    assert printed(project, capsys, "test/loss>0")[0][1][-1] == ("2" if value == "inf" else "1")


def test_a_filter_by_no_number_is_refused(project, made):
    made(0)
    with pytest.raises(LabError, match="< compares numbers; write one, not 'nan'"):
        call(project, "runs table", "test/loss<nan")


def test_why_there_is_no_t_test_is_said(project, made, capsys):
    for seed in range(2):
        made(seed, metrics={"test/loss": 1.0 + seed})
        made(seed + 1, trial="wide", metrics={"test/loss": 2.0 + seed})
    call(project, "runs table")
    assert (
        "no t-test of test/loss: 1 seed in common on the same samples, 3 are needed"
        in capsys.readouterr().err
    )


def test_without_scipy_a_table_has_no_test_and_says_so(project, made, capsys, monkeypatch):
    for seed in range(3):
        made(seed, metrics={"test/loss": 1.0 + seed})
        made(seed, trial="wide", metrics={"test/loss": 2.0 + 1.01 * seed})
    monkeypatch.setattr("labrig.record.compare.table.find_spec", lambda name: None)
    monkeypatch.setattr("labrig.errors.find_spec", lambda name: None)
    call(project, "runs table", "--md")
    output = capsys.readouterr()
    assert "2.0 ± 1.0" in output.out
    assert "**" not in output.out
    assert "no t-test: it needs the package scipy: make add PACKAGE=scipy" in output.err
    with pytest.raises(LabError, match=r"--ci needs the package scipy: make add PACKAGE=scipy"):
        call(project, "runs table", "--ci")


BOLD = re.compile(r"\*\*|\\bfseries ")
CELL = re.compile(
    r"(?:\*\*|\\bfseries )?-?[\d.]+(?:e[-+]\d+)? ?(?:±|\+-|\$\\pm\$) ?[\d.]+(?:e[-+]\d+)?"
)


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        (([0.9, 0.91, 0.92], [0.5, 0.511, 0.519]), {"**0.910 ± 0.010", "0.5100 ± 0.0095"}),
        (([0.9, 0.91, 0.92], [0.9, 0.912, 0.919]), {"0.910 ± 0.010", "0.9103 ± 0.0096"}),
        (([0.01, -0.01, -0.0001], [0.3, 0.3, 0.3]), {"0.000 ± 0.010", "**0.3 ± 0"}),
        (
            ([0.99996, 0.99996 + 2e-9, 0.99996], [0.1, 0.2, 0.4]),
            {"**0.99996 ± 1e-09", "0.23 ± 0.15"},
        ),
    ],
)
def test_all_tables_have_the_same_digits_and_bold(project, made, capsys, values, cells):
    """A t-test tells all pairs apart but the second."""
    for lr, of_line in zip((0.1, 0.2), values, strict=True):
        for seed, value in enumerate(of_line):
            made(seed, lr=lr, metrics={"test/acc": value})
    texts = [result_table(project, "baseline", "test/acc")]
    for ending in ("md", "tex"):
        call(project, "runs export", "-o", file := project.root / f"all.{ending}")
        texts.append(file.read_text().partition("<!--")[0])
    capsys.readouterr()
    for words in (["--md"], ["--latex"], []):
        call(project, "runs table", *words)
        texts.append(capsys.readouterr().out)
    for text in texts:
        assert r"\bfseries {" not in text, "siunitx wants braces around the whole"
        lines = [line for line in text.splitlines() if not line.startswith(("%", "test/acc: "))]
        found = {BOLD.sub("**", cell) for cell in CELL.findall("\n".join(lines))}
        found = {re.sub(r" ?(\+-|\$\\pm\$) ?", " ± ", cell) for cell in found}
        is_plain = text == texts[-1]
        assert found == {cell.replace("**", "") if is_plain else cell for cell in cells}


def test_numbers_are_rounded_by_their_deviation_to_what_single_precision_holds():
    assert format_deviation(0.99996, 1e-9) == "0.99996 ± 1e-09"
    assert format_deviation(-0.0001, 0.01) == "0.000 ± 0.010"
    assert format_deviation(0.9512, 0.0031) == "0.9512 ± 0.0031"
