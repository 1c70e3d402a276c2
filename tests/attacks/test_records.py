"""Records that an enemy wrote: read, verified, unpacked, and never obeyed."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path

import pytest
from labrig.config.recorded import read_recorded
from labrig.errors import LabError
from labrig.machine.git import is_remote
from labrig.project import parse_yaml
from labrig.record.files.manifest import append_listed
from labrig.record.keep.annotate import annotate
from labrig.record.read.rows import read_row
from labrig.record.read.run import Run
from labrig.record.read.settings import settings_of_yaml
from labrig.record.write.begin import begin_attempt
from projects import copy_of
from record_package import PACKAGE, call, commit, make_project, train
from records import relist
from repositories import git


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project with one finished run that has every file of a record. Shared: copy it."""
    project = make_project(tmp_path_factory.mktemp("attacks") / "project")
    run = train(project, why="first", metrics={"val/loss": 0.5, "test/acc": 0.25})
    annotate(run, note="the loss spikes")
    annotate(run, tag="paper")
    for accuracy in (0.5, 0.6):
        row = {"checkpoint": "last", "overrides": [], "metrics": {"test/acc": accuracy}}
        append_listed(run.dir, "evaluations.jsonl", row | {"code": {"same": True}})
    return project


@pytest.fixture
def own(tmp_path, trained):
    """A copy of that project, with its run."""
    return type(trained)(copy_of(trained.root, tmp_path / "project"), PACKAGE)


def run_dir_of(project):
    (run_dir,) = project.root.glob("runs/baseline/2*")
    return run_dir


def rewrite(path, change):
    """Changes a JSON file and lists it anew, as an enemy would."""
    value = json.loads(path.read_text())
    change(value)
    relist(path, value)


def refused(project, *words):
    """What a command says that ends with an error of ours, and no other."""
    with pytest.raises(LabError) as error:
        call(project, *words)
    return str(error.value)


# a-optinj*: a remote that is an option, or calls a program.

EVIL_REMOTES = [
    "--upload-pack=touch {}",
    "-utouch {}",
    "ext::sh -c touch% {}",
    "ssh://-oProxyCommand=touch {}/x",
    "ssh://-oProxyCommand=touch@host/x",
    "-oProxyCommand=touch {}:x",
]


def lose_code(project):
    """A record whose commit nobody has, so that its remote would be asked."""

    def change(record):
        record["code"] |= {
            "commit": "a" * 40,
            "tree": "c" * 40,
            "bundle": "thin",
            "remote_base": "b" * 40,
        }

    for bundle in run_dir_of(project).glob("code.b*"):
        bundle.unlink()
    rewrite(run_dir_of(project) / "run.json", change)


@pytest.mark.parametrize("remote", EVIL_REMOTES)
@pytest.mark.parametrize("words", ["runs code", "runs verify"])
def test_a_remote_of_a_record_runs_no_command(own, tmp_path, remote, words):
    """a-optinj-code, a-optinj-verify."""
    made = tmp_path / "made"
    remote = remote.format(made)
    lose_code(own)
    rewrite(run_dir_of(own) / "run.json", lambda record: record["code"].update(remote=remote))
    said = refused(
        own, words, str(run_dir_of(own)), *([str(tmp_path / "out")] if words == "runs code" else [])
    )
    assert not made.exists()
    assert "is not asked: expected https://" in said
    assert not is_remote(remote)


def test_a_remote_of_an_archived_record_is_never_asked(own, tmp_path):
    """a-optinj-zip, and a remote that would hear who verifies."""
    made = tmp_path / "made"
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "-q")
    git(source, "config", "uploadpack.packObjectsHook", f"touch {made}")
    for remote in (f"--upload-pack=touch {made}", str(source)):
        lose_code(own)
        rewrite(
            run_dir_of(own) / "run.json", lambda record, to=remote: record["code"].update(remote=to)
        )
        said = refused(own, "runs verify", zipped(own, tmp_path))
        assert "is not whole in runs/baseline" in said
    assert not made.exists()


