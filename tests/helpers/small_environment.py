"""An environment of a few files that has every package of the tests, by a path; and a `lab` that runs in it."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from commands import write_command
from projects import LIBRARY, tools_of


def small_environment(folder):
    """Makes the environment `folder`; its Python imports what this one can import."""
    python = Path(sys.base_prefix) / "bin/python3"
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    version = "python{}.{}".format(*sys.version_info)
    packages = folder / f"lib/{version}/site-packages"
    (packages / "shared.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n{LIBRARY.parent}\n")
    write_command(
        folder / "bin", "which-python", f"#!{folder}/bin/python3\nimport sys; print(sys.prefix)\n"
    )
    return folder


def use_environment(project, environment):
    """Lets the command `lab` of a test's project run in `environment`."""
    (project / ".venv").unlink()
    (project / ".venv").symlink_to(environment)
    (tools_of(project) / "lab").unlink(missing_ok=True)
    script = f'#!/bin/sh\nexec "{environment}/bin/python" -m labrig "$@"\n'
    write_command(tools_of(project), "lab", script)
