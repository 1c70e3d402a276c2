"""The commands that read the record: what they find, print and delete."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest
from labrig import errors
from labrig.record.files.atomic import write_json
from labrig.record.files.process import user
from labrig.record.read.find import find_run
from labrig.record.read.run import Run
from labrig.record.write.begin import begin_attempt
from projects import SOURCE
from record_package import PACKAGE, call, make_project, train


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with runs of two trials in several states. Shared: read it, do not change it."""
    project = make_project(tmp_path_factory.mktemp("commands") / "project")
    train(project, metrics={"val/loss": 0.5, "val/acc": 0.90})
    train(project, metrics={"val/loss": 0.2, "val/acc": 0.95}, why="more width")
    train(project, trial="wide", metrics={"val/loss": 0.3, "val/acc": 0.97})
    train(project, trial="wide/lowlr", metrics={"val/loss": float("nan")})
    train(project, "failed", trial="wide", exception=ValueError("boom"))
    return project


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


def listed(project, capsys, *args):
    capsys.readouterr()
    call(project, "runs list", *args, "--json")
    return json.loads(capsys.readouterr().out)


def test_list_for_scripts(project, capsys):
    rows = listed(project, capsys)
    assert [row["trial"] for row in rows] == ["wide", "wide/lowlr", "wide", "baseline", "baseline"]
    names = {"run_id", "trial", "status", "created", "run_dir", "metrics", "settings", "is_check"}
    assert rows[0].keys() == names
    assert rows[1]["metrics"] == {"val/loss": "nan"}
    assert all(os.path.isdir(row["run_dir"]) for row in rows)


@pytest.mark.parametrize(
    ("filters", "n"),
    [
        (["trial=wide"], 3),
        (["trial=w*"], 3),
        (["trial=wide/lowlr"], 1),
        (["trial=baseline,wide/lowlr"], 3),
        (["status=finished"], 4),
        (["status=failed,finished"], 5),
        (["val/loss<0.3"], 2),
        (["val/loss<=0.3", "val/acc>0.96"], 1),
        (["val/acc!=0.9"], 2),
        (["since=2020-01-01"], 5),
        (["before=2020-01-01"], 0),
        (["tag=paper"], 0),
        (["who=nobody at all"], 0),
        ([f"who=nobody,{user()}"], 5),
    ],
)
def test_filters(project, capsys, filters, n):
    assert len(listed(project, capsys, *filters)) == n


def test_sorting_puts_the_best_first_and_the_unmeasured_last(project, capsys):
    loss = [row["metrics"].get("val/loss") for row in listed(project, capsys, "--sort", "val/loss")]
    assert loss == [0.2, 0.25, 0.3, 0.5, "nan"]
    assert listed(project, capsys, "--sort", "val/acc")[0]["metrics"]["val/acc"] == 0.97
    assert listed(project, capsys, "--sort", "status")[0]["status"] == "failed"


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ("val/los<1", "did you mean: val/loss"),
        ("statu=failed", "did you mean: status"),
        ("status=finishd", "did you mean: finished"),
        ("nonsense", "no filter"),
        ("status<1", "compared with ="),
    ],
)
def test_mistakes_in_filters(project, wrong, advice):
    with pytest.raises(errors.LabError, match=advice):
        call(project, "runs list", wrong)


def test_table_fits_80_columns_and_has_colour_only_on_a_terminal(project, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    call(project, "runs list", "val/acc>0")
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines())) <= 80
    assert "\033" not in table
    assert "val/acc" in table.splitlines()[0]
    assert len(table.splitlines()) == 4
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    call(project, "runs list", "status=failed")
    assert "\033[31mfailed" in capsys.readouterr().out