def zipped(project, tmp_path, extra=()):
    """An archive of the project's run, with a right manifest, and with further (name, bytes)."""
    file = tmp_path / "evil.zip"
    file.unlink(missing_ok=True)
    files = {
        f"evil/{path.relative_to(project.root)}": path.read_bytes()
        for path in sorted(run_dir_of(project).rglob("*"))
        if path.is_file()
    }
    lines = [
        f"{hashlib.sha256(content).hexdigest()}  {name.removeprefix('evil/')}"
        for name, content in files.items()
    ]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr("evil/manifest-sha256.txt", "\n".join([*lines, ""]))
        for name, content in extra:
            archive.writestr(name, content)
    return str(file)


def evil_repository(folder, made):
    """A repository whose settings run a command when git looks for an object that it lacks."""
    git(folder, "init", "-q")
    config = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(folder),
        "remote.origin.uploadpack": f"touch {made};",
    }
    for key, value in config.items():
        git(folder, "config", key, value)


def test_git_never_runs_in_a_directory_that_came_with_a_record(own, tmp_path):
    """Its settings would be obeyed: a sibling of a-optinj, by the path of a submodule or a prefix."""
    made = tmp_path / "made"
    run_dir = run_dir_of(own)
    evil_repository(run_dir, made)
    inside = str(run_dir.relative_to(own.root))
    submodule = {"path": inside, "commit": "a" * 40, "tree": "b" * 40, "prefix": ""}
    rewrite(run_dir / "run.json", lambda record: record["code"].update(submodules=[submodule]))
    refused(own, "runs code", str(run_dir), str(tmp_path / "out"))
    assert not made.exists()
    archived = zipped(own, tmp_path)
    with zipfile.ZipFile(archived, "a") as archive:
        for path in (run_dir / ".git").rglob("*"):
            if path.is_file():
                archive.write(path, f".git/{path.relative_to(run_dir / '.git')}")
    refused(own, "runs verify", archived)
    assert not made.exists()


# a-submod: paths that lead out of the destination.


@pytest.mark.parametrize(
    "path", ["../../ESCAPED", "/ESCAPED", "a/../../ESCAPED", ".git", "x/.GIT/y"]
)
def test_a_submodule_lies_inside_of_the_destination(own, tmp_path, path):
    """a-submod."""

    def change(record):
        library = record["code"]["submodules"][0]
        record["code"]["submodules"].append(library | {"path": path})

    rewrite(run_dir_of(own) / "run.json", change)
    said = refused(own, "runs code", str(run_dir_of(own)), str(tmp_path / "deep/er/out"))
    assert "submodules[1].path is" in said
    assert not list(tmp_path.rglob("*ESCAPED*"))


@pytest.mark.slow
def test_a_submodule_is_not_written_through_a_link_of_the_code(tmp_path):
    project = make_project(tmp_path / "project")
    outside = tmp_path / "outside"
    outside.mkdir()
    (project.root / "vendor").symlink_to(outside)
    (project.root / ".lab-snapshot.files").symlink_to(outside / "victim")
    (project.root / ".lab-snapshot.json").symlink_to(outside / "victim")
    commit(project.root, "links")
    run = train(project)
    call(project, "runs code", run.id, str(tmp_path / "first"))
    assert list(outside.iterdir()) == [], "nor are our own files"

    def change(record):
        library = record["code"]["submodules"][0]
        record["code"]["submodules"].append(library | {"path": "vendor/x"})

    rewrite(run.dir / "run.json", change)
    said = refused(project, "runs code", run.id, str(tmp_path / "second"))
    assert "leads out of" in said
    assert list(outside.iterdir()) == []


# a-fuzz: values of another type.


def leaves(value, path=()):
    """The path of every value in JSON."""
    yield path
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, key))


