"""A signal to any rank stops all ranks at one step with a checkpoint; training goes on from it bit for bit."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parent / "template" / "src" / "{{package_name}}"


@pytest.fixture
def start(tmp_path):
    """start(run_dir, world=1, **options) -> one Popen per rank; killed at the end, whatever happened."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "pkg").symlink_to(SOURCE)
    started = []

    def start(run_dir, world=1, **options):
        run_dir.mkdir(exist_ok=True)
        words = [f"{key}={value}" for key, value in {"world": world, **options}.items()]
        environment = os.environ | {
            "PYTHONPATH": str(tmp_path / "src"),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": "1",
        }
        ranks = [
            subprocess.Popen(
                [sys.executable, str(HERE / "signals_program.py"), "pkg", str(run_dir), *words],
                env=environment | ({"LOCAL_RANK": str(rank)} if world > 1 else {}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for rank in range(world)
        ]
        started.extend(ranks)
        return ranks

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
        process.communicate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def send_when_running(processes, run_dir, signum, to, group=False):
    """Sends a signal to one rank once all ranks train; with `group` to its workers too, as schedulers do."""
    end_s = time.monotonic() + 120
    while not all((run_dir / f"running-{rank}").exists() for rank in range(len(processes))):
        assert time.monotonic() < end_s, "training did not reach its third step within 120 s"
        assert all(process.poll() is None for process in processes), processes[0].communicate()[1]
        time.sleep(0.05)
    (os.killpg if group else os.kill)(processes[to].pid, signum)


def any_left(group):
    with suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def results(processes, code=0):
    """Each rank's result, once all of them ended with `code`."""
    found = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, err
        found.append(json.loads(out.splitlines()[-1]))
    return found


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR2])
def test_signal_to_one_rank_stops_both_and_resumes_bit_for_bit(start, tmp_path, signum):
    whole = start(tmp_path / "whole", world=2)
    processes = start(tmp_path / "cut", world=2, step_s=0.1)
    send_when_running(processes, tmp_path / "cut", signum, to=1)
    stopped = results(processes)
    assert stopped[0]["stopped"] == stopped[1]["stopped"] < 40
    assert all(rank["requeue"] for rank in stopped)
    assert (tmp_path / "cut" / "requeue").read_text() == f"step {stopped[0]['stopped']}\n"
    resumed = results(
        start(tmp_path / "cut", world=2, ckpt=tmp_path / "cut" / "checkpoints" / "last.ckpt")
    )
    expected = results(whole)
    assert expected[0]["step"] == resumed[0]["step"] == 40
    assert resumed[0]["weights"] == expected[0]["weights"] == resumed[1]["weights"]


def test_no_collective_is_added_per_step(start, tmp_path):
    ranks = results(start(tmp_path / "run", world=2, steps=100, interval_s=1000, epoch_batches=200))
    for rank in ranks:
        assert rank["step"] == 100
        assert rank["calls"]["broadcast"] == 0  # stock Lightning 2.6: one per step
        assert (
            rank["calls"]["all_reduce"] <= 3
        )  # the agreement after the first batch, and what ends fit


def test_ctrl_c_saves_and_exits_130_without_asking_for_a_requeue(start, tmp_path):
    processes = start(tmp_path / "run", step_s=0.1)
    send_when_running(processes, tmp_path / "run", signal.SIGINT, to=0)
    (stopped,) = results(processes, code=130)
    assert stopped["requeue"] is False
    assert not (tmp_path / "run" / "requeue").exists()
    assert (tmp_path / "run" / "checkpoints" / "last.ckpt").exists()
    assert stopped["term_is_default"]  # fit gives back what it took


