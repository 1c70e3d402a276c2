"""`make kernel`: notebooks on JupyterHub or in JupyterLab can choose the environment of the project."""

from __future__ import annotations

from pathlib import Path

from ..project import Project
from .installer import index_variables, pip_command, quiet
from .process import output_of, run, say

REQUIREMENT = "ipykernel>=6.29"


def register_kernel(project: Project, environment: Path, uv: str | None) -> None:
    """Registers the environment as a kernel with the name of the package; again, it is replaced.

    The kernel lies in the user's Jupyter directory: JUPYTER_DATA_DIR, else ~/.local/share/jupyter.
    """
    python = environment / "bin" / "python"
    if not output_of(python, "-c", "import ipykernel; print('here')"):
        say(f"installing {REQUIREMENT.partition('>')[0]}")
        install = [*pip_command(environment, uv, "install"), *quiet(), REQUIREMENT]
        run(*install, variables=index_variables())
    name = project.package
    words = ["install", "--user", "--name", name, "--display-name", f"{name} ({project.root})"]
    run(python, "-m", "ipykernel", *words)
    say(f"reload the page of JupyterHub, and choose the kernel {name}")
