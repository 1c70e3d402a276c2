"""A metrics.jsonl of a long run is read in parts: memory stays below the size of the file."""

import json
import random
import subprocess
import sys

import pytest
from labrig.record.files.metrics_file import MetricColumns, count_rows, last_metrics, read_metrics
from labrig.record.list.curves import MOST_DRAWN, metric_names, read_curve
from labrig.report.figures import read_curves
from projects import environment_of
from record_package import make_project, train

ROW = '{"step": %d, "epoch": %d, "attempt": %d, "time_unix_s": %.3f, "train/acc": %.15f, "train/loss": %.15f}\n'
PYTHON_BYTES = 25e6  # what a command takes that reads nothing
PEAK = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "labrig", *sys.argv[1:]], capture_output=True, text=True)
print(done.stdout + done.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(done.returncode)
"""


def write_rows(run_dir, n_rows):
    with open(run_dir / "metrics.jsonl", "w") as file:
        for step in range(1, n_rows + 1):
            value = (step * 7919 % 10007) / 10007
            file.write(ROW % (step, step // 1000, 1, 1.79e9 + step * 0.01, value, 3 - value))
    return (run_dir / "metrics.jsonl").stat().st_size


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("ended", ["finished", None])
def test_memory_stays_below_the_size_of_the_file(tmp_path, ended):
    """j-metrics-runs-show, j-metrics-report."""
    project = make_project(tmp_path / "p")
    run = train(project, "finished")
    if ended is None:  # as of a run that was killed
        (run.dir / "summary.json").unlink()
        (run.dir / "attempts/1/end.json").unlink()
    n_bytes = write_rows(run.dir, 800_000)
    commands = (["runs", "show", run.id], ["report"], ["runs", "list"])
    for command in (*commands, ["runs", "plot", run.id, "--metric", "train/loss"]):
        done = subprocess.run(
            [sys.executable, "-c", PEAK, *command],
            cwd=project.root,
            env=environment_of(project.root),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        assert int(done.stdout.split()[-1]) < n_bytes + PYTHON_BYTES
        if "show" in command:
            assert "metrics.jsonl (800000 rows)" in done.stdout.replace(",", "")


def test_a_metric_of_two_kinds_of_rows_keeps_the_order_of_the_file(tmp_path):
    lines = []
    for step in range(1, 7):
        row = {"step": step, "epoch": 0, "attempt": 1, "time_unix_s": 1000.0 + step, "a": step}
        lines.append(json.dumps(row | ({"b": 0.5} if step % 2 else {})))
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert read_curve(tmp_path, "a") == [(step, step) for step in range(1, 7)]
    assert list(read_curves(tmp_path).curves["a"].steps) == list(range(1, 7))


def rows_of_attempts(seed):
    """Attempts that overlap, some with rows of other metrics, doubled and damaged ones."""
    chance = random.Random(seed)
    lines = []
    step = 0
    for attempt in range(1, 4):
        step = max(0, step - chance.randrange(6))
        for _ in range(chance.randrange(3, 12)):
            step += chance.choice([0, 1, 1, 2])
            metrics = chance.choice([["a"], ["b"], ["a", "b"]])
            row = {"step": step, "epoch": step // 4, "attempt": attempt}
            row |= {"time_unix_s": 1000.0 + len(lines)}
            row |= {name: chance.choice([1.5, 2, "nan", chance.random()]) for name in metrics}
            lines.append(json.dumps(row))
    lines.insert(3, '{"step": 1, "epo')
    lines.insert(5, "[1, 2]")
    lines.insert(6, '{"step": "x", "epoch": 0, "attempt": 1, "time_unix_s": 1, "a": 1}')
    return lines


@pytest.mark.parametrize("seed", range(40))
def test_columns_say_what_the_rows_say(tmp_path, seed):
    lines = rows_of_attempts(seed)
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    rows = read_metrics(tmp_path)
    metrics = MetricColumns(tmp_path)
    assert set(metric_names(tmp_path)) == {"a", "b"}
    for name in ("a", "b"):
        expected = [
            (row["step"], row[name]) for row in rows if name in row and row[name] == row[name]
        ]
        assert read_curve(tmp_path, name) == expected
        curve = read_curves(tmp_path).curves[name]
        assert list(zip(curve.steps, curve.values, strict=True)) == expected
    times = [row["time_unix_s"] for row in rows]
    assert sorted(metrics.in_order("time_unix_s")) == sorted(times)
    assert list(metrics.in_order("step")) == [row["step"] for row in rows]
    assert last_metrics(tmp_path).keys() == {"a", "b"}


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [0, 1, 30_000])
def test_parts_of_a_file_lose_no_row(tmp_path, n_rows):
    write_rows(tmp_path, n_rows)
    assert count_rows(tmp_path) == n_rows
    assert len(MetricColumns(tmp_path).order) == n_rows
    if n_rows:
        (newest,) = read_metrics(tmp_path)[-1:]
        assert last_metrics(tmp_path) == {k: newest[k] for k in ("train/acc", "train/loss")}


def test_a_curve_of_very_many_points_keeps_its_ends_and_peaks(tmp_path):
    write_rows(tmp_path, 12_000)
    rows = read_metrics(tmp_path)
    curve = read_curve(tmp_path, "train/loss")
    assert len(curve) <= MOST_DRAWN
    assert (curve[0][0], curve[-1][0]) == (1, 12_000)
    assert max(value for _, value in curve) == max(row["train/loss"] for row in rows)


def test_half_a_line_is_no_row(tmp_path):
    write_rows(tmp_path, 3)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 4, "epo\n' + ROW % (5, 0, 2, 1.0, 0.5, 0.5) + '{"step": 6')
    assert count_rows(tmp_path) == 4
    assert last_metrics(tmp_path) == {"train/acc": 0.5, "train/loss": 0.5}


@pytest.mark.parametrize("value", ["1e999", "1" * 400, '"x"', "null", "[1]", "true", "-Infinity"])
def test_a_value_that_is_no_number_is_no_point(tmp_path, value):
    line = '{"step": %s, "epoch": 0, "attempt": 1, "time_unix_s": 1, "a": %s}\n'
    step = 3 if value == "true" else value
    (tmp_path / "metrics.jsonl").write_text(line % (1, 0.5) + line % (2, value) + line % (step, 1))
    assert read_curve(tmp_path, "a")[0] == (1, 0.5)
    assert all(isinstance(point, float) for _, point in read_curve(tmp_path, "a"))
    assert "a" in read_curves(tmp_path).curves


def test_the_load_of_a_machine_is_no_result(tmp_path):
    """audit-2, row 153: it stood among the results of a run."""
    name = "DeviceStatsMonitor.on_train_batch_end/cpu_percent"
    row = {"step": 1, "epoch": 0, "attempt": 1, "time_unix_s": 1.0, name: 9.0, "val/acc": 0.5}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert last_metrics(tmp_path) == {"val/acc": 0.5}
    assert read_metrics(tmp_path)[0][name] == 9.0