def test_stops_only_between_optimizer_steps(start, tmp_path):
    processes = start(tmp_path / "run", step_s=0.05, accumulate=4, steps=30, interval_s=0.01)
    send_when_running(processes, tmp_path / "run", signal.SIGTERM, to=0)
    (stopped,) = results(processes)
    assert stopped["stopped_at"][0] % 4 == 0
    resumed = results(
        start(
            tmp_path / "run",
            accumulate=4,
            steps=30,
            ckpt=tmp_path / "run" / "checkpoints" / "last.ckpt",
        )
    )
    whole = results(start(tmp_path / "whole", accumulate=4, steps=30))
    assert resumed[0]["weights"] == whole[0]["weights"]


@pytest.mark.parametrize("world", [1, 2])
def test_a_long_validation_is_left_and_begun_anew(start, tmp_path, world):
    """Also with one batch more on the second rank, which alone hears the signal."""
    run_dir, checkpoint = tmp_path / "run", tmp_path / "run" / "checkpoints" / "last.ckpt"
    settings = {"world": world, "steps": 20, "epoch_batches": 5}
    processes = start(run_dir, **settings, val_batches=60, val_step_s=0.5)
    send_when_running(processes, run_dir, signal.SIGUSR2, to=world - 1)
    sent_s = time.monotonic()
    stopped = results(processes)
    assert time.monotonic() - sent_s < 20, "60 batches of 0.5 s each were not waited for"
    assert [(rank["validating"], rank["stopped"]) for rank in stopped] == [(True, 5)] * world
    resumed = results(start(run_dir, **settings, ckpt=checkpoint))
    whole = results(start(tmp_path / "whole", **settings))
    assert [rank["weights"] for rank in resumed] == [rank["weights"] for rank in whole]
    assert [rank["validated"] for rank in whole] == [4 * (2 + rank) for rank in range(world)]
    assert [rank["validated"] for rank in resumed] == [4 * (2 + rank) for rank in range(world)], (
        "each epoch whole"
    )


def test_the_validation_after_the_last_step_is_finished(start, tmp_path):
    """Lightning would not begin it again; but the checkpoint is there, should the time not be enough."""
    checkpoint = tmp_path / "run" / "checkpoints" / "last.ckpt"
    (process,) = start(tmp_path / "run", steps=6, epoch_batches=6, val_batches=12, val_step_s=0.5)
    send_when_running([process], tmp_path / "run", signal.SIGUSR2, to=0)
    end_s = time.monotonic() + 60
    while not checkpoint.exists():
        assert time.monotonic() < end_s
        time.sleep(0.05)
    assert process.poll() is None, "the checkpoint came before the end of the validation"
    (finished,) = results([process])
    assert (finished["stopped"], finished["step"], finished["validated"]) == (None, 6, 12)


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_a_signal_to_all_processes_leaves_the_workers_to_their_parent(start, tmp_path, how):
    processes = start(tmp_path / "run", step_s=0.1, steps=300, epoch_batches=300, workers=how)
    send_when_running(processes, tmp_path / "run", signal.SIGTERM, to=0, group=True)
    (stopped,) = results(processes)
    assert 3 <= stopped["stopped"] < 300
    assert (tmp_path / "run" / "checkpoints" / "last.ckpt").exists()
    end_s = time.monotonic() + 30
    while any_left(processes[0].pid):
        assert time.monotonic() < end_s, "a process of it is left"
        time.sleep(0.1)


def test_epochs_of_one_batch_stop_between_epochs(start, tmp_path):
    processes = start(tmp_path / "run", step_s=0.05, epoch_batches=1, steps=60, interval_s=0.01)
    send_when_running(processes, tmp_path / "run", signal.SIGUSR1, to=0)
    (stopped,) = results(processes)
    assert 3 <= stopped["stopped"] < 60
    resumed = results(
        start(
            tmp_path / "run",
            epoch_batches=1,
            steps=60,
            ckpt=tmp_path / "run" / "checkpoints" / "last.ckpt",
        )
    )
    whole = results(start(tmp_path / "whole", epoch_batches=1, steps=60))
    assert resumed[0]["step"] == whole[0]["step"] == 60
    assert resumed[0]["weights"] == whole[0]["weights"]
