"""The project that the benchmarks work in: a copy of tests/project, which is what the template renders.

Whoever imports this file can import those of tests/helpers, too.
"""

import shutil
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/helpers"))
from projects import ROOT, copy_project
from repositories import commit

LAB = [sys.executable, "-m", "labrig"]


def make_project(folder: Path) -> Path:
    """folder/myproj, committed."""
    project = copy_project(folder / "myproj")
    commit(project, "Start")
    return project


def project_with(folder: Path, programs: dict[str, str], trial: str, model: str) -> Path:
    """folder/myproj with a trial whose model is `model`, and data=memory; next to it the programs, as <name>.py."""
    project = copy_project(folder / "myproj")
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    shutil.copy(ROOT / "benchmarks/batch_loader.py", folder)
    package = project / "src/myproj"
    (package / "trials" / trial).mkdir()
    (package / "trials" / trial / "config.yaml").write_text(f"model:\n  _target_: {model}\n")
    (package / "conf/data/memory.yaml").write_text("_target_: modules.Batches\n")
    commit(project, "Start")
    return project
