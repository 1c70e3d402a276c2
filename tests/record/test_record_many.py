"""Ten thousand runs: the cache changes how fast they are listed, never what is listed."""

import json
import os
import shutil

import pytest
from labrig.record.keep.annotate import annotate
from labrig.record.read import row_cache
from labrig.record.read import rows as index
from labrig.record.read.fields import FIELDS
from labrig.record.read.filters import parse_filter, sort_rows
from labrig.record.read.find import find_run
from labrig.record.read.run import Run
from records import whole_record

N = 10_000


def make_runs(runs, n):
    """`n` ended runs of 20 trials, as Attempt.end leaves them."""
    for k in range(n):
        run_id = f"20260101-{k // 3600:02}{k // 60 % 60:02}{k % 60:02}-{k:06x}"
        folder = runs / f"trial{k % 20}" / run_id
        folder.mkdir(parents=True)
        about = {
            "format": 1,
            "run_id": run_id,
            "trial": f"trial{k % 20}",
            "created": f"2026-01-01T{k:05}",
        }
        metrics = {"val/loss": k / n, "val/acc": 1 - k / n, "train/loss": 0.5}
        state = ("finished", "finished", "finished", "failed")[k % 4]
        more = {
            "who": "ann",
            "why": None,
            "seconds": 10.0,
            "gpu_seconds": 0.0,
            "code": {"commit": "ab" * 20},
        }
        text = json.dumps(about | more | {"status": state, "metrics": metrics})
        (folder / "summary.json").write_text(text)
        (folder / "run.json").write_text(
            json.dumps(whole_record(**about, code={"commit": "ab" * 20}))
        )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many") / "runs"
    make_runs(folder, N)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the cache of this test lies."""
    monkeypatch.setattr(row_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"lab-{os.getuid()}"


def plainly(runs):
    """The rows read one by one."""
    found = [index.read_row(directory) for directory in index.run_directories(runs)]
    return sorted(found, key=lambda row: row["run_id"])


def listed(runs):
    return sorted(index.read_rows([runs]), key=lambda row: row["run_id"])


@pytest.mark.release
@pytest.mark.slow
def test_cold_and_warm_agree_with_the_files(runs, place, monkeypatch):
    expected = plainly(runs)
    assert listed(runs) == expected
    reads = []
    real = index.read_row
    monkeypatch.setattr(index, "read_row", lambda *given: reads.append(given) or real(*given))
    assert listed(runs) == expected
    assert not reads
    changed = runs / "trial0/20260101-000000-000000"
    summary = json.loads((changed / "summary.json").read_text())
    (changed / "summary.json").write_text(json.dumps(summary | {"status": "interrupted"}))
    annotate(Run.open(runs / "trial1/20260101-000001-000001"), tag="paper")
    assert listed(runs)[0]["status"] == "interrupted"
    assert find_run([runs], "paper").id == "20260101-000001-000001"
    assert len({given[0] for given in reads}) == 2
    (changed / "summary.json").write_text(json.dumps(summary))


@pytest.mark.release
@pytest.mark.slow
def test_filter_and_sort(runs, place):
    known = index.read_rows([runs])
    wanted = [parse_filter(text) for text in ("trial=trial3", "val/loss<0.1", "status=failed")]
    found = [row for row in known if all(each.matches(row) for each in wanted)]
    numbers = [k for k in range(N // 10) if k % 20 == 3 and k % 4 == 3]
    assert len(found) == len(numbers)
    best = sort_rows(known, "val/loss")
    assert [row["metrics"]["val/loss"] for row in best[:3]] == [0, 1e-4, 2e-4]
    assert sort_rows(known, "val/acc")[0]["run_id"] == best[0]["run_id"]
    assert find_run([runs], "@best:val/loss").id == best[0]["run_id"]


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["garbage", "cut", "one bit", "older", "read-only", "no place"])
def test_any_harm_to_the_cache_changes_nothing(tmp_path, place, monkeypatch, harm):
    runs = tmp_path / "runs"
    make_runs(runs, 400)
    expected = plainly(runs)
    assert listed(runs) == expected
    path = next(place.glob("*.rows"))
    match harm:
        case "garbage":
            path.write_bytes(b"no database " * 1000)
        case "cut":
            path.write_bytes(path.read_bytes()[:9000])
        case "one bit":
            content = bytearray(path.read_bytes())
            content[5000] ^= 4
            path.write_bytes(content)
        case "older":
            older = row_cache.header_of(FIELDS[1:])
            path.write_bytes(path.read_bytes().replace(row_cache.HEADER, older, 1))
        case "read-only":
            os.utime(runs / "trial0/20260101-000000-000000/summary.json")
            monkeypatch.setattr(row_cache.Path, "write_bytes", refuse)
        case "no place":
            shutil.rmtree(place)
            place.write_text("a file")
    assert listed(runs) == expected
    assert listed(runs) == expected
    if harm not in ("read-only", "no place"):
        assert len(row_cache.load_entries(runs)) == 400


def refuse(*_):
    raise OSError(30, "Read-only file system")


def test_somebody_elses_cache_is_not_used(tmp_path, place):
    runs = tmp_path / "runs"
    make_runs(runs, 400)
    (tmp_path / "theirs").mkdir()
    place.symlink_to(tmp_path / "theirs")
    assert listed(runs) == plainly(runs)
    assert not list((tmp_path / "theirs").iterdir())


def test_deleted_runs_leave_the_cache(tmp_path, place):
    runs = tmp_path / "runs"
    make_runs(runs, 400)
    assert len(listed(runs)) == 400
    shutil.rmtree(runs / "trial7")
    assert len(listed(runs)) == 380
    assert len(row_cache.load_entries(runs)) == 380
