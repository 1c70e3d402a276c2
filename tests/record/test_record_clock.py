"""Clocks that jump, hosts of other time zones: the order of runs holds, and no duration is negative."""

import json
import os
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from labrig.errors import LabError
from labrig.record.read import order
from labrig.record.read.attempt_files import read_attempts
from labrig.record.read.find import find_run
from labrig.record.read.rows import read_rows
from labrig.record.write.begin import begin_attempt
from record_package import call, create, make_project

HOUR_S = 3600


class Clock:
    """The wall clock of this process, set by so many seconds; the monotonic one continues."""

    def __init__(self, monkeypatch):
        self.set_by_s = 0.0
        real, real_ns, gmtime = time.time, time.time_ns, time.gmtime
        monkeypatch.setattr(time, "time", lambda: real() + self.set_by_s)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(self.set_by_s * 1e9))
        monkeypatch.setattr(
            time, "gmtime", lambda s=None: gmtime(real() + self.set_by_s if s is None else s)
        )


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def time_zone(monkeypatch):
    def move_to(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move_to
    monkeypatch.undo()
    time.tzset()


def ids(project):
    return [row["run_id"] for row in read_rows([project.root / "runs"])]


@pytest.mark.slow
def test_the_newest_run_is_last_whatever_the_clock_says(project, clock):
    made = []
    for set_by_s in (0, -HOUR_S, 5 * HOUR_S, 0, 0, -20 * HOUR_S):
        clock.set_by_s = set_by_s
        made.append(create(project).id)
        assert find_run([project.root / "runs"], "@last").id == made[-1]
    assert ids(project) == made[::-1]
    assert sorted(made) != made, "the ids say what the clock said"
    assert len(os.listdir(project.root / "runs/.order")) == 1


@pytest.mark.slow
def test_hosts_of_other_time_zones(project, time_zone):
    made = []
    for zone in ("Asia/Tokyo", "UTC", "America/Los_Angeles"):
        time_zone(zone)
        made.append(create(project).id)
        assert find_run([project.root / "runs"], "@last").id == made[-1]
    assert ids(project) == made[::-1]
    now = datetime.now(UTC)
    for run_id in made:
        written = datetime.strptime(run_id[:15] + "+0000", "%Y%m%d-%H%M%S%z")
        assert timedelta(0) <= now - written < timedelta(minutes=5)


@pytest.mark.slow
def test_runs_of_an_older_version_keep_their_order(project):
    """Their ids are in local time; they have no place in the order, only `created`."""
    made = [create(project) for _ in range(2)]
    zone = timezone(timedelta(hours=9))
    for minutes_ago, run in ((60, made[0]), (30, made[1])):
        created = datetime.now(zone) - timedelta(minutes=minutes_ago)
        record = json.loads((run.dir / "run.json").read_text())
        del record["order_unix_ms"]
        record["created"] = created.isoformat(timespec="milliseconds")
        record["run_id"] = f"{created:%Y%m%d-%H%M%S}-{run.id[-6:]}"
        (run.dir / "run.json").write_text(json.dumps(record))
        run.dir.rename(run.dir.with_name(record["run_id"]))
    for mark in (project.root / "runs/.order").iterdir():
        mark.unlink()
    old = ids(project)
    assert [run_id[-6:] for run_id in old] == [made[1].id[-6:], made[0].id[-6:]]
    assert find_run([project.root / "runs"], "@last").dir.name == old[0]
    new = create(project)
    assert new.id < old[0], "nine hours, in UTC"
    assert find_run([project.root / "runs"], "@last").id == new.id
    assert ids(project) == [new.id, *old]


@pytest.mark.slow
def test_the_newest_run_was_deleted(project, clock):
    first = create(project).id
    clock.set_by_s = -HOUR_S
    second, third = create(project), create(project)
    third.dir.rename(project.root / "gone")
    assert find_run([project.root / "runs"], "@last").id == second.id
    assert ids(project) == [second.id, first]


def test_a_run_after_all_that_were_there_also_when_hosts_create_at_once(tmp_path):
    """Sixteen processes with clocks an hour apart: who begins after another ended comes after it."""
    runs = tmp_path / "runs"
    children = []
    for n in range(16):
        child = os.fork()
        if not child:
            try:
                real_ns = time.time_ns
                order.time.time_ns = lambda: real_ns() + (n % 5 - 2) * HOUR_S * 10**9  # noqa: B023
                for k in range(6):
                    began = time.monotonic_ns()
                    place = order.next_order_unix_ms(runs, lambda: 0)
                    done = time.monotonic_ns()
                    (tmp_path / f"{n}-{k}").write_text(json.dumps([began, done, place]))
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    made = sorted(json.loads(path.read_text()) for path in tmp_path.glob("*-*"))
    assert len({place for _, _, place in made}) == len(made) == 96
    for began, _, place in made:
        before = [other for _, done, other in made if done < began]
        assert place > max(before, default=0)


def test_durations_when_the_clock_is_set_back(project, clock, capsys):
    run = create(project)
    attempt = begin_attempt(run, project)
    clock.set_by_s = -HOUR_S
    attempt.touch_heartbeat()
    assert 0 <= read_attempts(run.dir)[0].until_now["seconds"] < 60
    attempt.end("finished")
    end = read_attempts(run.dir)[0].end
    assert 0 <= end["seconds"] < 60
    assert end["gpu_seconds"] == 0
    call(project, "runs cost")
    assert "-" not in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.slow
def test_a_run_is_named_by_its_place_before_the_last(project):
    """audit-2, defect 7: @last~1 was "no run"."""
    made = [create(project).id for _ in range(3)]
    roots = [project.root / "runs"]
    assert [find_run(roots, f"@last~{n}").id for n in range(3)] == made[::-1]
    with pytest.raises(LabError, match=r"@last~3 needs 4 runs, but there are 3"):
        find_run(roots, "@last~3")
    with pytest.raises(LabError, match=r"no run '@last~'"):
        find_run(roots, "@last~")
