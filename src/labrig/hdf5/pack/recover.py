"""`lab data recover`: makes the data file of a run again, with the code that the run recorded."""

import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from ... import env
from ...command_parser import CommandParser
from ...errors import Failed, LabError, NotComparable
from ...project import Project
from ...record.files.forms import RelativePath, problem_in
from ...record.freeze.frozen import unpack_code
from ...record.read.find import RUN_HELP, find_run
from ...record.read.run import Run, run_roots
from ...record.reproduce.code import run_code
from ...record.reproduce.command import link_shared
from ...record.reproduce.recorded_inputs import (
    find_recorded_data,
    find_recorded_file,
    is_same_data,
    kept_path,
    recorded_files,
    relative_name,
)
from ..file.atomic_file import publish, temporary_directory_next_to
from ..file.checksum import fingerprint
from ..file.errors import DataFileError
from ..file.find import data_files_in, place_of, writable_directory
from ..file.joined import read_layouts

PACK = ["lab", "data", "pack"]


def recover_command(project: Project, args: list[str]) -> None:
    """Makes the data of a run again and compares them with the record, unless they are there."""
    parser = CommandParser(
        "lab data recover",
        description="Makes the data file of RUN again, with the code that RUN recorded, from the raw "
        "data as they are now; checks its hash.",
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    run = find_run(run_roots(project), parser.parse_args(args).run)
    command = pack_command_of(run)
    found = data_that_are_there(project, run)
    if found:
        print(f"{found} is what {run.id} read; there is nothing to recover")
        return
    if "files" in run.data:
        find_recorded_data(project, run)  # says which file is missing, and what made it
    target = free_path(project, run)
    with temporary_directory_next_to(target) as directory:
        made = pack_again(project, run, command, directory)
        found = fingerprint(made)
        if not is_same_data(run.data, found):
            raise NotComparable(
                f"{shlex.join(command)} with the code of {run.id} gives other data now: {found['n']} samples, "
                f"sha256 {found['sha256'][:12]}; recorded were {run.data.get('n')} samples, "
                f"{run.data['sha256'][:12]}. Nothing was kept.\n"
                "The raw data are others than then, or the packages that read them: "
                f"lab runs show {run.id}"
            )
        publish(made, target)
    print(f"{target}: what {run.id} read, made again\nnext: lab runs verify {run.id}")


def pack_command_of(run: Run) -> list[str]:
    """The words of the command that made the data of a run."""
    if "size_bytes" not in run.data:
        raise LabError(
            f"{run.id} recorded no data file, so there is none to recover. See: lab runs show {run.id}"
        )
    section = run.config.get("data")
    section = section if isinstance(section, dict) else {}
    typed = run.data.get("pack", "")  # the YAML's may be that of an earlier file
    if not typed.startswith(" ".join(PACK)):
        typed = section.get("pack")
    name = Path(str(section.get("path") or run.data["path"])).stem
    try:
        words = shlex.split(typed) if isinstance(typed, str) else [*PACK, name]
    except ValueError:  # a quote without its end
        words = []
    if words[: len(PACK)] != PACK:
        raise LabError(
            f"the data of {run.id} were made by another command than lab data pack. Type it yourself: "
            f"{typed}"
        )
    return words


def data_that_are_there(project: Project, run: Run) -> Path | None:
    """The data of a run, wherever they lie; None when they are gone or damaged."""
    with suppress(NotComparable, DataFileError):
        paths = find_recorded_data(project, run)
        if paths and is_same_data(run.data, fingerprint(read_layouts(paths))):
            return place_of(paths)
    return None


def free_path(project: Project, run: Run) -> Path:
    """Where the file goes: under its name where no file has it, else with its hash."""
    path = writable_directory(project) / Path(run.data["path"]).name
    return kept_path(path, run.data["sha256"]) if path.exists() else path


def missing_files(project: Project, run: Run) -> dict[Path, str]:
    """Where each data file of a run goes that is not here, and its hash.

    It has its name where no file has it, else its hash in it; in a folder of other files it would
    become one of theirs, so that it goes next to it.
    """
    if "files" not in run.data:
        return {free_path(project, run): run.data["sha256"]}
    directory = writable_directory(project)
    missing = {}
    for file in recorded_files(run.data):
        with suppress(NotComparable, DataFileError):
            if is_same_data(file, fingerprint(find_recorded_file(project, run, file))):
                continue
        name = relative_name(run, file)
        problem = problem_in(name, RelativePath)
        if problem:
            raise LabError(f"a data file of {run.id}: {problem}. Its record is not to be trusted")
        path = directory / name
        if path.exists():
            path = kept_path(path, file["sha256"])
        elif path.parent != directory and data_files_in(path.parent):
            path = kept_path(directory / path.name, file["sha256"])
        missing[path] = file["sha256"]
    return missing


def pack_again(project: Project, run: Run, command: list[str], directory: Path) -> Path:
    """The file that the recorded code packs into `directory`, from sources as seen from the project."""
    frozen = run_code(run)
    code = frozen.code
    with tempfile.TemporaryDirectory(prefix="lab-recover-") as temporary:
        unpacked = Path(temporary).resolve() / "code"
        unpack_code(code, project.root, frozen.bundles, unpacked)
        # The frozen tree is the project here: what packing writes next to the data goes away with it.
        root = unpacked / code["prefix"]
        link_shared(project, root)
        paths = env.paths_outside(project.root)
        variables = env.frozen_environment(unpacked, code["prefix"], root, code["commit"], paths)
        subprocess.run(
            [sys.executable, "-m", "labrig", *command[1:], "--to", str(directory)],
            cwd=project.root,
            env=os.environ | variables,
            stdout=subprocess.DEVNULL,
        )
    made = sorted(directory.rglob("*.h5"))
    if len(made) != 1:
        raise Failed(
            f"the code of {run.id} did not pack the data again, see above. It typed: "
            f"{shlex.join(command)}"
        )
    return made[0]