OTHERS = [None, True, -1, 1e308, 10**400, "", "../x", "-x", "a\0b", [["a"]], {"a": [1]}]
COMMANDS = [
    ("runs list", "--columns", "why,who,tags,seconds,device"),
    ("runs list", "--csv"),
    ("runs list", "--json"),
    ("runs show", "RUN"),
    ("runs show", "RUN", "--json"),
    ("runs verify", "RUN"),
    ("runs diff", "RUN", "RUN"),
    ("runs code", "RUN", "OUT"),
    ("runs cost",),
    ("runs table", "--by", "seed"),
    ("queue",),
    ("",),
]


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["run.json", "summary.json", "attempts/1/start.json", "attempts/1/end.json"],
)
def test_a_value_of_another_type_never_ends_in_a_traceback(
    own, capsys, monkeypatch, tmp_path, name
):
    """a-fuzz: each value of a file replaced by others, and read by every command that reads runs."""
    monkeypatch.chdir(own.root)
    path = run_dir_of(own) / name
    whole = path.read_text()
    n_tried = 0
    for n, place in enumerate(leaves(json.loads(whole))):
        if place[:1] in (("settings",), ("sha256",)) or not place:
            continue
        for m, other in enumerate(OTHERS):
            if (n + m) % 4:  # each value meets a quarter of them, and each of them many values
                continue
            value = json.loads(whole)
            parent = value
            for key in place[:-1]:
                parent = parent[key]
            parent[place[-1]] = other
            relist(path, value)
            if name != "summary.json" and n % 2:
                shutil.copy(path.parents[0 if name == "run.json" else 2] / "summary.json", tmp_path)
                (run_dir_of(own) / "summary.json").unlink()
            read_all(own, n_tried)
            if (tmp_path / "summary.json").exists():
                shutil.move(tmp_path / "summary.json", run_dir_of(own) / "summary.json")
            n_tried += 1
    capsys.readouterr()
    assert n_tried > 20


def read_all(project, n):
    """Two of the commands, in turn; any error but ours fails the test."""
    out = project.root / "out"
    places = {"RUN": str(run_dir_of(project)), "OUT": str(out)}
    for words in (COMMANDS[n % len(COMMANDS)], COMMANDS[(n * 5 + 3) % len(COMMANDS)]):
        try:
            call(project, *(places.get(word, word) for word in words))
        except LabError:
            pass
        finally:
            shutil.rmtree(out, ignore_errors=True)


def test_what_is_damaged_is_named_and_hides_no_other_run(own, capsys):
    other = train(own)
    path = run_dir_of_id(own, other.id, False) / "run.json"
    rewrite(path, lambda record: record["code"].update(commit=[1]))
    said = refused(own, "runs show", str(path.parent))
    assert "cannot be read: in its run.json, code.commit is a list, expected text" in said
    assert "back from a backup" in said
    call(own, "runs list")
    assert capsys.readouterr().out.count("finished") == 2


def run_dir_of_id(project, run_id, same):
    """The directory of the run with this id, or of the one without it."""
    return next(
        path for path in project.root.glob("runs/baseline/2*") if (path.name == run_id) is same
    )


def test_a_record_that_is_nested_too_deep_is_damaged(own, capsys):
    path = run_dir_of(own) / "summary.json"
    summary = json.loads(path.read_text())
    deep = {"a": 1}
    for _ in range(500):
        deep = {"a": deep}
    path.write_text(json.dumps(summary | {"settings": deep}))
    assert "nested too deep" in read_row(str(path.parent))["exception"]
    call(own, "runs list")


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


@pytest.mark.release
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, "it stands for more than 1,000,000 values"),
        ("a: &a [*a]\n", "it stands for more than 1,000,000 values"),
        (f"a: {'[' * 200_000}{']' * 200_000}\n", "it is nested deeper than 100"),
        (f"{'- ' * 200_000}a\n", "it is nested deeper than 100"),
    ],
    ids=["laughs", "itself", "brackets", "dashes"],
)
def test_a_configuration_that_would_fill_the_memory_is_refused(own, capsys, text, words):
    """In few bytes: YAML's aliases stand for a billion values, and brackets crash its parser."""
    folder = run_dir_of(own)
    (folder / "config.yaml").write_text(text)
    with pytest.raises(LabError, match=words):
        read_recorded(folder / "config.yaml")
    with pytest.raises(LabError, match=words):
        _ = Run.open(folder).config
    assert settings_of_yaml(text) == {}
    call(own, "runs list")
    call(own, "runs show", str(folder))
    assert "finished" in capsys.readouterr().out
    for n in range(len(COMMANDS)):
        read_all(own, n)


