"""`lab data verify`: checks every byte of a data set."""

import json
from pathlib import Path

from ...errors import Failed
from ...project import Project
from .checksum import fingerprint, verify_layout
from .errors import DataFileError
from .find import data_files_of, parser_for_one_file
from .folder_fingerprint import fingerprint_folder
from .joined import read_data_set


def verify_command(project: Project, args: list[str]) -> None:
    """Checks every byte of a data file; of a folder it prints the hash of all files."""
    parser = parser_for_one_file("verify", "checks every byte of a data file")
    parser.add_argument("--json", action="store_true", help='for scripts: {"sha256": ...}')
    options = parser.parse_args(args)
    files = data_files_of(project, options.name)
    if files[0].is_dir():
        print_folder(files[0], options.json)
        return
    try:
        layout = read_data_set(project, options.name)
        verify_layout(layout)
    except DataFileError as error:
        raise Failed(str(error)) from error
    sha256 = fingerprint(layout, verified=True)["sha256"]
    if options.json:
        print(json.dumps({"sha256": sha256}))
        return
    print(
        f"{layout.path}: all {layout.n_samples} samples are as they were written, sha256 {sha256}"
    )


def print_folder(folder: Path, as_json: bool) -> None:
    """Prints the hash of a folder, which says nothing of damage: compare it with a recorded one."""
    content = fingerprint_folder(folder, cached=False)
    if as_json:
        print(json.dumps({"sha256": content["sha256"]}))
        return
    print(f"{content['path']}: {content['n']} files, sha256 {content['sha256']}")
