"""What can be said of the benchmarks without running them, which takes minutes and the packages of others."""

import ast
from importlib import import_module

from projects import ROOT

BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


def test_each_name_that_it_imports_from_the_library_is_there():
    nodes = [node for path in BENCHMARKS for node in ast.walk(ast.parse(path.read_text()))]
    imports = [node for node in nodes if type(node) is ast.ImportFrom]
    of_library = [one for one in imports if one.module.partition(".")[0] == "labrig"]
    names = {(one.module, name.name) for one in of_library for name in one.names}
    assert len(names) > 5
    assert [(module, name) for module, name in names if not is_there(module, name)] == []


def is_there(module, name):
    if hasattr(import_module(module), name):
        return True
    try:
        import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True
