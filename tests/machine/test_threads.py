"""How many threads `trainer.threads=auto` is: the cores that others leave, and the same after a resume."""

import pytest
from in_process import BASELINE, composed
from labrig.machine import resources
from labrig.training.parts import settings


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """machine(idle=[share of each core], quota="max 100000") stands for this machine."""

    def machine(idle, quota="max 100000"):
        monkeypatch.setattr(resources, "own_cores", lambda: set(range(len(idle))))
        for name in ("CPU_STAT", "CGROUP", "OWN_CGROUP"):
            monkeypatch.setattr(resources, name, tmp_path / name)
        (tmp_path / "CGROUP/job").mkdir(parents=True)
        (tmp_path / "OWN_CGROUP").write_text("4:memory:/x\n0::/job\n")
        (tmp_path / "CGROUP/job/cpu.max").write_text(quota)
        stat = tmp_path / "CPU_STAT"
        stat.write_text(ticks([0] * len(idle), 0))
        passed = ticks([round(1000 * share) for share in idle], 1000)
        monkeypatch.setattr(resources.time, "sleep", lambda seconds: stat.write_text(passed))

    return machine


def ticks(idle, total):
    lines = [f"cpu{n} {total - ticks} 0 0 {ticks} 0 0 0 0 0 0" for n, ticks in enumerate(idle)]
    return "\n".join(["cpu  1 2 3 4", *lines, "intr 5"])


@pytest.mark.parametrize(
    ("idle", "n_threads"),
    [
        ([1.0] * 8, 8),
        # A desktop that does little.
        ([0.9, 0.8, 0.7, 1.0], 4),
        ([1.0, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], 3),
        ([0.0, 0.0], 1),
    ],
)
def test_others_keep_their_cores(machine, idle, n_threads):
    machine(idle)
    assert resources.unused_cores() == n_threads


def test_a_container_has_its_quota(machine):
    machine([1.0] * 8, quota="250000 100000")
    assert (resources.cores(), resources.unused_cores()) == (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("idle", "is_said"), [([1.0] * 4, False), ([1.0, 1.0, 0.0, 0.0], True)])
def test_fewer_threads_than_cores_are_said(machine, monkeypatch, capsys, home, idle, is_said):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    machine(idle)
    config = composed(home, *BASELINE, "trainer.threads=auto")
    n_threads = settings.resolve_settings(config, {}).config.trainer.threads
    assert (f"To pin it: trainer.threads={n_threads}" in capsys.readouterr().out) == is_said


def test_without_a_measure_all_cores_are_used(machine, monkeypatch, tmp_path):
    machine([0.0, 0.0])
    (tmp_path / "CPU_STAT").unlink()
    monkeypatch.setattr(resources.time, "sleep", lambda seconds: None)
    assert resources.unused_cores() == 2


@pytest.mark.slow
def test_a_resumed_attempt_keeps_its_threads(home, machine, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    machine([0.0] * 4)
    config = composed(home, *BASELINE, "trainer.threads=auto")
    assert settings.resolve_auto(config, {}).trainer.threads == 1
    assert settings.resolve_auto(config, {"threads": 3}).trainer.threads == 3
    assert settings.resolve_auto(config, {"threads": 9}).trainer.threads == 4, "there are no more"
