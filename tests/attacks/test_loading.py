"""What Python loads is what was frozen, and what else it reads is in the record."""

import os
import subprocess
import sys

import pytest
from projects import copy_of
from record_of_imports import lab, run_program, start_of
from repositories import commit, write


@pytest.fixture
def own(with_extra, tmp_path):
    return copy_of(with_extra, tmp_path / "myproj")


EXTRA = "src/myproj/extra.py"
SHOWN = "import myproj.extra as e; print(e.VALUE)"


def not_frozen(own):
    return [(file["path"], file["kind"]) for file in start_of(own)["code"]["not_frozen"]]


@pytest.mark.slow
def test_bytecode_of_other_bytes_with_the_same_size_and_time_does_not_run(own):
    """a-pyc: Python would take the stale file of __pycache__."""
    os.utime(own / EXTRA, (1e9, 1e9))
    environment = {**os.environ, "PYTHONPATH": str(own / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-c", "import myproj.extra"], env=environment, check=True)
    assert list(own.glob("src/myproj/__pycache__/extra.*"))
    write(own, {EXTRA: "VALUE = 2\n"})
    os.utime(own / EXTRA, (1e9, 1e9))
    commit(own, "Edit")
    assert run_program(own, later=SHOWN) == "2\n"
    assert start_of(own)["code"]["complete"] is True


@pytest.mark.slow
def test_an_edit_that_is_undone_before_the_check_does_not_run(own):
    """a-saveundo: saved during the start, undone seconds later."""
    between = f"text = Path('{EXTRA}').read_text(); Path('{EXTRA}').write_text('VALUE = 2\\n')"
    later = f"Path('{EXTRA}').write_text('VALUE = 1\\n'); {SHOWN}"
    assert run_program(own, between=between, later=later) == "1\n"


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    "loads",
    [
        "exec(open(PATH).read())",
        "import importlib.util as u\ns = u.spec_from_file_location('x', PATH)\n"
        "m = u.module_from_spec(s)\ns.loader.exec_module(m)",
        "import runpy\nrunpy.run_path(PATH)",
    ],
    ids=["exec", "spec_from_file_location", "runpy"],
)
def test_code_from_outside_is_named_however_it_is_loaded(own, tmp_path, loads):
    """a-exec, a-importlib."""
    outside = tmp_path / "outside.py"
    outside.write_text("VALUE = 3\n")
    write(own, {"src/myproj/loads.py": f"PATH = {str(outside)!r}\n{loads}\n"})
    for _ in range(2):  # the second time from the bytecode file of the first
        output = run_program(own, modules="myproj.loads")
        assert f"{outside}: outside of the repository" in output
    newest = max(own.glob("runs/*/2*")).name
    outside.write_text("VALUE = 4\n")
    assert f"{outside}, which is not recorded, changed since" in lab(
        own, "runs", "verify", newest, rc=1
    )


@pytest.mark.slow
def test_a_file_that_git_ignores_and_the_code_reads_is_recorded(own):
    """a-datafile."""
    write(
        own,
        {
            ".gitignore": "/runs\n*.ckpt\n",
            "src/myproj/init.ckpt": "weights",
            "src/myproj/reads.py": "import os\nPATH = os.path.dirname(__file__) + '/init.ckpt'\n"
            "VALUE = open(PATH).read()\n",
        },
    )
    commit(own, "Read weights")
    output = run_program(own, modules="myproj.reads")
    assert "src/myproj/init.ckpt: read, and not in the frozen code" in output
    assert not_frozen(own) == [("src/myproj/init.ckpt", "read")]
    assert start_of(own)["code"]["complete"] is False
    write(own, {"src/myproj/init.ckpt": "others"})
    verified = lab(own, "runs", "verify", "@last", rc=1)
    assert "src/myproj/init.ckpt, which is not recorded, changed since" in verified
    refused = run_program(own, modules="myproj.reads", policy="refuse refuse", rc=4)
    assert "record.unfrozen=warn" in refused
    assert "git add -f src/myproj/init.ckpt" in refused


@pytest.mark.slow
def test_a_frozen_file_that_was_edited_before_it_is_read_is_refused(own):
    write(own, {"src/myproj/prompt.txt": "one", "src/myproj/reads.py": READS_PROMPT})
    edit = "Path('src/myproj/prompt.txt').write_text('two')"
    output = run_program(own, modules="myproj.reads", between=edit, rc=4)
    assert "src/myproj/prompt.txt: changed after the code was frozen" in output


READS_PROMPT = (
    "from pathlib import Path\nVALUE = Path(__file__).with_name('prompt.txt').read_text()\n"
)


@pytest.mark.slow
def test_files_of_runs_and_data_and_variables_of_env_do_not_count(own):
    names = (".env", "data/x.txt", "README.md", "src/myproj/extra.py")
    reads = f"from pathlib import Path\nfor name in {names}:\n    Path(name).read_text()\n"
    write(own, {".env": "A=1\n", "data/x.txt": "x", "src/myproj/reads.py": reads})
    commit(own, "Read")
    assert run_program(own, modules="myproj.reads", elsewhere="data") == ""
    assert start_of(own)["code"]["complete"] is True
