"""What the benchmarks of a whole project share: the project, as committed, and commands in it that must succeed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_command(folder: Path) -> list[str]:
    """`copier copy` of what is committed, cloned to folder/template; where to follows."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "template")], check=True)
    words = ["copy", "--defaults", "--quiet", "--vcs-ref", "HEAD", str(folder / "template")]
    return [sys.executable, "-m", "copier", *words]


def project_with(folder: Path, programs: dict[str, str], trial: str, model: str) -> Path:
    """folder/myproj with a trial whose model is `model`, and data=memory; next to it the programs, as <name>.py."""
    project = folder / "myproj"
    subprocess.run([*copy_command(folder), str(project)], check=True)
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    shutil.copy(ROOT / "benchmarks/batch_loader.py", folder)
    (project / "src/myproj/trials" / trial).mkdir()
    (project / "src/myproj/trials" / trial / "config.yaml").write_text(
        f"model:\n  _target_: {model}\n"
    )
    (project / "src/myproj/conf/data/memory.yaml").write_text("_target_: modules.Batches\n")
    return project


def run(command: list[str], folder: Path, path: str, **variables: str) -> str:
    """What a command printed in `folder`, with `path` as its PYTHONPATH."""
    environment = os.environ | {"PYTHONPATH": path} | variables
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800
    )
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
