# ruff: noqa: F811 (fixtures are imported by name)
"""Several people on a machine without a scheduler: real users, each with processes of their own. Needs root."""

import json
import os
import pwd
import signal
import tempfile
import time
import traceback
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest
from labrig import env
from labrig.cluster.schedulers import gpu_lease
from labrig.cluster.schedulers.gpu_lease import (
    Wish,
    lease_directory,
    numbers,
    wait_for_gpus,
    waiting_jobs,
)
from labrig.cluster.watch.top import format_gpus
from labrig.machine.gpu import gpus
from record_package import unprivileged
from stand_in_gpus import show_gpus  # noqa: F401  the fixture

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can start processes of other users"
)
FREE = {"total_MB": 1000, "used_MB": 0}
ANN, BEN, EVE = "daemon", "nobody", "games"  # users that every Debian has


@pytest.fixture(autouse=True)
def shared(monkeypatch, show_gpus):
    """A machine with two GPUs, and a directory of leases that all its users reach."""
    folder = tempfile.TemporaryDirectory()
    os.chmod(folder.name, 0o755)
    monkeypatch.setenv(env.GPU_LEASES, f"{folder.name}/leases")
    monkeypatch.setattr(gpu_lease, "POLL_S", 0.05)
    show_gpus(FREE, FREE)
    lease_directory()
    yield
    folder.cleanup()


@dataclass
class Job:
    pid: int
    reader: int

    def gpu(self, timeout_s=30):
        """Which GPU it has; None while it waits."""
        os.set_blocking(self.reader, False)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                return int(os.read(self.reader, 10))
            except BlockingIOError:
                time.sleep(0.02)
        return None

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pid = None


@contextmanager
def job_of(name, umask=0o022):
    """A process of a user, with no rights beyond theirs, that wants a GPU and keeps it."""
    user = pwd.getpwnam(name)
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            os.umask(umask)
            leased = wait_for_gpus(Wish(1), f"run-of-{name}")
            os.write(writer, str(leased[0].index).encode())
            signal.pause()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    job = Job(pid, reader)
    try:
        yield job
    finally:
        if job.pid:
            job.kill()
        os.close(reader)


def wait_for_line(n):
    deadline = time.monotonic() + 30
    while len(numbers(lease_directory() / "line")) != n:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_lock_is_for_all_from_its_first_moment(monkeypatch):
    """Else another user who comes right then is refused, and the job ends."""
    path = lease_directory() / "deciding"
    modes = []
    link = os.link

    def watched_link(source, target):
        link(source, target)
        modes.append(path.stat().st_mode & 0o777)

    monkeypatch.setattr(os, "link", watched_link)
    before = os.umask(0o077)
    try:
        os.close(gpu_lease.lock(path))
    finally:
        os.umask(before)
    assert modes == [0o666]
    assert [name for name in os.listdir(path.parent) if name not in ("line", "deciding")] == []


@pytest.mark.slow
def test_nobody_gets_anothers_gpu_and_first_come_is_first_served(tmp_path):
    with ExitStack() as jobs:
        ann = jobs.enter_context(job_of(ANN))
        ben = jobs.enter_context(job_of(BEN, umask=0o077))
        assert {ann.gpu(), ben.gpu()} == {0, 1}
        eve = jobs.enter_context(job_of(EVE, umask=0o077))
        wait_for_line(1)
        late = jobs.enter_context(job_of(ANN))
        wait_for_line(2)
        line = lease_directory() / "line"
        # a place is seen by others too, whatever the umask
        (tmp_path / "theirs").mkdir()
        seen = unprivileged(tmp_path / "theirs", lambda: [job.user for job in waiting_jobs(line)])
        assert seen == [EVE, ANN]
        ben.kill()
        assert eve.gpu() is not None
        assert late.gpu(timeout_s=0.5) is None


@pytest.mark.slow
def test_nobody_waits_behind_all_jobs_of_somebody_else():
    with ExitStack() as jobs:
        of_ann = [jobs.enter_context(job_of(ANN)) for _ in range(2)]
        assert {job.gpu() for job in of_ann} == {0, 1}
        more = [jobs.enter_context(job_of(ANN)) for _ in range(2)]
        wait_for_line(2)
        ben = jobs.enter_context(job_of(BEN))
        wait_for_line(3)
        of_ann[0].kill()
        assert ben.gpu() is not None
        assert [job.gpu(timeout_s=0.3) for job in more] == [None, None]


@pytest.mark.slow
def test_a_gpu_that_is_lost_ends_nobodys_waiting(monkeypatch):
    now = lease_directory().parent / "gpus.json"

    def show(*gpus):
        new = now.with_suffix(".new")
        new.write_text(json.dumps(gpus))
        new.chmod(0o644)
        new.rename(now)

    show(FREE, FREE)
    monkeypatch.setenv("STAND_IN_GPUS", str(now))
    with job_of(ANN) as ann, job_of(BEN) as ben:
        of_gpu = {ann.gpu(): ann, ben.gpu(): ben}
        assert set(of_gpu) == {0, 1}
        with job_of(EVE) as eve:
            wait_for_line(1)
            show(FREE, FREE | {"is_lost": True})
            time.sleep(1)  # a look that began before is over
            of_gpu[1].kill()
            assert eve.gpu(timeout_s=0.5) is None, "it is lost"
            shown = [line.split()[0] for line in format_gpus(gpus())]
            assert shown == ["GPU", "0", "1"], "the other GPU, and 1 job that waits"
            of_gpu[0].kill()
            assert eve.gpu() == 0


def test_everybody_sees_who_uses_what(show_gpus, tmp_path):
    with job_of(ANN) as ann, job_of(BEN) as ben:
        places = {ann.gpu(): (ann, ANN), ben.gpu(): (ben, BEN)}
        busy = [FREE | {"used_MB": 900, "processes": [[places[n][0].pid, 800]]} for n in (0, 1)]
        show_gpus(*busy)
        (tmp_path / "theirs").mkdir()
        for lines in (
            format_gpus(gpus()),
            # whom another user's environment is closed to
            unprivileged(tmp_path / "theirs", lambda: format_gpus(gpus())),
        ):
            assert len(lines) == 3
            for n in (0, 1):
                assert places[n][1] in lines[n + 1]
                assert f"run-of-{places[n][1]}" in lines[n + 1]


def test_the_name_of_a_lease_is_not_what_a_variable_says(monkeypatch):
    monkeypatch.setenv("LOGNAME", "root")
    with job_of(ANN) as ann:
        n = ann.gpu()
        assert gpu_lease.read_lease(gpus()[n]).user == ANN
