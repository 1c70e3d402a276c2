"""Trials that are a program: recorded, stopped, continued, profiled and submitted like a training."""

import json
import pstats
import signal
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch
from labrig.errors import Failed
from labrig.training.start.program_log import whole
from projects import PROJECT, ROOT, call, equip
from slurm_jobs import json_of, wait_until
from trainings import add_trial, last, rows, start

SHORT = ("trial=program", "program.n_points=500", "program.n_steps=5")
COUNT = """
import time

def main(config, log):
    state = log.checkpoints / "state.txt"
    first = int(state.read_text()) + 1 if state.exists() else 1
    for step in range(first, config.program.n_steps + 1):
        if config.program.saves:
            state.write_text(str(step))
        log(step, {"value": 1 / step})
        time.sleep(config.program.wait_s)
"""
LIGHT = """
import sys

def main(config, log):
    log(1, {"heavy": len({"torch", "lightning"} & set(sys.modules))})
"""
SETTINGS = "program: {n_steps: 90, saves: true, wait_s: 0.05}\n"


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A project with the example, a program that counts, and one without main."""
    folder = equip(copytree(PROJECT, tmp_path_factory.mktemp("program") / "myproj"))
    copytree(ROOT / "examples/program", folder / "src/myproj/trials/program")
    add_trial(folder, "count", config_yaml=SETTINGS, program_py=COUNT)
    add_trial(folder, "light", config_yaml="", program_py=LIGHT)
    add_trial(folder, "empty", config_yaml="", program_py="def main(config):\n    pass\n")
    return folder


@pytest.mark.slow
def test_a_program_is_recorded(own):
    said = call(own, "lab", "train", *SHORT, "logger=csv", "--why", "because")
    assert "finished  log_likelihood -" in said
    assert "data this run reads" not in said
    record = last(own)
    assert record["status"] == "finished"
    assert record["why"] == "because"
    assert [row["step"] for row in rows(record)] == [1, 2, 3, 4, 5]
    values = [row["log_likelihood"] for row in rows(record)]
    assert values == sorted(values), "EM never gets worse"
    assert record["metrics"]["log_likelihood"] == values[-1]
    run_dir = Path(record["run_dir"])
    assert (run_dir / "means.txt").exists()
    assert (run_dir / "metrics.csv").read_text().count("\n") == 6
    attempt = json.loads((run_dir / "attempts/1/start.json").read_text())
    assert attempt["code"]["complete"] is True
    assert attempt["world_size"] == 1
    ended = json.loads((run_dir / "attempts/1/end.json").read_text())
    assert ended["global_step"] == 5
    assert "program.n_points=500" in call(own, "lab", "runs", "show", "@last")
    assert "log_likelihood" in call(own, "lab", "runs", "list")
    assert "problem" not in call(own, "lab", "runs", "verify", "@last")


@pytest.mark.release
@pytest.mark.slow
def test_the_seed_decides(own):
    results = []
    for seed in (1, 1, 2):
        call(own, "lab", "train", *SHORT, f"seed={seed}")
        results.append(last(own)["metrics"]["log_likelihood"])
    assert results[0] == results[1] != results[2]


def test_torch_is_not_imported(own):
    assert "finished  heavy 0" in call(own, "lab", "train", "trial=light", cold=True)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("saves", [True, False])
def test_a_preempted_program_continues_if_it_saves(own, saves):
    process, _ = start(own, "trial=count", f"program.saves={saves}", until="step 1")
    process.send_signal(signal.SIGUSR2)
    said, _ = process.communicate(timeout=120)
    record = last(own)
    assert record["status"] == "interrupted"
    assert (Path(record["run_dir"]) / "requeue").exists() is saves
    assert process.returncode == (0 if saves else 130), said
    assert "as the scheduler asked" in said
    if not saves:
        return
    call(own, "lab", "resume", "@last")
    record = last(own)
    assert record["status"] == "finished"
    assert [row["step"] for row in rows(record)] == list(range(1, 91)), "no step twice"
    assert {row["attempt"] for row in rows(record)} == {1, 2}


@pytest.mark.release
@pytest.mark.slow
def test_profiles(own):
    call(own, "lab", "train", *SHORT, "profile=cprofile")
    folder = Path(last(own)["run_dir"]) / "profile"
    functions = pstats.Stats(str(folder / "cprofile-rank0.prof")).stats
    assert any(name == "maximise" for _, _, name in functions)
    said = call(own, "lab", "train", *SHORT, "profile=line")
    folder = Path(last(own)["run_dir"]) / "profile"
    assert "np.logaddexp.reduce" in (folder / "line-rank0.txt").read_text()
    assert "open it: less" in said
    said = call(own, "lab", "train", *SHORT, "profile=simple", rc=1)
    assert "a program has none" in said
    assert "profile=cprofile" in said


@pytest.mark.release
@pytest.mark.slow
def test_mistakes_are_reported(own):
    assert "ok  program: keys, and its program" in call(own, "lab", "check", "trial=program")
    assert "did you mean: program.n_steps" in call(
        own, "lab", "check", "trial=program", "program.n_stepps=3", rc=2
    )
    assert "program.py needs a function: def main(config, log):" in call(
        own, "lab", "check", "trial=empty", rc=2
    )
    assert "'program' is a program" in call(own, "lab", "bench", "trial=program", rc=2)
    call(own, "lab", "train", *SHORT)
    assert "'program' is a program" in call(own, "lab", "eval", "@last", rc=2)
    said = call(own, "lab", "train", *SHORT, "program.n_components=0", rc=1)
    assert "program.py" in said
    assert "ValueError" in said
    assert last(own)["status"] == "failed"


@pytest.mark.slow
def test_a_value_that_is_not_finite_ends_it(own):
    program = "def main(config, log):\n    log(1, {'loss': float('nan')})\n"
    add_trial(own, "endless", config_yaml="", program_py=program)
    assert "loss is nan at step 1" in call(own, "lab", "train", "trial=endless", rc=1)


@pytest.mark.parametrize("step", [2.5, 10**30, -1, None, "3", True, np.float32(2)])
def test_a_step_that_is_no_whole_number_is_refused(step):
    with pytest.raises(Failed, match=r"expected a whole number .* Type: log\(int\(step\), …\)"):
        whole(step)


@pytest.mark.parametrize("step", [0, 3, 2**63 - 1, np.int64(3), torch.tensor(3)])
def test_whole_steps_of_all_kinds_are_taken(step):
    assert whole(step) == int(step)
    assert type(whole(step)) is int


@pytest.mark.slow
def test_a_step_is_checked_before_its_row_is_written_and_a_falling_one_told(own):
    program = (
        "def main(config, log):\n    for step in (2, 2, 1, 1, 2.5):\n        log(step, {'q': 1})\n"
    )
    add_trial(own, "odd", config_yaml="", program_py=program)
    said = call(own, "lab", "train", "trial=odd", rc=1)
    assert "was given the step 2.5" in said
    assert said.count("lab: step 1 comes after step 2") == 1
    assert last(own)["status"] == "failed"
    assert [row["step"] for row in rows(last(own))] == [2, 2, 1, 1]


@pytest.mark.release
def test_a_program_is_submitted_and_reproduced(own):
    settings = (*SHORT, "site=workstation", "job.gpus=0", "seed=5")
    sent = json_of(call(own, "lab", "submit", *settings, "--json"))
    summary = Path(sent["run_dir"]) / "summary.json"
    wait_until(summary.exists, "the job over", 120)
    record = last(own)
    assert (record["run_id"], record["status"]) == (sent["run_id"], "finished")
    said = call(own, "lab", "runs", "reproduce", sent["run_id"], "--check")
    assert "bitwise: metrics are identical" in said


@pytest.mark.release
def test_a_sweep_searches_with_a_program(own):
    words = [*SHORT, "program.n_components=2,3", "sweep.metric=log_likelihood", "sweep.workers=1"]
    call(own, "lab", "sweep", *words)
    records = [json.loads(file.read_text()) for file in own.glob("runs/program/*/run.json")]
    points = [record for record in records if record["settings"]["program"]["n_components"] != 5]
    searched = {
        record["settings"]["program"]["n_components"] for record in points if record["parent"]
    }
    assert searched == {2, 3}
