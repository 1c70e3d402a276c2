"""Steps: a run reads what another made (data.path=RUN:FILE), and one that would change nothing is not run again."""

import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from projects import call, copy_project, equip
from slurm_jobs import json_of, wait_until
from trainings import SHORT, add_trial, last

MAKER = """
import shutil


def main(config, log):
    shutil.copy("data/digits.h5", log.dir / "made.h5")
    log(1, {"loss": 1.0})
    if config.program.fails:
        raise RuntimeError("as asked")
"""
JOB = ("site=workstation", "job.gpus=0")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = equip(copy_project(tmp_path_factory.mktemp("steps") / "myproj"))
    call(folder, "lab", "data", "pack", "digits")
    add_trial(folder, "maker", config_yaml="program:\n  fails: false\n", program_py=MAKER)
    return folder


@pytest.fixture(scope="module")
def made(own):
    """A run that made a data file, and one that read it."""
    call(own, "lab", "train", "trial=maker")
    maker = last(own)
    call(own, "lab", "train", "trial=baseline", "data.path=@last:made.h5", *SHORT)
    return maker, last(own)


def refused(own, *words):
    return call(own, "lab", *words, rc=2)


@pytest.mark.release
@pytest.mark.slow
def test_a_run_says_which_run_made_its_data(own, made, tmp_path):
    maker, reader = made
    file = Path(maker["run_dir"]) / "made.h5"
    content = hashlib.sha256(file.read_bytes()).hexdigest()
    record = json.loads((Path(reader["run_dir"]) / "run.json").read_text())
    assert record["data_from"] == {"run": maker["run_id"], "file": "made.h5", "sha256": content}
    assert record["settings"]["data"]["path"] == str(file)
    shown = call(own, "lab", "runs", "show", reader["run_id"])
    assert f"data_from   {maker['run_id']}:made.h5, sha256 {content[:12]}" in shown
    (row,) = [
        row
        for row in json.loads(call(own, "lab", "trials", "tree", "--json"))
        if row["name"] == "baseline"
    ]
    assert row["data_from"] == f"{maker['run_id']} (maker)"
    assert f"data of {maker['run_id']} (maker)" in call(own, "lab", "trials", "tree")
    call(own, "lab", "runs", "verify", reader["run_id"])
    call(own, "lab", "runs", "archive", "trial=*", "-o", tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("ro-crate-metadata.json")]
        graph = {each["@id"]: each for each in json.loads(archive.read(name))["@graph"]}
    (data,) = [id for id in graph if id.startswith("#data-")]
    assert graph[data]["description"] == f"made.h5 of run {maker['run_id']}"
    assert graph[data]["isBasedOn"] == {"@id": f"#run-{maker['run_id']}"}
    assert {"@id": data} in graph[f"#run-{reader['run_id']}"]["object"]
    assert "the parents of others" in call(
        own, "lab", "runs", "prune", "status=finished", "--keep-best", "0"
    )


@pytest.mark.release
@pytest.mark.slow
def test_what_cannot_be_read_is_refused_with_what_there_is(own, made):
    maker, reader = made
    said = refused(own, "train", "trial=baseline", f"data.path={maker['run_id']}:mad.h5")
    assert f"run {maker['run_id']} has no file 'mad.h5'; did you mean: made.h5" in said
    said = refused(own, "check", "trial=baseline", f"data.path={reader['run_id']}:x.h5")
    assert f"none. To write predictions: lab predict {reader['run_id']}" in said
    assert "no run 'x2000'" in refused(own, "train", "trial=baseline", "data.path=x2000:made.h5")
    said = refused(own, "train", "trial=baseline", "data.path=@last:../../x.h5")
    assert "has no file" in said
    outside = Path(maker["run_dir"]) / "link.h5"
    outside.symlink_to(own / "data/digits.h5")
    said = refused(own, "train", "trial=baseline", f"data.path={maker['run_id']}:link.h5")
    outside.unlink()
    assert "leads out of" in said
    call(own, "lab", "train", "trial=maker", "program.fails=true", rc=1)
    failed = last(own)
    said = refused(own, "submit", "trial=baseline", *JOB, f"data.path={failed['run_id']}:made.h5")
    assert f"run {failed['run_id']} is failed, and its files may still change" in said
    assert "Name a finished run" in said
    assert "after=" not in said
    assert len(list((own / "runs").glob("*/*/run.json"))) == 3


