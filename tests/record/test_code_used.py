"""The files that a run imported or read are in its record, and decide whose code is the same."""

import os
import subprocess
import sys

import pytest
from labrig.project import Project
from labrig.record.compare.code_files import code_of_rows
from labrig.record.read.rows import read_rows
from projects import copy_of, environment_of, work_on
from record_of_imports import run_program, start_of
from repositories import commit, git, write

EXTRA = "src/myproj/extra.py"
WORDS = "src/myproj/words.txt"
READS = "import os\n\nVALUE = open(os.path.join(os.path.dirname(__file__), 'words.txt')).read()\n"


@pytest.fixture
def own(with_extra, tmp_path):
    return copy_of(with_extra, tmp_path / "myproj")


def n_codes(own):
    """How many codes the runs of a project have."""
    rows = read_rows([own / "runs"])
    return len(set(code_of_rows(rows).values()))


@pytest.mark.slow
def test_the_record_names_the_files_that_were_imported_and_read(own):
    write(own, {"src/myproj/reads.py": READS, WORDS: "a b\n", "src/myproj/idle.py": "IDLE = 1\n"})
    commit(own, "Add words")
    run_program(own, modules="myproj.extra myproj.reads")
    used = start_of(own)["code"]["used"]
    assert sorted(used) == ["src/myproj/__init__.py", EXTRA, "src/myproj/reads.py", WORDS]
    assert used[EXTRA] == git(own, "rev-parse", f"HEAD:{EXTRA}")


@pytest.mark.slow
def test_what_was_imported_is_compared_as_it_is(own):
    work_on(Project(own, "myproj"))
    run_program(own)
    write(own, {"src/myproj/task.py": "raise SystemExit\n"})
    run_program(own)
    assert n_codes(own) == 1, "task.py was not imported"
    write(own, {EXTRA: '"""Extra."""\n\nVALUE = (\n    1  # one\n)\n'})
    run_program(own)
    assert n_codes(own) == 2, "a docstring may be data"


def test_the_frozen_library_is_not_compared(tmp_path):
    """A job, and `lab runs reproduce`, import it from the frozen code: one code with `lab train`."""
    work_on(Project(tmp_path, "myproj"))
    row = {"trial": "wide", "run_dir": "a", "code_files": {EXTRA: "e" * 40}}
    library = {"labrig-frozen/labrig/data.py": "f" * 40}
    job = row | {"run_dir": "b", "code_files": row["code_files"] | library}
    codes = code_of_rows([row, job])
    assert codes["a"] == codes["b"]


@pytest.mark.release
@pytest.mark.slow
def test_a_file_of_the_project_that_the_code_reads_is_code(own):
    work_on(Project(own, "myproj"))
    write(own, {"src/myproj/reads.py": READS, WORDS: "a b\n"})
    run_program(own, modules="myproj.reads")
    write(own, {WORDS: "a b c\n"})
    run_program(own, modules="myproj.reads")
    assert n_codes(own) == 2


@pytest.mark.release
@pytest.mark.slow
def test_code_that_git_does_not_have_is_compared_by_its_hash(own, tmp_path):
    work_on(Project(own, "myproj"))
    outside = tmp_path / "outside.py"
    for value in (1, 1, 2):
        outside.write_text(f"VALUE = {value}\n")
        run_program(own, modules="outside", PYTHONPATH=f"{own}/src{os.pathsep}{tmp_path}")
    assert n_codes(own) == 2


@pytest.mark.release
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
