"""What a project imports of labrig, and what a configuration names of it, is public: it stays through updates."""

import ast
import re
import sys

from projects import LIBRARY, PROJECT, ROOT

sys.path.insert(0, str(ROOT / "hooks"))
from release.public_names import MODULES

TARGET = re.compile(r"_target_: (labrig[\w.]*)")


def public():
    """The names in `__all__` of each public module, from labrig on."""
    names = set()
    for module in MODULES:
        file = LIBRARY / f"{module}.py"
        path = file if module and file.exists() else LIBRARY / module / "__init__.py"
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                prefix = f"labrig.{module}" if module else "labrig"
                names |= {f"{prefix}.{name}" for name in ast.literal_eval(node.value)}
    return names


def imported(path):
    """The names of labrig that a Python file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labrig"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("labrig"))


def test_the_files_of_a_project_import_public_names():
    paths = [*PROJECT.rglob("src/**/*.py"), *PROJECT.rglob("tests/*.py")]
    names = {name for path in paths for name in imported(path)}
    assert {"labrig.H5DataModule", "labrig.train.build_trainer"} <= names
    assert names - public() == set()


def test_the_targets_of_all_configurations_are_public_names():
    files = [*LIBRARY.rglob("conf/**/*.yaml"), *PROJECT.rglob("src/**/*.yaml")]
    names = {name for file in files for name in TARGET.findall(file.read_text(encoding="utf-8"))}
    assert {"labrig.callbacks.Pictures", "labrig.task.warmup_cosine"} <= names
    assert names - public() == set()
