"""`lab vendor`: the wheel of labrig, or of every package, is kept in vendor/ with the project.

A clone then installs in five years what it installs today, without an index or the repository that
pyproject.toml names.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from ..command_parser import CommandParser
from ..errors import Failed, LabError
from ..machine.text_formats import counted
from ..project import LIBRARY, PYPROJECT, VENDORED, Project, installed_library
from ..record.freeze.packages import installed_packages, versions_by_name
from ..record.freeze.wheel import write_wheel
from .installer import name_of, pin_of, quiet

FOLDER = "vendor"
# Every package was kept: where the wheels are, tools/bootstrap.py has no index asked.
ALL = "all"


def vendor_command(project: Project, args: list[str]) -> None:
    parser = CommandParser(
        prog="lab vendor",
        description=f"Keeps the wheel of labrig in {FOLDER}/, from which `make setup` installs it.",
    )
    parser.add_argument(
        "--all", action="store_true", help="every package of the environment too (gigabytes)"
    )
    options = parser.parse_args(args)
    folder = project.root / FOLDER
    wheel = vendor_library(project, folder)
    print(f"{FOLDER}/{wheel.name}  {wheel.stat().st_size / 1e6:.1f} MB")
    if options.all:
        wheels = vendor_packages(project, folder)
        n_bytes = sum(path.stat().st_size for path in wheels)
        print(
            f"{FOLDER}/ has {counted(len(wheels), 'wheel')}, {n_bytes / 1e9:.2f} GB, too much for git. "
            f"Keep them with the paper's archive;\nwith them in {FOLDER}/ of a clone, "
            "`make setup` asks no index."
        )
    print(f"Commit labrig: git add {FOLDER}/{LIBRARY.name}*")


def vendor_library(project: Project, folder: Path) -> Path:
    """Puts the wheel of the library that runs into `folder`, in place of another version's."""
    pin = pin_of(project)
    installed = installed_library(project.root)
    if installed not in ("", pin):
        raise LabError(
            f"{installed} is installed, and {PYPROJECT} pins {pin}; its wheel is not that of the pin. "
            "Type: make setup LABRIG=pinned"
        )
    with tempfile.TemporaryDirectory(prefix="lab-vendor-") as temporary:
        new = write_wheel(Path(temporary))
        folder.mkdir(exist_ok=True)
        for old in folder.glob(f"{LIBRARY.name}-*.whl"):
            print(f"removing {FOLDER}/{old.name}")
            old.unlink()
        wheel = folder / new.name
        shutil.move(new, wheel)
    (project.root / VENDORED).write_text(f"{pin}\n{wheel.name}\n", encoding="utf-8")
    return wheel


def vendor_packages(project: Project, folder: Path) -> list[Path]:
    """Puts a wheel of each package of this environment, in its version, into `folder`.

    What builds the project is among them. From now on `make setup` asks no index.
    """
    versions = [
        f"{name}=={version}"
        for name, version in versions_by_name(installed_packages()).items()
        if name not in (LIBRARY.name, name_of(project.package))
    ]
    content = tomllib.loads((project.root / PYPROJECT).read_text(encoding="utf-8"))
    builders = [*content.get("build-system", {}).get("requires", []), "editables"]
    pip = [sys.executable, "-m", "pip", "wheel", *quiet(), "--wheel-dir", str(folder)]
    for words in (["--no-deps", *versions], builders):
        if subprocess.call([*pip, *words], cwd=project.root):
            raise Failed(f"pip wheel failed, see above. What came is in {folder}; type it again")
    with open(project.root / VENDORED, "a", encoding="utf-8") as file:
        file.write(f"{ALL}\n")
    return sorted(folder.glob("*.whl"))