@pytest.mark.release
@pytest.mark.slow
def test_an_unchanged_step_is_not_run_again(own, made):
    words = ("lab", "train", "trial=baseline", "seed=5", *SHORT, "--if-changed")
    call(own, *words)
    first = last(own)
    again = call(own, *words, "record.dirty=snapshot", "job.time=1:00:00", "--why", "again")
    assert again.startswith(f"run {first['run_id']}  unchanged: the same code, settings and inputs")
    (own / "src/myproj/trials/baseline/README.md").write_text("Another question.\n")
    shutil.copy(own / "data/digits.h5", own / "data/same.h5")
    listed = call(own, *words, "data.path=same.h5", "-m")
    assert f"run {first['run_id']}  unchanged" in listed
    assert last(own)["run_id"] == first["run_id"]

    def runs_again(*more):
        before = last(own)["run_id"]
        said = call(own, *words, *more)
        assert "unchanged" not in said
        assert last(own)["run_id"] != before

    runs_again("optimizer.lr=0.5")
    model = own / "src/myproj/trials/baseline/model.py"
    code = model.read_text()
    model.write_text(code + "\nANOTHER = 1\n")
    runs_again()
    model.write_text(code)
    assert f"run {first['run_id']}  unchanged" in call(own, *words)
    call(own, "lab", "data", "pack", "digits", "--to", own / "data/other", "--seed", "3")
    runs_again(f"data.path={own / 'data/other/digits.h5'}")
    call(own, "lab", "train", "trial=maker", "--if-changed")
    before = last(own)["run_id"]
    said = call(own, "lab", "train", "trial=maker", "--if-changed")
    assert (
        f"lab: {before} has the same code and settings, but its record does not say which" in said
    )
    assert last(own)["run_id"] != before


@pytest.mark.release
@pytest.mark.slow
def test_weights_count_by_their_content(own, made):
    call(own, "lab", "train", "trial=baseline", "seed=6", *SHORT)
    source = last(own)
    checkpoint = Path(source["run_dir"]) / "checkpoints/last.ckpt"
    words = ("lab", "train", "trial=baseline", "seed=7", *SHORT, "--if-changed")
    call(own, *words, f"init_from={source['run_id']}")
    first = last(own)
    assert first["run_id"] != source["run_id"]
    copy = own / "copy.ckpt"
    shutil.copy(checkpoint, copy)
    assert f"run {first['run_id']}  unchanged" in call(own, *words, f"init_from={copy}")
    assert "unchanged" not in call(own, *words)


@pytest.mark.release
def test_jobs_wait_for_data_and_are_not_sent_twice(own, made):
    maker = json_of(call(own, "lab", "submit", "trial=maker", *JOB, "--json"))
    words = ("lab", "submit", "trial=baseline", *JOB, *SHORT, "seed=8", "--if-changed")
    of_maker = f"data.path={maker['run_id']}:./made.h5"
    said = call(own, *words, of_maker, f"after={maker['run_id']}", "--json")
    reader = json_of(said)
    directory = Path(reader["run_dir"])
    wait_until(lambda: (directory / "summary.json").exists(), "the reader over", 120)
    summary = json.loads((directory / "summary.json").read_text())
    assert (summary["status"], summary["data"]["run"]) == ("finished", maker["run_id"])
    again = json_of(call(own, *words, of_maker, "--json"))
    assert (again["run_id"], again["unchanged"]) == (reader["run_id"], "finished")
    said = call(own, *words, of_maker)
    assert said.startswith(f"run {reader['run_id']}  unchanged: the same code, settings and inputs")
    said = refused(own, "submit", *JOB, "--if-changed", "--", "true")
    assert "--if-changed is for a training" in said
