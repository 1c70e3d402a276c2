"""`lab runs scrub`: a leaked value leaves the record and its code, and the record says so."""

import io
import json
import subprocess

import pytest
from labrig.errors import LabError, Refused
from labrig.record.freeze.frozen import unpack_code
from labrig.record.keep.annotate import annotate
from labrig.record.read.run import Run
from labrig.record.verify.command import check_parts, list_problems
from record_package import call, commit, create, make_project, train
from repositories import git

LEAKED = 'pa"ss\\w0rd-ünï'


@pytest.fixture
def scrub(monkeypatch):
    """scrub(project, run, *options): the command, with the value on its standard input."""

    def called(project, run, *options, value=LEAKED):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{value}\n"))
        return call(project, "runs scrub", run.id, *options)

    return called


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "myproj")


def leaking_run(project, **changes):
    """A run with the value in settings, command, notes, log, error, and a tracked and a new file."""
    (project.root / "src/myproj/key.py").write_text(f"KEY = {LEAKED!r}\n")
    run = train(
        project,
        config_yaml=f"seed: 0\nname: {json.dumps(LEAKED)}\n",
        argv=["lab", "train", f"name={LEAKED}"],
        overrides=[f"name={LEAKED}"],
        status="failed",
        exception=RuntimeError(f"wrong {LEAKED}"),
        **changes,
    )
    annotate(run, note="first")
    annotate(run, note=f"it was {LEAKED}")
    annotate(run, tag="paper")
    return run


def everything(folder):
    """The content of all files; what git stores, too."""
    contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return b"\n".join(contents)


def forms():
    return (
        LEAKED.encode(),
        json.dumps(LEAKED)[1:-1].encode(),
        LEAKED.replace("\\", "\\\\").encode(),
    )


def history_of(project, bundle, folder):
    """All objects of a bundle."""
    folder.mkdir()
    git(folder, "init", "-q", "--bare")
    git(folder, "fetch", "-q", bundle, "refs/*:refs/*")
    names = git(folder, "rev-list", "--objects", "--no-object-names", "--all").split()
    done = subprocess.run(
        ["git", "cat-file", "--batch"],
        cwd=folder,
        input="\n".join(names).encode(),
        capture_output=True,
    )
    return done.stdout


@pytest.mark.slow
def test_the_value_leaves_record_and_code_and_the_record_verifies(project, scrub, tmp_path, capsys):
    run = leaking_run(project)
    before = Run.open(run.dir).record["code"]
    assert any(form in everything(run.dir) for form in forms())
    (project.root / "src/myproj/key.py").write_text("KEY = None\n")
    assert scrub(project, run, "--yes") == 0
    assert not any(form in everything(run.dir) for form in forms())
    scrubbed = Run.open(run.dir)
    assert list_problems(check_parts(scrubbed, project.root)) == []
    code = scrubbed.record["code"]
    assert code["commit"] != before["commit"]
    assert code["head"] == before["head"]
    objects = history_of(project, run.dir / "code.bundle", tmp_path / "bare")
    assert b"***" in objects
    assert not any(form in objects for form in forms())
    unpack_code(code, tmp_path / "nowhere", run.dir, tmp_path / "code")
    assert (tmp_path / "code/src/myproj/key.py").read_text() == "KEY = '***'\n"
    assert (tmp_path / "code/src/myproj/trials/baseline/model.py").exists()
    capsys.readouterr()
    call(project, "runs verify", run.id)
    call(project, "runs show", run.id)
    printed = capsys.readouterr().out
    assert printed.count("1 file of the code, whose history was left out") == 2
    assert "it was ***" in printed
    (scrub_note,) = scrubbed.record["scrubbed"]
    assert {"run.json", "config.yaml", "overrides.txt", "notes.jsonl"} <= set(scrub_note["files"])
    # The old code is nowhere in the project's own places.
    assert before["ref"] not in git(project.root, "for-each-ref")
    assert not list((project.root / "runs/.code").glob(f"{before['commit']}*"))


def test_without_yes_nothing_changes(project, scrub, capsys):
    run = leaking_run(project)
    before = everything(run.dir)
    assert scrub(project, run) == 1
    printed = capsys.readouterr().out
    assert "would take it out of config.yaml" in printed
    assert "would take it out of the code: src/myproj/key.py" in printed
    assert f"still in {project.root}/src/myproj/key.py: take it out, or delete it" in printed
    assert LEAKED not in printed
    assert everything(run.dir) == before
    scrub(project, run, value="another value")
    assert "the value is nowhere in" in capsys.readouterr().out


@pytest.mark.slow
def test_other_runs_of_the_code_keep_theirs_and_are_named(project, scrub, capsys):
    run = leaking_run(project)
    other = train(project)
    (project.root / "src/myproj/key.py").unlink()
    assert scrub(project, run, "--yes") == 1
    again = f"the code of the run {other.id}: lab runs scrub {other.id}"
    assert f"still in {again}" in capsys.readouterr().out
    assert list_problems(check_parts(Run.open(other.dir), project.root)) == []
    assert list_problems(check_parts(Run.open(run.dir), project.root)) == []


@pytest.mark.slow
def test_a_value_in_the_history_alone_takes_the_history_away(project, scrub, tmp_path, capsys):
    (project.root / "src/myproj/key.py").write_text(f"KEY = {LEAKED!r}\n")
    commit(project.root, "leak")
    (project.root / "src/myproj/key.py").write_text("KEY = None\n")
    commit(project.root, "repair")
    run = train(project)
    scrub(project, run, "--yes")
    assert "its history only" in capsys.readouterr().out
    assert list_problems(check_parts(Run.open(run.dir), project.root)) == []
    objects = history_of(project, run.dir / "code.bundle", tmp_path / "bare")
    assert not any(form in objects for form in forms())
    assert not (run.dir / "code.base.bundle").exists()


@pytest.mark.slow
def test_weights_with_the_value_are_named(project, scrub, capsys):
    run = train(project)
    (run.checkpoints / "last.ckpt").write_bytes(b"\0weights" + LEAKED.encode())
    assert scrub(project, run, "--yes") == 1
    assert "last.ckpt, which cannot be changed: delete it" in capsys.readouterr().out


@pytest.mark.slow
def test_an_edited_or_unended_run_is_refused(project, scrub):
    run = leaking_run(project)
    path = run.dir / "run.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(Refused, match="would hide that"):
        scrub(project, run, "--yes")
    with pytest.raises(LabError, match="expected at least 6"):
        scrub(project, train(project), value="abc")
    from labrig.record.write.begin import begin_attempt

    alive = create(project)
    attempt = begin_attempt(alive, project)
    with pytest.raises(LabError, match="has not ended"):
        scrub(project, alive)
    attempt.end("finished")
