# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`make kernel`: notebooks on JupyterHub or in JupyterLab can choose the environment of the project."""

from .installer import index_variables, pip_command, quiet
from .process import PACKAGE, ROOT, output_of, run, say

REQUIREMENT = "ipykernel>=6.29"


def register_kernel(environment, uv):
    """Registers the environment as a kernel with the name of the package; again, it is replaced.

    The kernel lies in the user's Jupyter directory: JUPYTER_DATA_DIR, else ~/.local/share/jupyter.
    """
    python = environment / "bin" / "python"
    if not output_of(python, "-c", "import ipykernel; print('here')"):
        say(f"installing {REQUIREMENT.partition('>')[0]}")
        install = [*pip_command(environment, uv, "install"), *quiet(), REQUIREMENT]
        run(*install, **index_variables())
    name = PACKAGE.name
    words = ["install", "--user", "--name", name, "--display-name", f"{name} ({ROOT})"]
    run(python, "-m", "ipykernel", *words)
    say(f"reload the page of JupyterHub, and choose the kernel {name}")