def test_the_aliases_of_a_person_are_read():
    assert parse_yaml("a: &a {b: 1}\nc: [*a, *a]\n") == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}


# a-zipbomb and its siblings.


@pytest.mark.slow
def test_an_archive_that_would_fill_the_disk_is_not_unpacked(own, tmp_path, monkeypatch):
    """a-zipbomb."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    bomb = zipped(own, tmp_path, [(f"evil/big{n}", bytes(40_000_000)) for n in range(4)])
    assert "would unpack to 161 MB" in refused(own, "runs verify", bomb)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("evil/../../../out", "out'"),
        ("/tmp/out", "/tmp/out"),
        ("evil/runs/x", "not in the manifest"),
        ("beside/x", "beside is not in the manifest"),
        ("evil/manifest-sha256.txt", "is there twice"),
    ],
)
def test_an_archive_holds_its_files_once_and_inside(own, tmp_path, name, words):
    with pytest.warns(UserWarning, match="Duplicate") if "manifest" in name else nullcontext():
        archive = zipped(own, tmp_path, [(name, b"x")])
    assert words in refused(own, "runs verify", archive)


def test_an_archive_that_python_cannot_unpack_is_called_damaged(own, tmp_path):
    archive = Path(zipped(own, tmp_path))
    content = archive.read_bytes()
    for n, place in enumerate(range(100, len(content), len(content) // 40)):
        cut = tmp_path / f"{n}.zip"
        cut.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        assert str(cut) in refused(own, "runs verify", str(cut))


# Links: nothing is read or written through one.


def test_a_note_is_not_written_through_a_link(own, tmp_path):
    """g-notelink."""
    victim = tmp_path / "bashrc"
    victim.write_text("# bashrc\n")
    notes = run_dir_of(own) / "notes.jsonl"
    notes.unlink()
    notes.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        annotate(Run.open(run_dir_of(own)), note="hello")
    assert victim.read_text() == "# bashrc\n"


@pytest.mark.parametrize("name", ["attempts", "attempts/2"])
def test_an_attempt_is_not_made_through_a_link(own, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    path = run_dir_of(own) / name
    if path.exists():
        shutil.move(path, tmp_path / "away")
    path.symlink_to(outside)
    with pytest.raises(LabError, match="is a link, and lab writes through no link"):
        begin_attempt(Run.open(run_dir_of(own)), own)
    assert list(outside.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.json", "attempts/1/end.json", "notes.jsonl", "summary.json"])
def test_a_link_in_place_of_a_file_is_named(own, tmp_path, name):
    path = run_dir_of(own) / name
    shutil.move(path, tmp_path / path.name)
    path.symlink_to(tmp_path / path.name)
    assert "a link" in refused(own, "runs verify", str(run_dir_of(own)))


@pytest.mark.slow
def test_a_pipe_in_place_of_a_file_does_not_wait(own):
    path = run_dir_of(own) / "attempts/1/start.json"
    path.unlink()
    os.mkfifo(path)
    assert "start.json was changed" in refused(own, "runs verify", str(run_dir_of(own)))


# g-empty, g-closed-list.


def test_an_empty_word_names_no_run(own):
    """g-empty: an unset variable in "$RUN"."""
    for words in (
        ("runs tag", "", "oops"),
        ("runs note", "", "oops"),
        ("runs show", ""),
        ("runs verify", ""),
        ("cancel", ""),
        ("logs", ""),
        ("runs pull", ""),
    ):
        assert "names no run" in refused(own, *words)
    assert "oops" not in (run_dir_of(own) / "notes.jsonl").read_text()


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_output_gives_no_traceback(own, redirection):
    """g-closed-list."""
    words = f"{sys.executable} -m labrig runs list {redirection}"
    done = subprocess.run(["bash", "-c", words], cwd=own.root, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
