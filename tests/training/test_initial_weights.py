"""`init_from`: what it means is fixed when a run is recorded, and compared with its hash ever after."""

import os

import pytest
from labrig.errors import LabError, NotComparable
from labrig.record.read.rows import read_row
from labrig.record.read.run import Run
from labrig.record.reproduce.command import place_weights
from labrig.record.reproduce.recorded_inputs import find_recorded_weights
from labrig.record.write.begin import begin_attempt
from labrig.record.write.create import fix_weights
from labrig.record.write.inputs import override_for, resolve_weights
from record_package import call, create, delete_records, make_project, request, train


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


def starting_from(own, reference, **changes):
    """A run that starts from other weights, as far as it needs no torch."""
    config_yaml = f"seed: 0\ninit_from: '{reference}'\nmodel:\n  width: 32\n"
    return create(own, config_yaml=config_yaml, **changes)


@pytest.mark.slow
def test_a_later_run_does_not_change_what_a_run_starts_from(own, capsys):
    source = train(own)
    run = starting_from(own, "@last")
    train(own)
    recorded = Run.open(run.dir).record["init_from"]
    assert recorded["source"] == f"{source.id}:last"
    assert Run.open(run.dir).config["init_from"] == f"{source.id}:last"
    assert (recorded["run"], recorded["checkpoint"]) == (source.id, "last")
    begin_attempt(run, own).end("finished")
    row = read_row(str(run.dir))
    assert row["init_from"] == {
        key: recorded[key] for key in ("source", "run", "checkpoint", "sha256")
    }
    call(own, "runs show", run.id)
    assert f"init_from   {source.id}:last, sha256 {recorded['sha256'][:12]}" in (
        capsys.readouterr().out
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "checkpoint"),
    [("@best:val/loss", "last"), ("@best:val/loss:baseline:best", "best"), ("{id}:best", "best")],
)
def test_every_name_of_a_run_may_have_a_checkpoint_behind_it(own, reference, checkpoint):
    source = train(own)
    (source.checkpoints / "best.ckpt").write_bytes(b"best weights")
    train(own, metrics={"val/loss": 9.0})
    found = resolve_weights(reference.format(id=source.id), own)
    assert found["source"] == f"{source.id}:{checkpoint}"
    assert found["path"] == str(source.checkpoints / f"{checkpoint}.ckpt")


def test_a_file_is_found_from_here_and_from_the_project(own, tmp_path, monkeypatch):
    name = "it's = $one.safetensors"
    (own.root / name).write_bytes(b"weights")
    monkeypatch.chdir(tmp_path)
    found = resolve_weights(name, own)
    assert found["source"] == found["path"] == str(own.root / name)
    assert found["run"] is None
    (tmp_path / name).write_bytes(b"nearer")
    assert resolve_weights(name, own)["path"] == str(tmp_path / name)


def test_any_text_is_a_value_in_quotes():
    from labrig.config.overrides import parse_overrides, typed_value

    for text in ("it's = $one.safetensors", "a\\b", "a\\'b", "a\\", "a\\\\"):
        typed = parse_overrides([override_for("init_from", text)])
        assert typed_value(typed, "init_from") == text


@pytest.mark.slow
def test_a_checkpoint_that_is_named_by_its_file_has_its_run_in_the_record(own):
    source = train(own)
    file = source.dir / "checkpoints/last.ckpt"
    found = resolve_weights(str(file), own)
    assert (found["run"], found["checkpoint"]) == (source.id, "last")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("@last:best", "has no checkpoint 'best'. It has: last"),
        ("missing.ckpt", "there is no such file"),
        ("20000101", "no run '20000101'"),
        ("/nowhere/llama", "there is no such folder, and it is no run. Write a file, a folder of"),
        ("/dev:last", "it holds no .safetensors file, and it is no run"),
        ("hf:model", "expected hf:ORG/MODEL"),
        ("hf:org/model@v1:a.bin", "lab prefetch trial=NAME init_from=hf:org/model@v1:a.bin"),
    ],
)
def test_what_is_not_there_is_reported_before_a_run_is_made(own, reference, words, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(own.root / "no-cache"))
    train(own)
    before = set(own.paths.runs.glob("*/*"))
    with pytest.raises(LabError, match=words.replace("[", r"\[")):
        starting_from(own, reference)
    assert set(own.paths.runs.glob("*/*")) == before


@pytest.mark.slow
def test_a_job_may_wait_for_the_run_that_makes_its_weights(own):
    source = create(own)
    with pytest.raises(LabError, match="has no checkpoint"):
        starting_from(own, source.id)
    begin_attempt(source, own)
    (source.checkpoints / "last.ckpt").write_bytes(b"not the last one")
    asked = request(
        config_yaml=f"seed: 0\ninit_from: {source.id}\n", job_of=lambda _: {"site": "x"}
    )
    fixed = fix_weights(asked, own)
    assert fixed.init_from["source"] == f"{source.id}:last"
    assert fixed.init_from["sha256"] is None, "it will be another file when the job begins"


@pytest.mark.slow
def test_verify_and_reproduce_name_weights_that_changed_or_are_gone(own, capsys):
    source = train(own)
    run = starting_from(own, source.id)
    begin_attempt(run, own).end("finished")
    call(own, "runs verify", run.id)
    assert "initial weights" in capsys.readouterr().out
    sections = {"init_from": "/a/path/of/another/project"}
    place_weights(own, run, sections)
    assert sections["init_from"] == f"{source.id}:last"
    last = source.checkpoints / "last.ckpt"
    os.rename(last, source.checkpoints / "finished.ckpt")
    last.write_bytes(b"of an extension of the run")
    kept = source.checkpoints / "finished.ckpt"
    assert find_recorded_weights(run, own) == kept
    place_weights(own, run, sections)
    assert sections["init_from"] == str(kept), "what a repetition starts from"
    kept.unlink()
    for words, change in [("have changed", lambda: None), ("are gone", last.unlink)]:
        change()
        with pytest.raises(LabError, match=f"the weights that {run.id} started from.*{words}"):
            call(own, "runs verify", run.id)
        with pytest.raises(NotComparable, match=words):
            call(own, "runs reproduce", run.id)


@pytest.mark.slow
def test_runs_that_started_from_other_weights_are_not_compared(own):
    left, right = train(own), train(own)
    runs = [starting_from(own, source.id) for source in (left, right)]
    for run in runs:
        begin_attempt(run, own).end("finished", {"val/loss": 1.0})
    with pytest.raises(NotComparable, match="they started from other weights"):
        call(own, "runs verify", runs[0].id, runs[1].id)


@pytest.mark.slow
def test_prune_keeps_a_run_that_others_started_from(own, monkeypatch):
    source, other = train(own, "failed"), train(own, "failed")
    begin_attempt(starting_from(own, source.id), own).end("finished")
    assert own.paths.runs == own.root / "runs"  # read once, with the configuration
    monkeypatch.setattr(type(own), "source", property(lambda project: project.root))
    delete_records(own)
    assert (source.dir.exists(), other.dir.exists()) == (True, False)
