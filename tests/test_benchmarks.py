"""What can be said of the benchmarks without running them, which takes minutes and the packages of others."""

import ast
from importlib import import_module

import pytest
from projects import ROOT

BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.name)
def test_each_name_that_it_imports_from_the_library_is_there(path):
    imports = [one for one in ast.walk(ast.parse(path.read_text())) if type(one) is ast.ImportFrom]
    of_library = [one for one in imports if one.module.partition(".")[0] == "labrig"]
    names = [(one.module, name.name) for one in of_library for name in one.names]
    assert [(module, name) for module, name in names if not is_there(module, name)] == []


def is_there(module, name):
    if hasattr(import_module(module), name):
        return True
    try:
        import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True
