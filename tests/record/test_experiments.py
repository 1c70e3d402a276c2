"""No mean joins runs that differ in more than their seed, and what differs is a column."""

import csv
import json
import random
import re
import shutil
from functools import cache
from hashlib import sha1
from itertools import count

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis import given
from labrig.record.compare.experiments import group_experiments
from labrig.record.files.atomic import read_advisory
from labrig.record.read.fields import FIELDS
from labrig.record.read.rows import read_row, read_rows
from labrig.record.read.settings import list_differences
from labrig.record.write.begin import begin_attempt
from labrig.trials.numbers import number_trials
from projects import work_on
from record_package import PACKAGE, call, create, make_project, train
from report_page import page_of, table_of
from report_runs import OwnSource, settled
from repositories import git, write

N_RUNS = 40
# What may differ between two runs, with the values that it takes. A run's metric tells all of them.
FACTORS = {
    "lr": (0.1, 0.2),
    "max_epochs": (3, 5),
    "data_sha256": ("a" * 64, "b" * 64),
    "val_rows": (None, "c" * 64, "d" * 64),
    "code": ("WIDTH = 1\n", "WIDTH = 2\n"),
    "weights": (None, "e" * 64),
    "tested": ("last", "best"),
    "samples_per_step": (64, 128),  # as of another number of processes
    "changes": ((), ("attempt 2 has trainer.max_epochs=5",)),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A project with one run, whose summary the others are made from."""
    project = OwnSource(make_project(tmp_path_factory.mktemp("experiments") / "a").root, PACKAGE)
    settings = ("conf/config.yaml", "trials/baseline/config.yaml", "trials/wide/config.yaml")
    write(project.root, {f"src/{PACKAGE}/{name}": "{}\n" for name in settings})
    summary = read_advisory(settled(project).dir / "summary.json")
    return project, summary


@pytest.fixture
def project(repository):
    """The project without runs."""
    project, _ = repository
    shutil.rmtree(project.root / "runs", ignore_errors=True)
    return work_on(project)


@pytest.fixture
def made(project, repository):
    """made(seed, trial, metrics, ...): the id of a new run that was made by these facts.

    Of FACTORS that are not named it has the first value.
    """
    numbers = count(1)

    def make(
        seed=0, trial="baseline", metrics=None, status="finished", data=None, commit=None, **facts
    ):
        trainer = facts.pop("trainer", {})
        chosen = {name: values[0] for name, values in FACTORS.items()} | facts
        code = {f"src/{PACKAGE}/trials/{trial}/model.py": blob_of(project, chosen["code"])}
        _, usual = repository
        n = next(numbers)
        row = row_of(n, seed, chosen) | {"code_files": code, "code_commit": commit}
        row |= {"trial": trial, "status": status}
        row["run_id"] = f"20261124-120000-{n:06x}"
        row["settings"]["data"] |= data or {}
        row["settings"]["trainer"] |= trainer
        row["metrics"] = metrics or {"test/loss": float(n)}
        kept = {key: value for key, value in row.items() if value is not None}
        folder = project.root / "runs" / trial / row["run_id"]
        write(folder, {"summary.json": json.dumps(usual | kept | {"order_unix_ms": n})})
        return row["run_id"]

    return make


@cache
def blob_of(project, source):
    return git(project.root, "hash-object", "-w", "--stdin", stdin=source)


def printed(project, capsys, *words):
    capsys.readouterr()
    call(project, "runs table", *words)
    output = capsys.readouterr()
    return [line.split() for line in output.out.splitlines()], output.err


def lines_of_csv(project, *words):
    """What tells each line apart that `lab runs export` writes, its runs, and their mean."""
    file = project.root / "results.csv"
    call(project, "runs export", *words, "-o", file)
    head, *lines = csv.reader(file.read_text(encoding="utf-8").splitlines())
    place = head.index("test/loss mean")
    runs = head.index("runs")
    return [(tuple(line[:place]), line[runs].split(), float(line[place])) for line in lines]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 2), *(st.sampled_from(values) for values in FACTORS.values())),
        max_size=12,
    )
)
@hypothesis.settings(max_examples=100, deadline=None)
def test_an_experiment_is_of_runs_that_differ_in_their_seed_only(made_by):
    rows = [
        row_of(n, seed, dict(zip(FACTORS, facts, strict=True)))
        for n, (seed, *facts) in enumerate(made_by)
    ]
    experiments = group_experiments(rows)
    assert len(experiments) == len({tuple(facts) for _, *facts in made_by})
    for experiment in experiments:
        members = [made_by[int(row["run_dir"])] for row in (*experiment.rows, *experiment.older)]
        assert len({tuple(facts) for _, *facts in members}) == 1
        assert sorted(row["seed"] for row in experiment.rows) == sorted(
            {seed for seed, *_ in members}
        )


def test_runs_that_read_in_blocks_are_no_repetition_of_others():
    """data.order=auto chooses the order by the memory of the job, so no setting tells them apart."""
    facts = {name: values[0] for name, values in FACTORS.items()} | {"data_sha256": "a" * 64}
    rows = [row_of(n, n, facts) for n in range(4)]
    for row in rows[2:]:
        row["data"]["order"] = "blocks"
    experiments = group_experiments(rows)
    assert [[row["seed"] for row in each.rows] for each in experiments] == [[0, 1], [2, 3]]
    assert "order blocks" in experiments[1].made_by.values()


def row_of(n, seed, facts):
    """A finished run as a list of runs has it."""
    row = dict.fromkeys(field.name for field in FIELDS)
    rows_of_splits = {"val": facts["val_rows"]} if facts["val_rows"] else {}
    return row | {
        "run_dir": str(n),
        "run_id": str(n),
        "trial": "baseline",
        "status": "finished",
        "seed": seed,
        "settings": {
            "seed": seed,
            "optimizer": {"lr": facts["lr"]},
            "trainer": {"max_epochs": facts["max_epochs"]},
            "checkpoint": {"monitor": "val/loss", "mode": "min"},
            "data": {"seed": seed},
        },
        "data": {"sha256": facts["data_sha256"], "rows": rows_of_splits}
        if facts["data_sha256"]
        else None,
        "code_files": {f"src/{PACKAGE}/data.py": sha1(facts["code"].encode()).hexdigest()},
        "init_from": {"sha256": facts["weights"]} if facts["weights"] else None,
        "tested_weights": facts["tested"],
        "resolved": {"samples_per_step": facts["samples_per_step"], "precision": "32-true"},
        "changes": list(facts["changes"]),
        "metrics": {"test/loss": float(n)},
    }


@pytest.mark.parametrize("chance", range(5))
def test_no_printed_mean_joins_runs_that_differ_in_more_than_the_seed(
    project, made, capsys, chance
):
    """For random sets of runs, in the table, the export, the tree and the curves of the report."""
    choose = random.Random(chance)
    made_by = {}
    for n in range(N_RUNS):
        facts = {name: choose.choice(values) for name, values in FACTORS.items()}
        few = choose.sample(sorted(facts), 5)  # so that some runs do repeat others
        facts |= {name: FACTORS[name][0] for name in few}
        seed = choose.randrange(4)
        trial = choose.choice(("baseline", "wide"))
        run_id = made(seed, trial, {"test/loss": 2.0**n}, **facts)
        made_by[run_id] = (trial, *facts.values())
    losses = {run_id: 2.0**n for n, run_id in enumerate(made_by)}  # a sum tells its runs
    for words in ((), ("--by", "optimizer.lr"), ("--by", "trial"), ("trial=baseline",)):
        lines = lines_of_csv(project, *words)
        for _, runs, mean in lines:
            assert len({made_by[run] for run in runs}) == 1, words
            assert mean == pytest.approx(sum(losses[run] for run in runs) / len(runs))
        assert len({names for names, *_ in lines}) == len(lines), "each line is told apart"
        if "trial=baseline" not in words:
            assert len(lines) == len(set(made_by.values()))
            means = sorted(f"{mean:.4g}" for _, runs, mean in lines if len(runs) == 1)
            shown = [
                line[-2] for line in printed(project, capsys, *words)[0][1:] if line[-1] == "1"
            ]
            assert sorted(shown) == means, "the table has the same lines"
    rows = read_rows([project.root / "runs"])
    for numbers in number_trials(project, rows, ["baseline", "wide"], "test/loss").values():
        of_best = [row for row in rows if made_by[row["run_id"]] == made_by[numbers.best_run]]
        newest = {row["seed"]: losses[row["run_id"]] for row in reversed(of_best)}
        assert numbers.mean == pytest.approx(sum(newest.values()) / len(newest))
        assert numbers.n_seeds == len(newest)
    call(project, "report")
    report = table_of(page_of(project))
    of_group = {}
    for run, group in zip(report["rows"]["run_id"], report["seed_groups"], strict=True):
        assert of_group.setdefault(group, made_by[run]) == made_by[run]


def test_a_share_and_a_number_are_two_settings(project, made, capsys):
    """For Lightning 1 is one batch, and 1.0 all of them."""
    for seed, limit in enumerate((1, 1.0, 1.0)):
        made(seed, data={"limit": limit})
    (head, *lines), _ = printed(project, capsys)
    assert " ".join(head) == "trial data.limit test/loss n"
    assert sorted((line[1], line[-1]) for line in lines) == [("1", "1"), ("1.0", "2")]
    assert list_differences({"limit": 1}, {"limit": 1.0}) == ["limit: 1 -> 1.0"]


@pytest.mark.parametrize(
    ("factor", "value", "column"),
    [
        ("max_epochs", 5, "trainer.max_epochs"),
        ("data_sha256", "b" * 64, "data"),
        ("val_rows", "c" * 64, "samples"),
        ("code", "WIDTH = 2\n", "own code"),
        ("weights", "e" * 64, "started from"),
        ("tested", "best", "tested weights"),
        ("samples_per_step", 128, "samples per step"),
        ("changes", ("attempt 2 has data.x=1",), "attempts"),
    ],
)
def test_what_differs_is_a_column_and_said(project, made, capsys, factor, value, column):
    """new-user-3, 14: 395 next to 396 samples, 3 epochs next to 5."""
    for seed in range(3):
        made(seed, metrics={"test/loss": 1.0 + seed})
    for seed in range(3, 5):
        made(seed, metrics={"test/loss": 100.0 + seed}, **{factor: value})
    (head, *lines), told = printed(project, capsys, "--by", "optimizer.lr")
    assert " ".join(head) == f"optimizer.lr {column} test/loss n"
    if factor == "code":
        assert [line[1] for line in lines] == ["1:", "2:"], "two codes of one commit"
    assert sorted(line[-4:] for line in lines) == [
        ["103.50", "±", "0.71", "2"],
        ["2.0", "±", "1.0", "3"],
    ]
    assert column in told
    for ending in ("tex", "md", "csv"):
        file = project.root / f"results.{ending}"
        call(project, "runs export", "--by", "optimizer.lr", "-o", file)
        assert column in file.read_text()


def test_another_commit_with_the_same_code_is_not_called_other_code(project, made, capsys):
    """new-user-5: other data after an edit of the README."""
    for seed in range(2):
        made(seed, commit="1" * 40)
        made(seed, commit="2" * 40, data_sha256="b" * 64)
    (head, *_), told = printed(project, capsys)
    assert head == ["trial", "data", "test/loss", "n"]
    assert told.splitlines()[0] == "lab: these runs differ in data: see its column"
    assert "code" not in told
    made(2, commit="3" * 40, code="WIDTH = 2\n")
    (_, *lines), _ = printed(project, capsys)
    assert [line[1:3] for line in lines] == [
        ["1:", "3333333333"],
        ["2:", "2222222222"],
        ["2:", "1111111111"],
    ]


def test_a_setting_that_equals_the_seed_is_a_column_all_the_same(project, made, capsys):
    made(1, data={"size": 1})
    made(2, data={"size": 2})
    assert printed(project, capsys)[0][0] == ["trial", "data.size", "test/loss", "n"]


@pytest.mark.parametrize(
    "hostile",
    [
        {"data": {"sha256": 5}},
        {"data": {"sha256": "a", "rows": ["b"]}},
        {"data": {"sha256": "a", "rows": {"val": {}}}},
        {"code_files": {"a.py": 5}},
        {"init_from": {"sha256": []}},
        {"changes": [{}]},
    ],
)
def test_a_record_of_other_types_is_damaged_and_hides_no_other_run(project, made, capsys, hostile):
    made(0)
    path = next(project.root.glob("runs/*/*/summary.json"))
    made(1)
    path.write_text(json.dumps(read_advisory(path) | hostile))
    lines, _ = printed(project, capsys)
    assert [line[-1] for line in lines] == ["n", "1"]
    call(project, "runs list")
    assert "its record cannot be read: in summary.json, " in capsys.readouterr().err


def test_of_runs_that_did_not_finish_none_is_averaged(project, made, capsys):
    for seed in range(2):
        made(seed, metrics={"test/loss": 1.0}, status="failed")
    (head, *lines), _ = printed(project, capsys, "status=failed")
    assert [line[-1] for line in lines] == ["1", "1"]
    assert "run" in head


def test_a_seed_of_the_data_counts_as_one_when_it_follows_or_never_changes(project, made):
    for seed in range(3):
        made(seed, data={"seed": seed})
    for seed in range(1, 3):
        made(seed, data={"seed": 9})
    rows = read_rows([project.root / "runs"])
    assert [len(each.rows) for each in group_experiments(rows)] == [2, 3]
    fixed = [row for row in rows if row["settings"]["data"]["seed"] == 9]
    (experiment,) = group_experiments(fixed)
    assert len(experiment.rows) == 2
    assert {each.made_by["data.seed"] for each in group_experiments(rows)} == {
        "${seed}",
        "9",
    }


def test_equal_results_of_other_seeds_are_told(project, made, capsys):
    """new-user-2: 0.7612 twice, every digit equal."""
    for seed in (1, 2):
        made(seed, metrics={"test/loss": 0.7612, "speed/samples_per_s": float(seed)})
    made(3, metrics={"test/loss": 0.7613})
    _, told = printed(project, capsys)
    assert "seeds 1, 2 of trial baseline gave equal results to the last digit" in told
    assert "lab check trial=baseline" in told
    file = project.root / "results.tex"
    call(project, "runs export", "-o", file)
    assert "% seeds 1, 2 of trial baseline" in file.read_text()


def test_data_are_compared_by_their_hash_wherever_they_lie(project, made, capsys):
    for seed, path in enumerate(("/here/cells.h5", "/there/cells.h5")):
        made(seed, data={"path": path, "pack": f"lab data pack cells {path}"})
    (head, line), _ = printed(project, capsys)
    assert (head, line[-1]) == (["trial", "test/loss", "n"], "2")
    for seed in range(2):
        made(seed, data={"path": "cells2.h5"}, data_sha256="b" * 64)
    (head, *lines), _ = printed(project, capsys)
    assert (head, len(lines)) == (["trial", "data.path", "test/loss", "n"], 2)


def test_data_without_a_hash_are_compared_by_their_place(project, made, capsys):
    for path in ("a", "b"):
        for seed in range(2):
            made(seed, data={"path": path}, data_sha256=None)
    (head, *lines), _ = printed(project, capsys)
    assert (head, len(lines)) == (["trial", "data.path", "test/loss", "n"], 2)


def test_a_mean_over_folds_is_asked_for(project, made, capsys):
    for fold in range(3):
        for seed in range(2):
            metrics = {"test/loss": fold + seed / 2}
            made(seed, metrics=metrics, val_rows=str(fold), data={"fold": fold})
    (head, *lines), _ = printed(project, capsys)
    assert (head, len(lines)) == (["trial", "data.fold", "test/loss", "n"], 3)
    (head, *lines), _ = printed(project, capsys, "--over", "data.fold")
    assert (head, len(lines)) == (["trial", "test/loss", "n"], 1)
    assert lines[0][-1] == "6"


def test_folds_are_paired_and_a_line_says_that_they_share_samples(project, made, capsys):
    for fold in range(3):
        rows = {"val_rows": str(fold), "data": {"fold": fold}}
        made(0, metrics={"test/loss": float(fold)}, **rows)
        made(0, trial="wide", metrics={"test/loss": (1, 2.5, 2.2)[fold]}, **rows)
    (*_, test, remark), _ = printed(project, capsys, "--over", "data.fold")
    assert "t-test paired by seed and data.fold, n = 3" in " ".join(test)
    assert " ".join(remark) == (
        "folds train on the same samples: these intervals are too narrow, and these p too small"
    )


def test_two_lines_are_compared_by_a_paired_test(project, made, capsys):
    for seed in range(4):
        made(seed, metrics={"test/loss": float(seed)})
        made(seed, trial="wide", metrics={"test/loss": (1, 2.5, 2.2, 5)[seed]})
    lines, _ = printed(project, capsys)
    assert " ".join(lines[-1]) == (
        "test/loss: second line - first line = 1.2 ± 1.2 (95% interval), "
        "t-test paired by seed, n = 4: p = 0.055"
    )
    assert "folds" not in str(lines)
    made(5, metrics={"test/loss": 9.0})
    lines, _ = printed(project, capsys)
    assert " ".join(lines[-1]).endswith("n = 4: p = 0.055, of what both lines have")
    lines, _ = printed(project, capsys, "seed=0,1")
    assert "t-test" not in str(lines), "of two seeds there is none"
    made(4, data_sha256="b" * 64, metrics={"test/loss": 1.0})
    lines, _ = printed(project, capsys)
    assert "t-test" not in str(lines), "more lines than two"


def test_other_data_are_not_compared_by_seed(project, made, capsys):
    for seed in range(3):
        made(seed, metrics={"test/loss": float(seed)})
        made(seed, data_sha256="b" * 64, metrics={"test/loss": seed * 2.0})
    assert "t-test" not in str(printed(project, capsys)[0])


def test_intervals_are_those_of_student(project, made, capsys):
    for seed, loss in enumerate((1.0, 2.0, 3.0, 4.0)):
        made(seed, metrics={"test/loss": loss})
    # 3.182446 * 1.290994 / 2
    (_, line), _ = printed(project, capsys, "--ci")
    assert line == ["baseline", "2.5", "±", "2.1", "4"]


def test_the_best_is_bold_only_where_it_may_be_ranked(project, made):
    def bold(*words):
        file = project.root / "results.md"
        call(project, "runs export", *words, "-o", file)
        return re.findall(r"\*\*([^*]+)\*\*", file.read_text())

    for seed in range(3):
        made(seed, metrics={"test/loss": 1.0 + seed})
        made(seed, trial="wide", metrics={"test/loss": 2.0 + seed + 0.01 * seed**2})
        made(seed, trial="other", metrics={"test/loss": 1.5 + 2 * (seed == 0)})
    assert bold("trial=baseline,wide") == ["2.0 ± 1.0"]
    assert bold() == [], "the best does not differ from all others"
    assert bold("seed=0,1", "trial=baseline,wide") == [], "two seeds"
    made(3, metrics={"test/loss": 9.0})
    assert bold("trial=baseline,wide") == [], "four seeds and three"


def test_the_first_columns_are_what_chose_the_weights(project, made, capsys):
    for seed in range(2):
        metrics = {"test/acc": 0.5 + seed, "test/iou": 0.4 + seed, "test/loss": 1.0 + seed}
        made(seed, metrics=metrics)
    head = printed(project, capsys)[0][0]
    assert head == ["trial", "test/loss", "test/acc", "test/iou", "n"]
    call(project, "runs export", "-o", project.root / "results.csv")
    output = capsys.readouterr().out
    assert output.startswith(str(project.root / "results.csv"))
    assert "test/acc mean,test/acc sd" in (project.root / "results.csv").read_text()


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    ("fingerprint", "kept"),
    [
        ({"sha256": "a", "rows": {"val": "b"}, "n": 5}, {"sha256": "a", "rows": {"val": "b"}}),
        ({"sha256": "a", "rows": 1000}, {"sha256": "a"}),
        ({"sha256": "a", "order": "blocks"}, {"sha256": "a", "order": "blocks"}),
        ({"sha256": "a", "order": "mine"}, {"sha256": "a"}),
        ({"sha256": "a", "rows": {"val": 1000}}, {"sha256": "a"}),
        ({"not_recorded": "Own has no fingerprint()"}, None),
        (None, None),
    ],
)
def test_of_the_users_fingerprint_only_hashes_count(project, fingerprint, kept):
    run = create(project)
    attempt = begin_attempt(run, project, data=fingerprint)
    attempt.end("finished", {"val/loss": 1.0})
    assert read_advisory(run.dir / "summary.json")["data"] == kept
    assert read_row(str(run.dir))["status"] == "finished"


def test_other_data_are_a_table_of_their_own_and_a_metric_may_have_an_at(made, project, capsys):
    metrics = {"test/hits@10": 0.5, "test/hits@10@cells-3fa9c1/all": 0.25}
    made(metrics=metrics | {"test/hits@10@own-unhashed": 0.125})
    lines, _ = printed(project, capsys)
    head = ["trial", "test/hits@10", "n"]
    assert lines == [
        *(head, ["baseline", "0.5", "1"]),
        *(["on", "cells-3fa9c1/all:"], head, ["baseline", "0.25", "1"]),
        *(["on", "own-unhashed:"], head, ["baseline", "0.125", "1"]),
    ]


def test_a_metric_that_only_a_left_out_run_has_is_no_table(made, project, capsys):
    made(metrics={"test/dice": 0.5, "test/dice@cells-3fa9c1/val": 0.25})
    made(metrics={"test/dice": 0.5})
    lines, _ = printed(project, capsys)
    assert lines == [["trial", "test/dice", "n"], ["baseline", "0.5", "1"]]


@pytest.mark.slow
def test_a_metric_with_an_at_is_shown(project, capsys):
    run = train(project, metrics={"test/hits@10": 0.5})
    call(project, "runs show", run.id)
    assert re.search(r"test/hits@10 +0\.5\b", capsys.readouterr().out)
