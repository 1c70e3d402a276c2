# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs code`."""

from pathlib import Path

from ..errors import LabError
from ..project import Project
from .find import find_run, run_parser
from .frozen import unpack_code


def code_command(project: Project, args: list[str]) -> None:
    """`lab runs code`.

    Raises:
        LabError: the directory exists, or the code of the run was not recorded.
    """
    parser = run_parser("code", "Writes the frozen code of a run.")
    parser.add_argument("directory", nargs="?", type=Path, help="a new directory (code-<run>)")
    options = parser.parse_args(args)
    run = find_run(project.paths.runs, options.run)
    directory = (options.directory or Path(f"code-{run.id}")).absolute()
    if directory.exists():
        raise LabError(f"{directory} exists already; name a new directory")
    unpack_code(run.record["code"], project.root, run.dir, directory)
    print(directory)
