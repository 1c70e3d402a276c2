"""What changes numbers without being code: variables, and packages that somebody has edited."""

import os
import sys

import pytest
from labrig.record.freeze.environment import REPEATED, matches, recorded_variables
from labrig.record.freeze.packages import edited_modules, file_hash
from repositories import write


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
    assert matches(name, REPEATED)


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
