"""What changes numbers without being code: variables, and packages that somebody has edited."""

import json
import os
import shutil
import sys

import pytest
from labrig.record.freeze.environment import recorded_variables
from labrig.record.freeze.packages import edited_modules, file_hash
from labrig.record.read.run import Run
from labrig.record.reproduce.command import (
    REPEATED_VARIABLES,
    matches,
    print_unrecorded_variables,
)
from record_of_imports import run_program, start_of
from repositories import commit, write


@pytest.fixture
def own(with_extra, tmp_path):
    return shutil.copytree(with_extra, tmp_path / "myproj", symlinks=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "copies",
    ["E = dict(os.environ)\nE['MY_P']", "os.environb[b'MY_P']", "E = os.environ.copy()\nE['MY_P']"],
    ids=["dict", "environb", "copy"],
)
def test_a_variable_that_is_read_from_a_copy_is_named(own, copies):
    """a-env."""
    write(own, {"src/myproj/reads.py": f"import os\n{copies}\n"})
    commit(own, "Read")
    output = run_program(own, modules="myproj.reads", MY_P="0.5", MY_OTHER="1")
    assert start_of(own)["variables_read"] == ["MY_P"]
    assert "record.env_vars=[MY_P]" in output
    assert "MY_OTHER" not in json.dumps(start_of(own))


@pytest.mark.parametrize(
    "name",
    [
        "ATEN_CPU_CAPABILITY",
        "CUBLAS_WORKSPACE_CONFIG",
        "DNNL_MAX_CPU_ISA",
        "KMP_DETERMINISTIC_REDUCTION",
        "MKL_CBWR",
        "NVIDIA_TF32_OVERRIDE",
        "ONEDNN_MAX_CPU_ISA",
        "OPENBLAS_CORETYPE",
    ],
)
def test_what_native_libraries_read_is_recorded_and_repeated(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "some")
    assert recorded_variables(tmp_path)[name] == "some"
    assert matches(name, REPEATED_VARIABLES)


def install(folder):
    """A package, as an installer writes it."""
    write(folder, {"edited_of_test/__init__.py": "VALUE = 1\n"})
    digest = file_hash(folder / "edited_of_test/__init__.py")
    record = f"edited_of_test/__init__.py,sha256={digest},10\n"
    write(folder, {"edited_of_test-1.0.dist-info/RECORD": record})


def test_an_installed_package_that_was_edited_is_noticed(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    install(folder)
    monkeypatch.syspath_prepend(folder)
    __import__("edited_of_test")
    assert edited_modules() == []
    file = folder / "edited_of_test/__init__.py"
    later_s = file.stat().st_mtime + 60
    os.utime(file, (later_s, later_s))
    assert edited_modules() == []  # touched only
    file.write_text("VALUE = 2\n")
    os.utime(file, (later_s, later_s))
    assert edited_modules() == [str(file)]
    del sys.modules["edited_of_test"]


@pytest.mark.slow
def test_a_variable_that_was_not_recorded_is_announced_when_the_run_is_repeated(own, capsys):
    reads = (
        "import os\nos.environ.get('MY_P'), os.environ.get('HOME'), os.environ.get('HF_TOKEN')\n"
    )
    write(own, {"src/myproj/reads.py": reads})
    commit(own, "Read")
    run_program(own, modules="myproj.reads", MY_P="0.5")
    (directory,) = own.glob("runs/baseline/2*")
    print_unrecorded_variables(Run.open(directory))
    assert capsys.readouterr().out == (
        "note: the code read MY_P, which the record does not hold. Set it as it was then.\n"
    )
