"""GPUs of a machine without a scheduler: nobody gets one twice, first come is first served, a crash frees all."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import pytest
from labrig import env
from labrig.cluster.schedulers import gpu_lease
from labrig.cluster.schedulers.gpu_lease import (
    Lease,
    Waiting,
    Wish,
    in_order,
    lease_directory,
    lease_gpus,
    lock,
    may_start,
    place_in_line,
    read_lease,
)
from labrig.cluster.schedulers.job import JobRequest, link_array_logs
from labrig.cluster.schedulers.local import Local
from labrig.cluster.watch import top as top_command
from labrig.cluster.watch import top as top_in_job
from labrig.errors import LabError, Refused
from labrig.machine.gpu import Gpu, gpus
from labrig.project import say_once
from projects import SOURCE
from record_package import unprivileged
from stand_in_gpus import STAND_INS, show_gpus  # noqa: F401  the fixture

TWO_GPUS = [{"total_MB": 1000, "used_MB": 0}] * 2
# A job script: writes which GPUs it has, then waits for the signal to end.
SCRIPT = """
echo "$CUDA_VISIBLE_DEVICES" >"$1.gpus.tmp"; mv "$1.gpus.tmp" "$1.gpus"
while [ ! -e "$1.end" ]; do sleep 0.05; done
"""


@pytest.fixture
def machine(tmp_path, monkeypatch, show_gpus):  # noqa: F811
    """start(name, n_gpus): a job on a machine with two GPUs. All end with the test."""
    shared = tempfile.TemporaryDirectory()  # another user may enter it, unlike tmp_path
    os.chmod(shared.name, 0o755)
    monkeypatch.setenv(env.GPU_LEASES, f"{shared.name}/leases")
    monkeypatch.setenv("PYTHONPATH", f"{STAND_INS}:{SOURCE}")
    monkeypatch.setattr(gpu_lease, "POLL_S", 0.05)
    show_gpus(*TWO_GPUS)
    started = []

    def start(name, n_gpus, limit_s="inf"):
        script = tmp_path / f"run-{name}/job.sh"
        script.parent.mkdir()
        script.write_text(SCRIPT.replace("$1", str(tmp_path / name)))
        program = (
            "from labrig.cluster.schedulers import gpu_lease as g; import sys; g.POLL_S = 0.05; "
        )
        program += "g.main(sys.argv[1:])"
        words = [sys.executable, "-c", program, str(n_gpus), "", limit_s, "", str(script)]
        environment = os.environ | {env.INDEX: "0"}
        process = subprocess.Popen(words, start_new_session=True, env=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    shared.cleanup()


def gpus_of(folder, name, timeout_s=60):
    """The GPUs that a job has; None while it waits."""
    file = folder / f"{name}.gpus"
    deadline = time.monotonic() + timeout_s
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return file.read_text().strip() if file.exists() else None


def n_in_line():
    return len(gpu_lease.numbers(lease_directory() / "line"))


def wait_for_line(n):
    deadline = time.monotonic() + 60
    while n_in_line() != n:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_jobs_at_once_never_share_a_gpu(machine, tmp_path):
    machine("a", 1)
    machine("b", 1)
    assert {gpus_of(tmp_path, "a"), gpus_of(tmp_path, "b")} == {"0", "1"}


@pytest.mark.slow
def test_first_come_is_first_served(machine, tmp_path):
    machine("a", 1)
    assert gpus_of(tmp_path, "a") == "0"
    machine("both", 2)
    wait_for_line(1)
    machine("c", 1)
    wait_for_line(2)
    # a GPU is free, and the first in line wants two: nobody overtakes it
    assert gpus_of(tmp_path, "c", timeout_s=0.5) is None
    (tmp_path / "a.end").touch()
    assert gpus_of(tmp_path, "both") == "0,1"
    assert gpus_of(tmp_path, "c", timeout_s=1) is None
    (tmp_path / "both.end").touch()
    assert gpus_of(tmp_path, "c") in ("0", "1")
    wait_for_line(0)


def test_a_killed_job_frees_its_gpus_and_its_place(machine, tmp_path):
    holder = machine("a", 2)
    assert gpus_of(tmp_path, "a") == "0,1"
    waiter = machine("b", 2)
    wait_for_line(1)
    machine("c", 1)
    wait_for_line(2)
    waiter.kill()
    waiter.wait()
    os.killpg(holder.pid, signal.SIGKILL)
    assert gpus_of(tmp_path, "c") in ("0", "1")


@pytest.mark.slow
def test_a_gpu_that_somebody_uses_without_a_lease_is_left_alone(machine, show_gpus, tmp_path):  # noqa: F811
    show_gpus({"total_MB": 1000, "used_MB": 900}, {"total_MB": 1000, "used_MB": 0})
    machine("a", 1)
    assert gpus_of(tmp_path, "a") == "1"
    machine("b", 1)
    assert gpus_of(tmp_path, "b", timeout_s=1) is None


def test_a_large_gpu_in_use_does_not_hide_a_small_one_that_is_idle(machine, show_gpus):  # noqa: F811
    show_gpus({"total_MB": 80_000, "used_MB": 41_000}, {"total_MB": 24_000, "used_MB": 0})
    leased = lease_gpus(lease_directory(), Wish(1), "run", gpus())
    assert [gpu.index for gpu in leased] == [1]
    assert lease_gpus(lease_directory(), Wish(1, need_MB=39_500), "run", gpus()) == []


@pytest.mark.parametrize("use", [{"utilization_percent": 100}, {"processes": [[4_000_000, 1000]]}])
def test_a_gpu_on_which_a_stranger_computes_is_left_alone(machine, show_gpus, use):  # noqa: F811
    show_gpus({"total_MB": 80_000, "used_MB": 38_000} | use)
    assert lease_gpus(lease_directory(), Wish(1), "run", gpus()) == []


def test_a_lost_gpu_is_left_out_and_the_others_work(machine, show_gpus, tmp_path, capfd):  # noqa: F811
    show_gpus({"total_MB": 1000, "used_MB": 0}, {"total_MB": 1000, "used_MB": 0, "is_lost": True})
    machine("a", 1)
    assert gpus_of(tmp_path, "a") == "0"
    assert "GPU 1 does not answer (GPU is lost)" in (tmp_path / "run-a/job.log").read_text()
    say_once.cache_clear()
    assert top_command.top_command(None, []) == 0
    assert "it is left out. Tell who runs this machine" in capfd.readouterr().err


def test_files_of_others_in_the_line_do_no_harm(machine, tmp_path):
    for name in ("\u00b2", "12", "note.txt"):
        (lease_directory() / "line" / name).touch()
    machine("a", 1)
    assert gpus_of(tmp_path, "a") in ("0", "1")


def test_what_goes_wrong_in_the_line_stands_in_the_log(machine, tmp_path, monkeypatch):
    monkeypatch.setenv(env.GPU_LEASES, str(tmp_path / "file"))
    (tmp_path / "file").touch()
    assert machine("a", 1).wait(60) == 1
    assert (
        "must be a directory that every user may write to"
        in (tmp_path / "run-a/job.log").read_text()
    )


def order_of(jobs, leases=(), held=()):
    return [job.number for job in in_order(jobs, list(leases), list(held))]


def test_who_holds_fewer_gpus_and_was_served_longest_ago_comes_first():
    jobs = [Waiting(n, user, Wish(1)) for n, user in enumerate(["ann", "ann", "ben", "eve"])]
    assert order_of(jobs) == [0, 1, 2, 3], "who came first"
    of_ann = Lease("ann", 1, "run", 100.0)
    of_ben = Lease("ben", 2, "run", 50.0)
    assert order_of(jobs, [of_ann, of_ben], [of_ann]) == [3, 2, 0, 1]


SIXTEEN = Gpu(0, "big", "", 16_000, 0)
TWO = [SIXTEEN, replace(SIXTEEN, index=1, uuid="other")]


@pytest.mark.parametrize(
    ("limit_s", "ends_unix_s", "starts"),
    [(60, 100.0, True), (101, 100.0, False), (None, 100.0, False), (60, None, False)],
)
def test_a_gap_is_filled_where_the_first_in_line_starts_no_later(limit_s, ends_unix_s, starts):
    """One GPU is free, the first wants both, and the other is leased until second 100."""
    order = [Waiting(1, "ann", Wish(2)), Waiting(2, "ben", Wish(1, limit_s=limit_s))]
    held = {"other": Lease("eve", 1, "run", 0.0, ends_unix_s)}
    assert may_start(1, order, TWO, held, 0.0)
    assert may_start(2, order, TWO, held, 0.0) is starts


def test_gpus_that_the_first_in_line_leaves_over_are_for_the_next():
    four = [replace(SIXTEEN, index=n, uuid=str(n)) for n in range(4)]
    held = {"0": Lease("eve", 1, "run", 0.0, 100.0), "1": Lease("eve", 1, "run", 0.0, 100.0)}
    order = [Waiting(1, "ann", Wish(3)), Waiting(2, "ben", Wish(1, limit_s=1e6))]
    assert may_start(2, order, four, held, 0.0)
    assert not may_start(2, [order[0], Waiting(2, "ben", Wish(2, limit_s=1e6))], four, held, 0.0)
    too_large = [Waiting(1, "ann", Wish(5)), order[1]]
    assert may_start(2, too_large, four, held, 0.0), "nobody waits for what cannot be served"


@pytest.fixture
def array(machine, tmp_path):
    """array(throttle): three runs of a GPU each, of which the first two have started; their ids."""
    started = []

    def array(throttle, n_running):
        folders = [tmp_path / f"run-{n}" for n in range(3)]
        for folder in folders:
            folder.mkdir()
        link_array_logs(folders, first_index=0)
        script = folders[0] / "job.sh"
        text = 'echo "$CUDA_VISIBLE_DEVICES" >$1.tmp; mv $1.tmp $1; sleep 60\n'
        script.write_text(text.replace("$1", f'{tmp_path}/"$LAB_INDEX".gpus'))
        request = JobRequest("x", 1, 1, 1, 1, 60, 0)
        started.extend(Local().send(request, script, 3, throttle))
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("*.gpus"))) < n_running and time.monotonic() < deadline:
            time.sleep(0.05)
        return started

    yield array
    for job_id in started:
        os.killpg(int(job_id.partition("-")[0]), signal.SIGKILL)


@pytest.mark.slow
def test_the_runs_of_an_array_take_all_free_gpus(array, tmp_path):
    job_ids = array(throttle=8, n_running=2)
    files = list(tmp_path.glob("*.gpus"))
    assert sorted(gpus_of(tmp_path, file.stem) for file in files) == ["0", "1"]
    states = [Local().jobs()[job_id] for job_id in job_ids]
    assert sorted(state.state for state in states) == ["queued", "running", "running"]
    assert {state.reason for state in states} == {"", "it waits in line for GPUs: lab top"}
    # each lease names its own run, not the first of the array
    leases = {read_lease(gpu).run_id for gpu in gpus()}
    assert leases == {f"run-{file.stem}" for file in files}


def test_an_array_leaves_the_line_to_others_beyond_its_throttle(array, machine, tmp_path):
    array(throttle=1, n_running=1)
    machine("a", 1)  # came last, and yet is served before the rest of the array
    assert gpus_of(tmp_path, "a") in ("0", "1")
    assert n_in_line() == 0
    assert len(list(tmp_path.glob("[012].gpus"))) == 1


def test_another_users_leases_hold(machine, tmp_path):
    machine("a", 1)
    assert gpus_of(tmp_path, "a") == "0"

    def as_another_user():
        directory = lease_directory()
        assert lock(directory / "GPU-0") is None
        assert lock(directory / "GPU-1") is not None
        with place_in_line(directory / "line", Wish(1)) as number:
            assert number == 1

    (tmp_path / "theirs").mkdir()
    unprivileged(tmp_path / "theirs", as_another_user)


def test_a_directory_that_is_not_for_all_is_refused(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(env.GPU_LEASES, str(tmp_path / "file"))
    with pytest.raises(Refused, match="must be a directory that every user may write to"):
        lease_directory()
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv(env.GPU_LEASES, str(tmp_path / "link"))
    with pytest.raises(Refused, match="LAB_GPU_LEASES"):
        lease_directory()


def test_top_shows_who_uses_what(machine, show_gpus, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setenv(env.RUN_DIR, "/runs/baseline/20260101-000000-aaaaaa")
    worker = subprocess.Popen(["sleep", "60"])
    monkeypatch.delenv(env.RUN_DIR)
    busy = {"total_MB": 80_000, "used_MB": 30_000, "utilization_percent": 97, "power_mW": 300_400}
    busy["processes"] = [[worker.pid, 29_000], [4_000_000, 1_000]]
    show_gpus(busy, {"total_MB": 1000, "used_MB": 0})
    try:
        machine("a", 1)
        assert gpus_of(tmp_path, "a") in ("0", "1")
        assert top_command.top_command(None, []) == 0
    finally:
        worker.kill()
        worker.wait()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "97 %   30000 / 80000   300" in lines[1]
    assert "20260101-000000-aaaaaa" in lines[1]
    assert "run-a" in "".join(lines)
    show_gpus()
    assert top_command.top_command(None, []) == 1


def test_top_of_a_job_asks_each_of_its_nodes(monkeypatch):
    asked = []

    def answer(*command):
        asked.append(command)
        return "57\n"

    monkeypatch.setattr(top_in_job, "run_scheduler_command", answer)
    job = {"scheduler": "slurm", "id": "40_2", "nodes": 2, "script": "/runs/it's/job.sh"}
    command = top_in_job.step_command(job, "c1", watch=False)
    assert "--jobs=40_2" in asked[0]  # a step needs the number of the job, not 40_2
    assert command[:2] == ["srun", "--jobid=57"]
    assert {"--overlap", "--nodes=2", "--ntasks=2", "--label"} < set(command)
    # the script knows the environment of the job
    assert command[-6:] == ["bash", "/runs/it's/job.sh", "python", "-m", "labrig", "top"]
    with pytest.raises(LabError, match="Log in to its node and type it there: ssh c1"):
        top_in_job.step_command(job | {"scheduler": "pbs"}, "c1", watch=False)


def test_a_lease_that_ended_is_none(machine, tmp_path):
    machine("a", 2)
    assert gpus_of(tmp_path, "a") == "0,1"
    assert [read_lease(gpu).run_id for gpu in gpus()] == ["run-a", "run-a"]
    (tmp_path / "a.end").touch()
    deadline = time.monotonic() + 30
    while any(read_lease(gpu) for gpu in gpus()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [read_lease(gpu) for gpu in gpus()] == [None, None]
    assert json.loads((lease_directory() / "GPU-0").read_text())["run_id"] == "run-a"
