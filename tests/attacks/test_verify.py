"""`lab runs verify` notices every file of a record that is missing, cut, doubled or disagrees."""

import json
import shutil

import pytest
from labrig.project import Project
from labrig.record.files.manifest import MANIFEST, append_listed, read_manifest
from labrig.record.keep.annotate import annotate
from labrig.record.read.run import Run
from labrig.record.verify.command import list_problems
from labrig.record.verify.files import (
    Part,
    check_record,
    check_settings,
    listed_problems,
)
from labrig.record.verify.results import check_checkpoints, check_metrics
from labrig.record.write.begin import begin_attempt
from projects import copy_of
from record_package import PACKAGE, call, make_project, train
from records import relist

LINES = ("notes.jsonl", "evaluations.jsonl", "predictions.jsonl")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project with one run of two attempts that has every file of a record. Shared: copy it."""
    project = make_project(tmp_path_factory.mktemp("verify") / "project")
    run = train(project, metrics={"val/loss": 0.5, "test/acc": 0.25})
    begin_attempt(Run.open(run.dir), project).end("finished")
    for text in ("one", "two", "three"):
        annotate(run, note=text)
        row = {"checkpoint": "last", "overrides": [], "metrics": {"test/acc": 0.5}}
        append_listed(run.dir, "evaluations.jsonl", row)
        append_listed(run.dir, "predictions.jsonl", {"path": text, "content_sha256": "ab"})
    return project


@pytest.fixture
def run_dir(tmp_path, trained):
    """The run of a copy of that project."""
    return next((copy_of(trained.root, tmp_path / "project") / "runs/baseline").iterdir())


def found(run_dir):
    """What is not as recorded, as one text; the code itself, which git unpacks, is left out."""
    run = Run.open(run_dir)
    checks = (check_settings, check_record, check_metrics, check_checkpoints)
    parts = [check(run) for check in checks]
    bundles = [name for name in read_manifest(run_dir) if name.endswith(".bundle")]
    parts.append(Part("code", *listed_problems(run, bundles)))
    return "\n".join(list_problems(parts))


def rewrite(path, change):
    value = json.loads(path.read_text())
    change(value)
    relist(path, value)


NEEDLESS = ("lock", "heartbeat", ".reserve-1", ".reserve-2")


def test_each_file_that_is_deleted_is_missed(run_dir, tmp_path):
    """g9: one file at a time; locks and signs of life may go."""
    call(Project(run_dir.parents[2], PACKAGE), "runs verify", str(run_dir))
    files = [path for path in sorted(run_dir.rglob("*")) if path.is_file()]
    noticed = set()
    for path in files:
        if path.name == "run.json":
            continue  # without it there is no run
        shutil.move(path, tmp_path / "away")
        if path.name in NEEDLESS:
            assert not found(run_dir)
        else:
            assert path.name in found(run_dir)
            noticed.add(path.name)
        shutil.move(tmp_path / "away", path)
    assert noticed >= {"summary.json", "end.json", "start.json", "env.txt", "config.yaml", *LINES}


def test_an_end_and_its_summary_that_are_both_deleted_are_missed(run_dir):
    (run_dir / "summary.json").unlink()
    (run_dir / "attempts/2/end.json").unlink()
    rewrite(run_dir / "attempts/2/start.json", lambda start: start.update(pid_started="0"))
    assert "attempts/2/end.json and" in found(run_dir)


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("n_left", [0, 1, 2])
def test_a_file_of_lines_that_was_cut_is_noticed(run_dir, name, n_left):
    """g11."""
    path = run_dir / name
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:n_left]))
    assert f"{name} was changed" in found(run_dir)


@pytest.mark.parametrize("by_hand", ["a doubled one", '{"note": "by hand"}', "by hand"])
def test_a_line_that_lab_did_not_write_is_noticed(run_dir, by_hand):
    path = run_dir / "evaluations.jsonl"
    line = path.read_text().splitlines()[1] if by_hand == "a doubled one" else by_hand
    with open(path, "a") as file:
        file.write(f"{line}\n")
    assert "evaluations.jsonl was changed" in found(run_dir)


def test_a_record_without_its_manifest_and_a_file_that_is_not_in_it_are_noticed(run_dir):
    (run_dir / "attempts/7").mkdir()
    (run_dir / "attempts/7/node-1.json").write_text("{}")
    assert "attempts/7/node-1.json is not in the manifest" in found(run_dir)
    (run_dir / MANIFEST).unlink()
    assert f"{MANIFEST} is missing" in found(run_dir)


def test_a_write_that_was_killed_after_its_line_is_told_and_no_damage(run_dir):
    path = run_dir / "run.json"
    before = path.read_bytes()
    rewrite(path, lambda record: record.update(job={"id": "7"}))
    path.write_bytes(before)
    assert not found(run_dir)
    (said,) = check_record(Run.open(run_dir)).unchecked
    assert said == "run.json is as it was before its last write, which was killed"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("run.json", '"seed": 0', '"seed": 7, "seed": 0'),
        ("summary.json", '"test/acc": 0.25', '"test/acc": 0.9, "test/acc": 0.25'),
        ("attempts/1/end.json", '"status":', '"status": "failed", "status":'),
        ("attempts/2/start.json", '"attempt": 2', '"attempt": 1, "attempt": 2'),
        ("notes.jsonl", '"note": "two"', '"note": "2", "note": "two"'),
        ("evaluations.jsonl", '"test/acc": 0.5', '"test/acc": 0.9, "test/acc": 0.5'),
    ],
)
def test_a_key_that_is_there_twice_is_noticed(run_dir, name, old, new):
    """a-dupkey: readers take the last one, and people the first."""
    path = run_dir / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert f"{name} was changed" in found(run_dir)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics", {"test/acc": 0.999, "val/loss": 0.5}),
        ("status", "failed"),
        ("seed", 7),
        ("who", "ann"),
        ("n_attempts", 1),
        ("seconds", 1e6),
        ("code", {"commit": "a" * 40}),
    ],
)
def test_a_summary_that_does_not_follow_from_the_attempts_is_noticed(run_dir, key, value):
    """a-summary: listed anew, by a script or an enemy."""
    rewrite(run_dir / "summary.json", lambda summary: summary.update({key: value}))
    assert f"summary.json does not follow from the attempts: {key}" in found(run_dir)


def test_an_end_that_was_listed_anew_disagrees_with_the_summary(run_dir):
    rewrite(run_dir / "attempts/2/end.json", lambda end: end["metrics"].update({"test/acc": 0.9}))
    assert "does not follow from the attempts: metrics" in found(run_dir)


@pytest.mark.parametrize("value", [["a"], None, 1e400, {"a": 1}])
def test_a_value_of_another_type_is_named(run_dir, value):
    text = (run_dir / "attempts/1/end.json").read_text()
    entries = json.loads(text) | {"seconds": value}
    (run_dir / "attempts/1/end.json").write_text(json.dumps(entries))
    assert "attempts/1/end.json was changed: " in found(run_dir)
