"""A run says when it is not one piece: other code, data or settings, a renamed or copied directory."""

import json
import shutil

import pytest
from labrig.errors import Failed, LabError
from labrig.record.list.command import mark_of
from labrig.record.read import row_cache
from labrig.record.read.find import find_run
from labrig.record.read.rows import read_rows
from labrig.record.read.run import Run
from labrig.record.verify import command as verify
from labrig.record.write.begin import begin_attempt
from record_package import PACKAGE, call, create, delete_records, git, make_project, train


@pytest.fixture
def own(tmp_path):
    return make_project(tmp_path / "project")


def resumed(project, run, text=None, **facts):
    """A further attempt, with `text` as an edit of the code."""
    if text:
        (project.root / "src" / PACKAGE / "new.py").write_text(text)
    attempt = begin_attempt(Run.open(run.dir), project, **facts)
    attempt.end("finished")
    return attempt


def shown(project, capsys, words, *args):
    capsys.readouterr()
    call(project, words, *args)
    return capsys.readouterr().out


@pytest.mark.slow
def test_a_run_of_two_codes_says_so_everywhere(own, capsys, tmp_path):
    run = train(own, "interrupted")
    attempt = resumed(own, run, "x = 2\n", overrides=["trainer.max_epochs=4"])
    commit = attempt.facts["code"]["commit"]
    for words in ("runs show", "runs verify"):
        said = shown(own, capsys, words, run.id)
        assert f"2 codes; attempt 2 has {commit[:12]}" in said
        assert "attempt 2 has trainer.max_epochs=4" in said
    assert f"lab runs code {run.id} --attempt 2" in shown(own, capsys, "runs show", run.id)
    listed = shown(own, capsys, "runs list")
    assert "finished    *" in listed
    assert "* attempts had other code, data or settings" in listed
    for row in json.loads(shown(own, capsys, "runs list", "--json")):
        assert row["status"] == "finished"
    call(own, "runs code", run.id, tmp_path / "first")
    assert "attempt 2 ran other code: add --attempt 2" in capsys.readouterr().err
    call(own, "runs code", run.id, tmp_path / "second", "--attempt", 2)
    call(own, "runs code", run.id, tmp_path / "one", "--attempt", 1)
    new = [(tmp_path / name / "src" / PACKAGE / "new.py").exists() for name in ("first", "second")]
    assert new == [False, True]
    assert not (tmp_path / "one" / "src" / PACKAGE / "new.py").exists()
    with pytest.raises(LabError, match=r"has no attempt 3\. Attempts: 1, 2"):
        call(own, "runs code", run.id, tmp_path / "third", "--attempt", 3)


@pytest.mark.release
@pytest.mark.slow
def test_the_code_of_an_attempt_is_verified(own):
    run = train(own, "interrupted")
    attempt = resumed(own, run, "x = 2\n")
    bundle = attempt.dir / "code.bundle"
    content = bundle.read_bytes()
    bundle.unlink()
    with pytest.raises(Failed, match=r"attempts/2/code\.bundle is missing"):
        call(own, "runs verify", run.id)
    bundle.write_bytes(content[:-1] + b"x")
    with pytest.raises(Failed, match=r"attempts/2/code\.bundle was changed"):
        call(own, "runs verify", run.id)


@pytest.mark.slow
def test_a_commit_of_the_same_files_is_no_other_code(own, capsys):
    (own.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    run = train(own, "interrupted")
    git(own.root, "add", "-A")
    git(own.root, "commit", "-q", "-m", "later")
    resumed(own, run, overrides=["job.time=1h"])
    said = shown(own, capsys, "runs list")
    assert "finished    +" in said
    assert "+ several attempts" in said
    assert "codes" not in shown(own, capsys, "runs show", run.id)


@pytest.mark.slow
def test_other_data_and_unrecorded_code_are_reported(own, capsys, monkeypatch):
    monkeypatch.setattr(verify, "data_problems", lambda *_: [])
    run = create(own)
    for letter in ("a", "b"):
        begin_attempt(run, own, data={"path": "d.h5", "sha256": letter * 64}).end("interrupted")
    shutil.move(own.root / ".git", own.root / "git")
    resumed(own, run)
    shutil.move(own.root / "git", own.root / ".git")
    for words in ("runs show", "runs verify"):
        said = shown(own, capsys, words, run.id)
        assert "2 data files; attempt 2 has bbbbbbbbbbbb" in said
        assert "2 codes; attempt 3 has code that was not recorded" in said
    assert "code: attempt 3: not recorded" in shown(own, capsys, "runs verify", run.id)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("name", ["20200101-000000-abcdef", "my-best-run"])
def test_a_renamed_directory_is_noticed(own, capsys, name):
    run = train(own)
    renamed = run.dir.rename(run.dir.with_name(name))
    listed = shown(own, capsys, "runs list")
    assert name in listed
    assert "! its directory was renamed or copied" in listed
    for word in (name, run.id, str(renamed)):
        said = shown(own, capsys, "runs show", word)
        assert f"the directory was renamed; it was {run.id}" in said
        assert f"mv {renamed} {run.dir}" in said
        with pytest.raises(Failed, match="the directory was renamed"):
            call(own, "runs verify", word)
    newer = train(own)
    assert find_run([own.root / "runs"], "@last").id == newer.id


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["backup/{id}", "baseline/copy", "baseline/20200101-000000-abcdef"]
)
def test_a_copied_directory_is_noticed(own, capsys, place):
    run = train(own)
    copy = own.root / "runs" / place.format(id=run.id)
    shutil.copytree(run.dir, copy, symlinks=True)
    assert {mark_of(row) for row in read_rows([own.root / "runs"])} == {"!"}
    said = shown(own, capsys, "runs show", copy)
    assert "is a copy" in said
    assert str(run.dir) in said
    with pytest.raises(Failed, match="copy"):
        call(own, "runs verify", copy)
    if copy.name == run.id:
        with pytest.raises(LabError, match="lies in 2 directories, so one is a copy") as refused:
            call(own, "runs show", run.id)
        assert {str(copy), str(run.dir)} < {*str(refused.value).split()}
    delete_records(own, "status=finished", "--keep-best", 0)
    assert copy.exists()
    assert run.dir.exists()


@pytest.mark.slow
def test_marks_survive_the_cache(own, tmp_path, monkeypatch):
    monkeypatch.setattr("labrig.record.read.rows.MANY", 1)
    monkeypatch.setattr(row_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    first, second = train(own), train(own, "interrupted")
    resumed(own, second, "x = 2\n")
    first.dir.rename(first.dir.with_name("renamed"))
    for _ in range(2):
        marks = {row["run_id"]: mark_of(row) for row in read_rows([own.root / "runs"])}
        assert marks == {"renamed": "!", second.id: "*"}
