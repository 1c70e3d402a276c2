"""A signal to any rank stops all ranks at one step with a checkpoint; training continues from it
bit for bit."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from commands import free_port
from projects import HELPERS, SOURCE, warm_process

PROGRAM = HELPERS / "signals_program.py"
RELEASES = ["", "2.99.0"]  # as installed; one that nobody has tested


@pytest.fixture
def start(tmp_path):
    """start(name, world=1, **options) -> one process per rank of a run in tmp_path/name; killed at
    the end of the test. With workers of its own a rank starts cold, otherwise as a fork of the warm
    process."""
    started = []

    def start(name, world=1, **options):
        run_dir = tmp_path / name
        run_dir.mkdir(exist_ok=True)
        words = [f"{key}={value}" for key, value in {"world": world, **options}.items()]
        environment = os.environ | {
            "PYTHONPATH": str(SOURCE),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        for rank in range(world):
            # Lightning starts no processes where it finds LOCAL_RANK.
            of_rank = {"LOCAL_RANK": str(rank)} if world > 1 else {}
            if "workers" in options:
                process = subprocess.Popen(
                    [sys.executable, PROGRAM, run_dir, *words],
                    env=environment | of_rank,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            else:
                process = warm_process().start(
                    PROGRAM.stem, [run_dir, *words], PROGRAM.parent, environment | of_rank
                )
            started.append(process)
        return started[-world:]

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
        process.wait(timeout=60)


@pytest.fixture
def train(start):
    """train(name, world=1, code=0, **options) -> the result of each rank, once all have ended with
    `code`."""

    def train(name, world=1, code=0, **options):
        return results(start(name, world, **options), code)

    return train


@pytest.fixture
def checkpoint(tmp_path):
    """checkpoint(name) -> last.ckpt of the run in tmp_path/name."""
    return lambda name: tmp_path / name / "checkpoints" / "last.ckpt"


def results(processes, code=0):
    of_ranks = []
    for process in processes:
        out, err = process.communicate(timeout=240)
        assert process.returncode == code, err
        of_ranks.append(json.loads(out.splitlines()[-1]))
    return of_ranks


def is_left(group):
    with suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


@pytest.mark.slow
def test_signal_to_one_rank_stops_both_and_resumes_bit_for_bit(train, checkpoint, tmp_path):
    """Also with a release of Lightning that nobody has tested."""
    whole = train("whole", world=2)
    for name, version, signal_name in (("run", "", "SIGTERM"), ("other", "2.99.0", "SIGUSR2")):
        settings = {"world": 2, "version": version}
        stopped = train(name, **settings, signal=signal_name, signal_rank=1)
        assert [rank["stopped_at_step"] for rank in stopped] == [4, 4]
        assert [rank["requeue"] for rank in stopped] == [True, True]
        assert [rank["replaced_after_fit"] for rank in stopped] == [[], []]
        assert (tmp_path / name / "requeue").read_text() == "step 4\n"
        resumed = train(name, **settings, ckpt=checkpoint(name))
        assert [rank["step"] for rank in whole + resumed] == [40] * 4
        assert resumed[0]["weights"] == whole[0]["weights"] == resumed[1]["weights"]


@pytest.mark.release
@pytest.mark.slow
def test_no_collective_is_added_per_step(train):
    for rank in train("run", world=2, steps=100, interval_s=1000, epoch_batches=200):
        assert rank["step"] == 100
        # Lightning 2.6 alone: one per step.
        assert rank["collectives"]["broadcast"] == 0
        # The agreement after the first batch, and what ends fit.
        assert rank["collectives"]["all_reduce"] <= 3


@pytest.mark.slow
def test_ctrl_c_saves_and_exits_130_without_asking_for_a_requeue(train, checkpoint, tmp_path):
    (stopped,) = train("run", code=130, signal="SIGINT")
    assert stopped["requeue"] is False
    assert not (tmp_path / "run" / "requeue").exists()
    assert checkpoint("run").exists()
    assert stopped["replaced_after_fit"] == []


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASES)
def test_stops_only_between_optimizer_steps(train, checkpoint, version):
    settings = {"accumulate": 4, "steps": 30, "version": version}
    (stopped,) = train("run", **settings, signal="SIGTERM")
    # The signal came after batch 12, that is step 3.
    assert stopped["stopped_after_batches"] == 16 - 16 % 4
    (resumed,) = train("run", **settings, ckpt=checkpoint("run"))
    (whole,) = train("whole", **settings)
    assert resumed["weights"] == whole["weights"]
    assert whole["replaced_after_fit"] == []


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.release
@pytest.mark.slow
def test_a_long_validation_is_left_and_begins_again(train, checkpoint, world):
    """Also with one batch more on the second rank, which alone receives the signal."""
    settings = {"world": world, "steps": 20, "epoch_batches": 5}
    sent = {"signal": "SIGUSR2", "signal_rank": world - 1, "signal_in_validation": 3}
    stopped = train("run", **settings, **sent, val_batches=60)
    for rank in stopped:
        assert rank["was_validating"]
        assert rank["stopped_at_step"] == 5
        assert rank["validated"] == 3
    resumed = train("run", **settings, ckpt=checkpoint("run"))
    whole = train("whole", **settings)
    assert [rank["weights"] for rank in resumed] == [rank["weights"] for rank in whole]
    every_epoch_whole = [4 * (2 + rank) for rank in range(world)]
    assert [rank["validated"] for rank in whole] == every_epoch_whole
    assert [rank["validated"] for rank in resumed] == every_epoch_whole


@pytest.mark.release
@pytest.mark.slow
def test_with_another_release_a_validation_is_finished_before_the_stop(train, checkpoint):
    settings = {"steps": 20, "epoch_batches": 5, "val_batches": 7, "version": "2.99.0"}
    (stopped,) = train("run", **settings, signal="SIGUSR2", signal_in_validation=3)
    assert (stopped["stopped_at_step"], stopped["validated"]) == (5, 7)
    (resumed,) = train("run", **settings, ckpt=checkpoint("run"))
    (whole,) = train("whole", **settings)
    assert resumed["weights"] == whole["weights"]


@pytest.mark.slow
def test_the_validation_after_the_last_step_is_finished(train):
    """Lightning would not begin it again; but the checkpoint is there, should the time not be
    enough."""
    sent = {"signal": "SIGUSR2", "signal_in_validation": 3}
    (finished,) = train("run", steps=6, epoch_batches=6, val_batches=12, **sent)
    assert (finished["stopped_at_step"], finished["step"]) == (None, 6)
    assert finished["validated"] == 12
    assert finished["validated_at_saves"][0] == 3


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    "start_method",
    ["fork", "spawn", "forkserver"],
)
def test_a_signal_to_all_processes_leaves_the_workers_to_their_parent(
    start, checkpoint, start_method
):
    """The ranks agree some batches later, which the workers still deliver."""
    settings = {"steps": 3000, "epoch_batches": 3000, "workers": start_method, "interval_s": 0.05}
    processes = start("run", **settings, signal="SIGTERM", signal_group=1)
    (stopped,) = results(processes)
    assert 3 <= stopped["stopped_at_step"] < 3000
    assert checkpoint("run").exists()
    deadline_s = time.monotonic() + 60
    while is_left(processes[0].pid):
        assert time.monotonic() < deadline_s, "a process of it is left"
        time.sleep(0.1)


@pytest.mark.release
@pytest.mark.slow
def test_epochs_of_one_batch_stop_between_epochs(train, checkpoint):
    settings = {"epoch_batches": 1, "steps": 60}
    (stopped,) = train("run", **settings, signal="SIGUSR1")
    assert 3 <= stopped["stopped_at_step"] <= 4
    (resumed,) = train("run", **settings, ckpt=checkpoint("run"))
    (whole,) = train("whole", **settings)
    assert resumed["step"] == whole["step"] == 60
    assert resumed["weights"] == whole["weights"]