def test_csv(project, capsys):
    call(project, "runs list", "--csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 5
    assert rows[2]["val/acc"] == "0.97"


def test_words_that_name_a_run(project):
    runs = project.root / "runs"
    last = find_run([runs], "@last")
    assert last.trial == "wide"
    assert (
        find_run([runs], last.id).id
        == find_run([runs], last.id[:-1]).id
        == find_run([runs], str(last.dir)).id
        == last.id
    )
    assert find_run([runs], "@best:val/loss").record["why"] == "more width"
    assert find_run([runs], "@best:val/acc").trial == "wide"
    for word, advice in (
        ("2026-nothing", "no run"),
        ("20", "means 5 runs"),
        ("@best:val/los", "val/loss"),
        ("@las", "did you mean: @last"),
    ):
        with pytest.raises(errors.LabError, match=advice):
            find_run([runs], word)
    with pytest.raises(errors.LabError, match=last.id):
        find_run([runs], last.id[:-1] + "z")


def test_show(project, capsys):
    call(project, "runs show", "@best:val/loss")
    screen = capsys.readouterr().out
    assert "more width" in screen
    assert "last.ckpt" in screen
    call(project, "runs show", "@last", "--json")
    whole = json.loads(capsys.readouterr().out)
    assert whole["status"] == "failed"
    assert whole["attempts"][0]["end"]["exception"]["line"] == "ValueError: boom"
    assert whole["run_dir"].endswith(whole["run_id"])
    assert whole["metrics"] == {"val/loss": 0.25}


@pytest.mark.slow
def test_diff_says_only_what_differs_in_order(own, capsys):
    a = train(own)
    (own.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    b = train(own, config_yaml="seed: 0\nmodel:\n  width: 64\n", metrics={"val/loss": 0.1})
    assert call(own, "runs diff", a.id, a.id) == 0
    assert "no difference" in capsys.readouterr().out
    assert call(own, "runs diff", a.id, b.id) == 1
    said = capsys.readouterr().out
    places = [
        said.index(part) for part in ("new.py", "model.width: 32 -> 64", "val/loss: 0.25 -> 0.1")
    ]
    assert places == sorted(places)
    assert "seed" not in said


@pytest.mark.slow
def test_diff_shows_as_many_digits_as_differ_and_no_noise(own, capsys, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    a = train(own, metrics={"val/loss": 0.123456789123, "val/acc": 0.5})
    b = train(own, metrics={"val/loss": 0.987654321987, "val/acc": 0.5000000001})
    changed = {"LAB_FROZEN": "/tmp/frozen", "PYTHONPATH": "/tmp/frozen/src", "SLURM_JOB_ID": "7"}
    changed |= {
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor",
    }
    b.record["env"]["variables"] |= changed | {"OMP_NUM_THREADS": "3"}
    write_json(b.dir / "run.json", b.record)
    assert call(own, "runs diff", a.id, b.id) == 1
    lines = {line.strip() for line in capsys.readouterr().out.splitlines()}
    assert "val/loss: 0.123457 -> 0.987654" in lines
    assert "val/acc: 0.5 -> 0.5000000001" in lines
    variables = [line for line in lines if line.startswith("variables.")]
    assert variables == ["variables.OMP_NUM_THREADS: absent -> 3"]


@pytest.mark.slow
def test_notes_and_tags(own, capsys):
    run = train(own)
    call(own, "runs note", "@last", "the loss spikes", "at step 10")
    call(own, "runs tag", "@last", "paper", "figure-2")
    assert [row["run_id"] for row in listed(own, capsys, "tag=thesis,paper")] == [run.id]
    call(own, "runs tag", "paper", "figure-2", "--remove")
    assert find_run([own.root / "runs"], "paper").id == run.id
    assert [row["run_id"] for row in listed(own, capsys, "tag=paper")] == [run.id]
    assert listed(own, capsys, "tag=figure-2") == []
    call(own, "runs show", "@last")
    assert "the loss spikes at step 10" in capsys.readouterr().out
    with pytest.raises(errors.LabError, match="a tag begins with a letter"):
        call(own, "runs tag", "@last", "2nd")


@pytest.mark.slow
def test_a_tag_moves_and_the_project_keeps_its_history(own, capsys):
    first, second = train(own), train(own)
    capsys.readouterr()
    call(own, "runs tag", first.id, "best-paper")
    assert capsys.readouterr().out == f"{first.id} has the tags: best-paper\n"
    with pytest.raises(errors.LabError, match="did you mean: best-paper"):
        find_run([own.root / "runs"], "best-papr")
    call(own, "runs tag", second.id, "best-paper")
    assert f"best-paper moved from {first.id} to {second.id}" in capsys.readouterr().out
    assert find_run([own.root / "runs"], "best-paper").id == second.id
    assert [row["run_id"] for row in listed(own, capsys, "tag=best-paper")] == [second.id]
    call(own, "runs list")
    assert capsys.readouterr().out.count("#best-paper") == 1
    history = own.root / "versions" / "best-paper.txt"
    assert [line.split()[1:] for line in history.read_text().splitlines()] == [
        [first.id, user()],
        [second.id, user()],
    ]
    # What git brings from another machine counts more than the tags of the runs here.
    with open(history, "a") as file:
        file.write(f"2026-11-25T10:00:00+0000 {first.id} ada\n")
    assert find_run([own.root / "runs"], "best-paper").id == first.id
    # A run that is not here cannot be meant.
    with open(history, "a") as file:
        file.write("2026-11-25T11:00:00+0000 20200101-000000-abcdef ada\n")
    assert find_run([own.root / "runs"], "best-paper").id == second.id
    capsys.readouterr()
    call(own, "runs tag", second.id, "best-paper", "--remove")
    assert capsys.readouterr().out == f"{second.id} has no tag\n"
    with pytest.raises(errors.LabError, match="no run 'best-paper'"):
        find_run([own.root / "runs"], "best-paper")


@pytest.mark.slow
def test_a_tag_of_several_runs_is_never_taken_from_them(own, capsys):
    runs = [train(own) for _ in range(3)]
    for run in runs[:2]:
        call(own, "runs tag", run.id, "figure-1", "--also")
    with pytest.raises(errors.LabError, match=r"'figure-1' is the tag of 2 other runs.* --also"):
        call(own, "runs tag", runs[2].id, "figure-1")
    call(own, "runs tag", runs[2].id, "figure-1", "--also")
    assert len(listed(own, capsys, "tag=figure-1")) == 3
    with pytest.raises(errors.LabError, match="means 3 runs"):
        find_run([own.root / "runs"], "figure-1")


@pytest.mark.slow
def test_the_name_of_a_tag_stays_in_its_folder(own):
    run = train(own)
    for name in ("../evil", "a/b", ".hidden", "x" * 101, ""):
        with pytest.raises(errors.LabError, match="a tag begins with a letter"):
            call(own, "runs tag", run.id, name)
    assert not (own.root / "versions").exists()


@pytest.mark.slow
def test_news_are_reported_once(own, capsys):
    call(own, "")
    assert "no runs yet" in capsys.readouterr().out
    train(own)
    failed = train(own, "failed", exception=ValueError("boom"))
    call(own, "")
    news = capsys.readouterr().out
    assert "finished:" in news
    assert "ValueError: boom" in news
    assert f"lab resume {failed.id}" in news
    call(own, "")
    assert "nothing new" in capsys.readouterr().out
    begin_attempt(Run.open(failed.dir), own)
    call(own, "")
    assert f"continued:\n  {failed.id}" in capsys.readouterr().out


@pytest.mark.slow
def test_other_directories_are_no_runs(own, capsys):
    run = train(own, metrics={"val/loss": 0.4})
    for name in ("wandb/offline-run-1", "sweeps/first"):
        (own.root / "runs" / name).mkdir(parents=True)
    assert [row["metrics"] for row in listed(own, capsys)] == [{"val/loss": 0.4}]
    for words in (["runs list"], ["runs show", "@last"], ["runs cost"], ["runs prune"], [""]):
        assert call(own, *words) == 0
    assert run.id in capsys.readouterr().out


def test_snapshot_for_scripts(own, capsys, tmp_path):
    (own.root / ".env").write_text("KEY=x\n")
    call(own, "snapshot", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == {"commit", "tree", "ref", "dirty", "skipped", "submodules"}
    assert found["skipped"] == [{"path": ".env", "reason": "secret-name"}]
    with pytest.raises(errors.Refused, match="not a git repository") as refused:
        call(own, "snapshot", "--repo", tmp_path, "--json")
    assert refused.value.exit_code == 4


@pytest.mark.slow
def test_reading_records_imports_nothing_slow(project):
    program = """
import sys
from labrig.cli import main
for words in ("--help", "runs list", "runs show @last", "runs list --csv", "runs table", "runs cost", "runs prune",
              "runs diff @last @last", "runs verify @last", ""):
    main(words.split())
slow = {"torch", "lightning", "hydra", "omegaconf", "numpy", "h5py", "sqlite3"} & set(sys.modules)
sys.exit(f"imported {slow}" if slow else 0)
"""
    variables = os.environ | {"PYTHONPATH": str(SOURCE), "LAB_PROJECT": str(project.root)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
