"""The files that a run imported or read are in its record, and decide whose code is the same."""

import os
import shutil
import subprocess
import sys

import pytest
from labrig.project import Project
from labrig.record.compare.code_meaning import meaning_of_source, meanings_of_blobs
from labrig.record.compare.trial_code import code_of_rows
from labrig.record.list import row_cache
from labrig.record.list.rows import read_rows
from projects import environment_of, work_on
from record_of_imports import run_program, start_of
from repositories import commit, git, write

EXTRA = "src/myproj/extra.py"
WORDS = "src/myproj/words.txt"
READS = "import os\n\nVALUE = open(os.path.join(os.path.dirname(__file__), 'words.txt')).read()\n"


@pytest.fixture
def own(with_extra, tmp_path):
    return shutil.copytree(with_extra, tmp_path / "myproj", symlinks=True)


def n_codes(own):
    """How many codes the runs of a project have."""
    rows = read_rows([own / "runs"])
    return len(set(code_of_rows(own, rows).values()))


@pytest.mark.slow
def test_the_record_names_the_files_that_were_imported_and_read(own):
    write(own, {"src/myproj/reads.py": READS, WORDS: "a b\n", "src/myproj/idle.py": "IDLE = 1\n"})
    commit(own, "Add words")
    run_program(own, modules="myproj.extra myproj.reads")
    used = start_of(own)["code"]["used"]
    assert sorted(used) == ["src/myproj/__init__.py", EXTRA, "src/myproj/reads.py", WORDS]
    assert used[EXTRA] == git(own, "rev-parse", f"HEAD:{EXTRA}")


@pytest.mark.slow
def test_code_is_compared_by_the_meaning_of_what_was_imported(own):
    """new-user-4, 5: formatting split the seeds, 16 other lines joined them."""
    work_on(Project(own, "myproj"))
    run_program(own)
    write(own, {"src/myproj/task.py": "raise SystemExit\n"})
    run_program(own)
    assert n_codes(own) == 1, "task.py was not imported"
    write(own, {EXTRA: '"""Extra."""\n\nVALUE = (\n    1  # one\n)\n'})
    run_program(own)
    assert n_codes(own) == 1, "only the formatting"
    write(own, {EXTRA: "VALUE = 2\n"})
    run_program(own)
    assert n_codes(own) == 2


def test_the_frozen_library_is_not_compared(tmp_path):
    """A job, and `lab runs reproduce`, import it from the frozen code: one code with `lab train`."""
    work_on(Project(tmp_path, "myproj"))
    row = {"trial": "wide", "run_dir": "a", "code_files": {EXTRA: "e" * 40}}
    library = {"labrig-frozen/labrig/data.py": "f" * 40}
    job = row | {"run_dir": "b", "code_files": row["code_files"] | library}
    codes = code_of_rows(tmp_path, [row, job])
    assert codes["a"] == codes["b"]


@pytest.mark.slow
def test_a_file_of_the_project_that_the_code_reads_is_code(own):
    work_on(Project(own, "myproj"))
    write(own, {"src/myproj/reads.py": READS, WORDS: "a b\n"})
    run_program(own, modules="myproj.reads")
    write(own, {WORDS: "a b c\n"})
    run_program(own, modules="myproj.reads")
    assert n_codes(own) == 2


@pytest.mark.slow
def test_code_that_git_does_not_have_is_compared_by_its_hash(own, tmp_path):
    work_on(Project(own, "myproj"))
    outside = tmp_path / "outside.py"
    for value in (1, 1, 2):
        outside.write_text(f"VALUE = {value}\n")
        run_program(own, modules="outside", PYTHONPATH=f"{own}/src{os.pathsep}{tmp_path}")
    assert n_codes(own) == 2


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("a=1 # one\n\n\nb = 'x'", 'a = (\n    1\n)\nb = "x"', True),
        ("def f():\n    'Does.'\n    return 1", "def f(): return 1", True),
        ("class A:\n    'Only this.'", "class A:\n    pass", True),
        ("'A module.'", "", True),
        ("a = 1", "a = 1.0", False),
        ("a = 'text'", "a = 'Text'", False),
        ("def f():\n    x = 'no docstring'", "def f():\n    pass", False),
        ("f(1, 2)", "f(2, 1)", False),
    ],
)
def test_what_counts_as_the_same_code(one, other, is_same):
    meanings = [meaning_of_source(source.encode()) for source in (one, other)]
    assert None not in meanings
    assert (meanings[0] == meanings[1]) == is_same


@pytest.mark.parametrize("source", [b"def f(:\n", b"a = '\0'", b"\xff\xfe", b"(" * 100_000])
def test_code_that_python_cannot_read_has_no_meaning(source):
    assert meaning_of_source(source) is None


def test_a_damaged_cache_of_meanings_is_made_again(repo, tmp_path, monkeypatch):
    monkeypatch.setattr(row_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    sources = ("VALUE = 1\n", "VALUE =  1\n", "VALUE = 2\n", "VALUE =\n")
    one, same, other, broken = (
        git(repo, "hash-object", "-w", "--stdin", stdin=source) for source in sources
    )
    lost = "0" * 40

    def found():
        return meanings_of_blobs(repo, [one, same, other, broken, lost])

    meanings = found()
    assert meanings.keys() == {one, same, other}
    assert meanings[one] == meanings[same] != meanings[other]
    cache = row_cache.cache_folder() / "code.meanings"
    content = cache.read_bytes()
    for damaged in (content[:40], b"", b"no cache", content[:-1] + b"x"):
        cache.write_bytes(damaged)
        assert found() == meanings
        assert cache.read_bytes().startswith(b"meanings of code ")


@pytest.mark.slow
def test_a_table_imports_nothing_slow(own):
    run_program(own, later="recording.metrics['val/loss'] = 1.0")
    program = """
import sys
from labrig.cli import main
main(["runs", "table"])
slow = {"torch", "lightning", "hydra", "omegaconf", "numpy", "h5py"} & set(sys.modules)
sys.exit(f"imported {slow}" if slow else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=own, env=environment_of(own), capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert b"val/loss" in done.stdout
