"""A signal to any rank stops all ranks at one step with a checkpoint; training goes on from it bit for bit."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
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
            )
            for rank in range(world)
        ]
        started.extend(ranks)
        return ranks

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def send_when_running(processes, run_dir, signum, to):
    end_s = time.monotonic() + 120
    while not all((run_dir / f"running-{rank}").exists() for rank in range(len(processes))):
        assert time.monotonic() < end_s, "training did not reach its third step within 120 s"
        assert all(process.poll() is None for process in processes), processes[0].communicate()[1]
        time.sleep(0.05)
    processes[to].send_signal(signum)


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
    resumed = results(start(tmp_path / "cut", world=2, ckpt=tmp_path / "cut" / "checkpoints" / "last.ckpt"))
    expected = results(whole)
    assert expected[0]["step"] == resumed[0]["step"] == 40
    assert resumed[0]["weights"] == expected[0]["weights"] == resumed[1]["weights"]


def test_no_collective_is_added_per_step(start, tmp_path):
    ranks = results(start(tmp_path / "run", world=2, steps=100, interval_s=1000, epoch_batches=200))
    for rank in ranks:
        assert rank["step"] == 100
        assert rank["calls"]["broadcast"] == 0  # stock Lightning 2.6: one per step
        assert rank["calls"]["all_reduce"] <= 3  # the agreement after the first batch, and what ends fit


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
        start(tmp_path / "run", accumulate=4, steps=30, ckpt=tmp_path / "run" / "checkpoints" / "last.ckpt")
    )
    whole = results(start(tmp_path / "whole", accumulate=4, steps=30))
    assert resumed[0]["weights"] == whole[0]["weights"]


def test_epochs_of_one_batch_stop_between_epochs(start, tmp_path):
    processes = start(tmp_path / "run", step_s=0.05, epoch_batches=1, steps=60, interval_s=0.01)
    send_when_running(processes, tmp_path / "run", signal.SIGUSR1, to=0)
    (stopped,) = results(processes)
    assert 3 <= stopped["stopped"] < 60
    resumed = results(
        start(tmp_path / "run", epoch_batches=1, steps=60, ckpt=tmp_path / "run" / "checkpoints" / "last.ckpt")
    )
    whole = results(start(tmp_path / "whole", epoch_batches=1, steps=60))
    assert resumed[0]["step"] == whole[0]["step"] == 60
    assert resumed[0]["weights"] == whole[0]["weights"]
