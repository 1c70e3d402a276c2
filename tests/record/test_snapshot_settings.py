"""A snapshot sees every edit and runs no program, whatever the user's git is configured to."""

import os
import time

import pytest
from commands import write_command
from labrig.errors import LabError
from labrig.project import Project
from labrig.record.files.atomic import read_advisory, write_json
from labrig.record.freeze.frozen import freeze_code
from labrig.record.freeze.snapshot import format_code, snapshot
from record_package import PACKAGE, call, create, freeze, git, make_project, tree, write

pytestmark = pytest.mark.usefixtures("no_git_settings")
ESCAPE = "\x1b]0;pwned\x07"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "new_inode"), [("core.trustCtime=false", False), ("core.checkStat=minimal", True)]
)
def test_an_edit_of_the_same_size_and_time_is_seen(repo, setting, new_inode):
    path = repo / "src/b.py"
    git(repo, "config", *setting.split("="))
    os.utime(path, ns=(10**18, 10**18))
    git(repo, "update-index", "--refresh")
    if new_inode:
        path.rename(repo / "ignored.log")
    else:
        time.sleep(1.1)  # git compares whole seconds
    path.write_text("print(9)\n")
    os.utime(path, ns=(10**18, 10**18))
    assert git(repo, "status", "--short") == ""
    found = freeze(repo)
    assert found["dirty"]
    assert tree(repo, found["commit"])["src/b.py"] == "print(9)"


def sign_head(repo):
    """HEAD as a commit with a signature, which log.showSignature has gpg verify."""
    commit = git(repo, "cat-file", "commit", "HEAD")
    header, message = commit.split("\n\n", 1)
    lines = ["-----BEGIN PGP SIGNATURE-----", "", "iQ==", "-----END PGP SIGNATURE-----"]
    signed = (
        f"{header}\ngpgsig {chr(10).join(lines).replace(chr(10), chr(10) + ' ')}\n\n{message}\n"
    )
    git(
        repo, "reset", "-q", git(repo, "hash-object", "-t", "commit", "-w", "--stdin", stdin=signed)
    )


@pytest.mark.slow
def test_no_program_of_the_configuration_runs(repo, tmp_path):
    marker = tmp_path / "it-ran"
    program = write_command(tmp_path, "program", f"#!/bin/sh\necho $0 $@ >>{marker}\n")
    for hook in ("post-index-change", "reference-transaction", "pre-commit", "post-commit"):
        write_command(tmp_path / "hooks", hook, program.read_text())
    settings = {
        "core.fsmonitor": program,
        "core.hooksPath": tmp_path / "hooks",
        "core.pager": program,
        "core.alternateRefsCommand": program,
        "color.ui": "always",
        "diff.external": program,
        "diff.orderFile": tmp_path / "nowhere",
        "diff.python.command": program,
        "diff.python.textconv": program,
        "gpg.program": program,
        "gpg.ssh.program": program,
        "log.showSignature": "true",
        "pager.show": program,
    }
    write(repo, {".gitattributes": "*.py diff=python\n", f"src/{PACKAGE}/x.py": "x\n"})
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "second")
    sign_head(repo)
    for name, value in settings.items():
        git(repo, "config", name, str(value))
    write(repo, {"a.txt": "two\n", "new.py": "x\n"})
    code = freeze_code(Project(repo, PACKAGE), tmp_path / "runs", "baseline")
    assert not marker.exists(), marker.read_text()
    assert tree(repo, code["commit"])["a.txt"] == "two"
    git(repo, "-c", "diff.orderFile=/dev/null", "show", "-s", "HEAD")
    assert marker.exists()  # so the programs would have run


def test_only_files_that_differ_from_head_are_counted(repo):
    for path in ("a.txt", "src/b.py", ".gitignore"):
        os.utime(repo / path, (1, 1))
    found = snapshot(repo)
    assert (found["dirty"], found["n_changed"], found["n_untracked"]) == (False, 0, 0)
    write(repo, {"a.txt": "two\n", "src/b.py": "staged\n", "staged.py": "x\n", "new.py": "x\n"})
    git(repo, "add", "src/b.py", "staged.py")
    found = snapshot(repo)
    assert (found["n_changed"], found["n_untracked"]) == (2, 2)


@pytest.mark.slow
def test_names_with_escapes_are_printed_escaped(tmp_path, capsys):
    project = make_project(tmp_path)
    large = tmp_path / f"{ESCAPE}\nforged line"
    large.write_bytes(bytes(20_000_000))
    assert call(project, "snapshot") == 0
    call(project, "runs show", create(project).id)
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert "\x1b" not in text
        assert r"\x1b]0;pwned\x07\nforged line (size)" in text
    large.unlink()
    write(tmp_path, {f"{ESCAPE}.py": "wandb_api_key = '" + "0" * 40 + "'\n"})
    with pytest.raises(LabError) as refused:
        snapshot(tmp_path)
    assert r"\x1b]0;pwned\x07.py:1" in str(refused.value)


@pytest.mark.slow
def test_names_that_are_no_utf8_are_recorded_and_read(tmp_path, capsys):
    project = make_project(tmp_path)
    name = os.fsdecode(b"\xff.bin")
    (tmp_path / name).write_bytes(bytes(11_000_000))
    run = create(project)
    (run.dir / "run.json").read_text(encoding="utf-8")
    assert read_advisory(run.dir / "run.json")["code"]["skipped"][0]["path"] == name
    assert call(project, "runs show", run.id) == 0
    assert r"\xff.bin (size)" in capsys.readouterr().out
    assert call(project, "runs show", run.id, "--json") == 0
    write_json(tmp_path / "x.json", {"name": name, "é": 1})
    assert read_advisory(tmp_path / "x.json") == {"name": name, "é": 1}
    assert format_code(read_advisory(run.dir / "run.json")["code"]).isprintable()
