# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""`make setup` runs `python -m <package>.lab.setup`; `make add` and `make kernel` the same with that word."""

import os
import shutil
import sys

from ..machine.caches import cache_variables
from ..update.origin import update_problem
from .add import added, typed_requirements
from .centre import packages_of_centre
from .environment import lead_shell, make_environment
from .kernel import register_kernel
from .packages import install
from .places import caches_path, environment_path
from .process import ROOT, say, stop
from .repository import make_repository, require_no_conflicts
from .torch_build import chosen_build


def main(words):
    uv = shutil.which("uv")
    caches = caches_path()
    os.environ.update(cache_variables(caches))
    require_python(uv, words)
    # That of the user, or of the Makefile: the packages in it are not those of the environment.
    os.environ.pop("PYTHONPATH", None)
    require_no_conflicts()
    requirements = typed_requirements() if words == ["add"] else []
    environment = environment_path()
    build = chosen_build(environment)
    centre = packages_of_centre()
    if centre is not None:
        uv = None  # it does not see the packages below an environment, and installs them again
    make_environment(environment, uv, on_centre=centre is not None)
    lead_shell(environment, caches)
    if requirements:
        with added(requirements):
            install(environment, uv, build, centre)
        return
    install(environment, uv, build, centre)
    if words == ["packages"]:  # `lab submit on=HOST` has no repository there
        return
    if words == ["kernel"]:
        register_kernel(environment, uv)
        return
    make_repository(environment)
    problem = update_problem(ROOT)
    if problem:
        say(problem)
    print("\nReady. To call `lab` in this shell:\n  . .venv/bin/activate\nThen: lab --help")


def require_python(uv, words):
    """Starts this program again with a newer Python that uv brings, or stops."""
    if sys.version_info >= (3, 11):  # noqa: UP036 - the system's Python may well be older
        return
    if uv:
        command = [uv, "run", "--no-project", "--python", ">=3.11", "python", "-m", __package__]
        os.execv(uv, [*command, *words])
    version = "{}.{}".format(*sys.version_info)
    stop(
        f"Python {version} is too old; 3.11 is needed. Install uv, or: make setup PYTHON=python3.11"
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(f"\nsetup: stopped. To continue: cd {ROOT} && make setup")
