# ruff: noqa: F811 (fixtures are imported by name)
"""What a job used of a node, from its cgroup, its processes and NVML; and the settings that would do."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig import env
from labrig.cluster.job import used
from labrig.cluster.job.used import (
    NodeUse,
    cgroup_cpu_s,
    cgroup_peak_bytes,
    processes_with,
    use_of_job,
)
from labrig.cluster.schedulers.site_draft import parse_megabytes, parse_seconds
from labrig.machine import resources
from labrig.record.read.attempt_files import AttemptFiles
from labrig.record.read.used import format_used, settings_that_would_do
from recorded_answers import lab, make_run  # noqa: F401
from stand_in_gpus import show_gpus  # noqa: F401

VERSION_2 = "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n"
VERSION_1 = "".join(
    f"{n}:{controller}:/slurm/uid_12/job_12/step_0/task_12\n"
    for n, controller in enumerate(("memory", "cpuacct"), start=3)
)
OTHERS = "0::/user.slice/user-12.slice/session-12.scope/uid_12/job_123/task_12\n"


@pytest.fixture
def cgroups(tmp_path, monkeypatch):
    """cgroups(text, {file: content}): what /proc/self/cgroup says, and the files below /sys/fs/cgroup."""

    def cgroups(own, files):
        monkeypatch.setattr(resources, "CGROUPS", tmp_path)
        monkeypatch.setattr(
            resources, "read_or_empty", lambda path: own if path == "/proc/self/cgroup" else ""
        )
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    return cgroups


def test_the_cgroup_of_the_whole_job_counts(cgroups):
    job = "system.slice/slurmstepd.scope/job_12"
    cgroups(
        VERSION_2,
        {
            f"{job}/memory.peak": "5000000\n",
            f"{job}/cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
            f"{job}/step_0/memory.peak": "1\n",
            f"{job}/step_0/cpu.stat": "usage_usec 1\n",
        },
    )
    assert use_of_job("12", "A=b") == used.JobUse(2.5, 5_000_000)
    assert use_of_job("12_3", "A=b").cpu_s == 2.5, "of an array"


def test_the_cgroups_of_version_1_count_too(cgroups):
    cgroups(
        VERSION_1,
        {
            "memory/slurm/uid_12/job_12/memory.max_usage_in_bytes": "7000\n",
            "cpuacct/slurm/uid_12/job_12/cpuacct.usage": "1500000000\n",
        },
    )
    assert use_of_job("12", "A=b") == used.JobUse(1.5, 7000)


@pytest.mark.parametrize("name", ["12.server", "12[3].pbs1", "job.12.3.4", "12.1"])
def test_other_schedulers_name_the_cgroup_after_the_job(cgroups, name):
    cgroups(f"0::/x/{name}\n", {f"x/{name}/memory.current": "9\n"})
    assert cgroup_peak_bytes("12") == 9


def test_the_cgroup_of_a_user_or_of_another_job_does_not_count(cgroups):
    folder = Path(OTHERS.strip().partition("::/")[2])
    files = [folder, *folder.parents][:-1]
    cgroups(OTHERS, {f"{place}/memory.peak": "9\n" for place in files})
    assert cgroup_peak_bytes("12") is None
    assert cgroup_cpu_s("12") is None
    assert cgroup_cpu_s("no number") is None


def test_without_a_cgroup_the_marked_processes_and_their_children_are_added_up(tmp_path):
    variable = f"LAB_RUN_DIR={tmp_path}"
    work = "block = bytearray(80_000_000)\nwhile time.process_time() < 0.4: pass\n"
    child = f"import time\n{work}print('ready', flush=True)\ntime.sleep(60)"
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}], env={{}})"
    marked = os.environ | {"LAB_RUN_DIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=marked, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            found = processes_with(variable)
            used = use_of_job("no number", variable)
        finally:
            for each in processes_with(variable):
                os.kill(each.pid, 9)
    assert len(found) == 2
    assert [each.pid for each in found if each.is_marked] == [process.pid]
    assert 0.3 <= used.cpu_s < 20  # in ticks, each rounded down
    assert 80e6 < used.memory_bytes < 300e6
    assert processes_with(variable) == []


@pytest.fixture
def node_use(tmp_path, monkeypatch):
    """node_use(job) is what is noted of the only node of a run whose job asked for `job`."""
    monkeypatch.setenv(env.JOB, "x")
    monkeypatch.setenv(env.JOB_STARTED, str(int(time.time()) - 100))
    (tmp_path / "attempts/1").mkdir(parents=True)
    return lambda job: NodeUse(SimpleNamespace(dir=tmp_path, record={"job": job}), 1, 0)


def test_gpus_that_never_worked_need_not_be_asked_for(node_use, show_gpus, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    node = node_use({"gpus": 2, "tasks_per_node": 1, "cpus_per_task": 8, "limit_s": 3600})
    idle = {"total_MB": 80_000, "used_MB": 500, "utilization_percent": 0, "processes": []}
    for percent in (80, 100, 0, 60):
        show_gpus(idle | {"utilization_percent": percent}, idle)
        node.look_at_gpus()
    node.look()
    node.write()
    assert not node.file.exists(), "the attempt has not begun"
    node.file.with_name("start.json").touch()
    node.write()
    assert json.loads(node.file.read_text())["gpu_percent"] == pytest.approx(30)
    line = format_used([node.used])
    assert re.fullmatch(r"0.0 of 8 cores, 0.0 GB, 2 GPUs at 30 %, 0:01:\d\d of 1:00:00", line)
    assert would_do(node.file.parents[2]) == "job.gpus=1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    node.look_at_gpus()
    assert would_do(node.file.parents[2], write=node) is None, "one of them was not seen"


def would_do(run_dir, status="finished", n_attempts=1, write=None):
    if write:
        write.write()
    attempts = [AttemptFiles(n, {}, {"status": status}, [], {}) for n in range(1, n_attempts + 1)]
    return settings_that_would_do(run_dir, attempts)


def test_a_later_look_never_lowers_the_most(node_use, monkeypatch):
    node = node_use({})
    uses = iter([used.JobUse(50.0, 9000), used.JobUse(10.0, 100)])
    monkeypatch.setattr("labrig.cluster.job.used.use_of_job", lambda *_: next(uses))
    node.look()
    node.seconds_before += 60
    node.look()
    assert node.used["memory_bytes"] == 9000
    assert node.used["cpu_s"] == 50.0
    assert node.used["busiest_cores"] == pytest.approx(0.5, abs=0.02)


ASKED = {
    "tasks_per_node": 2,
    "cpus_per_task": 8,
    "memory_MB": 64_000,
    "gpus": 0,
    "time_s": 36_000,
    "limit_s": 36_000,
    "typed": ["cpus_per_task", "mem"],
}
LITTLE = {"asked": ASKED, "seconds": 1800, "cpu_s": 1800, "memory_bytes": 4_500_000_000}


def note(run_dir, *nodes, n=1):
    folder = run_dir / "attempts" / str(n)
    folder.mkdir(parents=True, exist_ok=True)
    for index, node in enumerate(nodes):
        (folder / f"used-{index}.json").write_text(json.dumps(node))


def test_a_job_that_used_little_hears_which_settings_would_do(tmp_path):
    note(tmp_path, LITTLE)
    assert format_used([LITTLE]) == "1.0 of 16 cores, 4.5 of 64 GB, 0:30:00 of 10:00:00"
    assert would_do(tmp_path) == "job.cpus_per_task=1 job.mem=6G job.time=00:50:00"


@pytest.mark.parametrize("status", ["failed", "interrupted", "trained"])
def test_a_run_that_did_not_finish_hears_nothing(tmp_path, status):
    note(tmp_path, LITTLE)
    assert would_do(tmp_path, status) is None


def test_what_the_site_chose_is_not_to_be_lowered_and_neither_is_what_was_used(tmp_path):
    used = {"cpu_s": 8 * 20_000, "memory_bytes": 40_000_000_000, "seconds": 20_000}
    note(tmp_path / "a", LITTLE | used)
    assert would_do(tmp_path / "a") is None
    note(tmp_path / "b", LITTLE | {"asked": ASKED | {"typed": [], "time_s": 72_000}})
    assert would_do(tmp_path / "b") is None, "cores and memory of the site, a chunk of job.time"


def test_the_most_of_all_attempts_and_nodes_counts(tmp_path):
    busy = LITTLE | {"busiest_cores": 5.0}
    note(tmp_path, LITTLE, busy)
    note(tmp_path, LITTLE | {"memory_bytes": 9_000_000_000}, n=2)
    said = would_do(tmp_path, n_attempts=2)
    assert said == "job.cpus_per_task=4 job.mem=12G", "not the time, of which this is a part"


@settings(deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 64),
    st.floats(0, 70),
    st.floats(0, 1e12),
    st.floats(1, 40_000),
)
def test_no_setting_is_below_what_was_used_and_a_margin(tasks, cpus, cores, n_bytes, seconds):
    asked = ASKED | {"tasks_per_node": tasks, "cpus_per_task": cpus, "memory_MB": 1_000_000}
    used = {
        "asked": asked,
        "seconds": seconds,
        "busiest_cores": cores,
        "memory_bytes": int(n_bytes),
    }
    with TemporaryDirectory() as folder:
        note(Path(folder), used)
        said = dict(word.split("=") for word in (would_do(Path(folder)) or "").split())
    for name, value in said.items():
        if name == "job.cpus_per_task":
            assert 1.25 * cores / tasks <= int(value) <= cpus / 2
        elif name == "job.mem":
            assert 1.25 * int(n_bytes) / 1e6 <= parse_megabytes(value) <= 500_000
        else:
            limit_s = parse_seconds(value)
            assert name == "job.time"
            # it is warned a quarter before the end, and saves
            assert 1.25 * seconds <= 0.75 * limit_s
            assert limit_s <= 18_000


def test_the_line_of_a_large_job_fits_80_columns():
    asked = ASKED | {"gpus": 8, "tasks_per_node": 8, "memory_MB": 512_000, "limit_s": 72_000}
    node = {"asked": asked, "seconds": 36_153, "cpu_s": 12.34 * 36_153, "gpu_percent": 45.3}
    line = f"used {format_used([node | {'memory_bytes': 120_000_000_000}])}"
    assert line == "used 12.3 of 64 cores, 120.0 of 512 GB, 8 GPUs at 45 %, 10:02:33 of 20:00:00"
    assert len(line) <= 80


def test_an_older_record_has_no_line():
    assert format_used([]) is None
    assert format_used([{"seconds": 5.0}]) == "0.0 cores, 0.0 GB, 0:00:05"


@pytest.mark.slow
def test_show_prints_it_and_reads_it_as_an_enemy_wrote_it(lab):
    run = make_run(lab, 1, None, ends="finished")
    note(run, LITTLE)
    page = lab("runs", "show", run.name)
    assert "  used        1.0 of 16 cores, 4.5 of 64 GB, 0:30:00 of 10:00:00\n" in page
    assert "  enough      job.cpus_per_task=1 job.mem=6G job.time=00:50:00\n" in page
    for damage in ({"seconds": "long"}, {"cpu_s": 1e300}, {"asked": {"tasks_per_node": 0}}):
        note(run, LITTLE | damage)
        assert "  used  " not in lab("runs", "show", run.name)


@pytest.mark.release
@pytest.mark.slow
def test_a_job_whose_rank_is_killed_still_says_it(lab):
    words = ["site=workstation", "job.gpus=0", "job.time=00:10:00", "--json"]
    kill = "sleep 6; kill -KILL $PPID"  # after the first look
    sent = json.loads(lab("submit", *words, "--", "sh", "-c", kill).splitlines()[-1])
    log = Path(sent["log"])
    end_s = time.monotonic() + 180
    while "ended with code" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < end_s
        time.sleep(0.2)
    assert "\nused 0." in log.read_text()
    assert "enough" not in log.read_text()
    assert "  used        0." in lab("runs", "show", sent["run_id"])
