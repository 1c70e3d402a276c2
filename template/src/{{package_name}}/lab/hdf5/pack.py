# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab data pack`: raw data into one .h5 file."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from tqdm import tqdm

from ..errors import LabError
from ..project import Project
from .checksum import fingerprint
from .file_layout import read_layout
from .find import data_config
from .info import print_content
from .readers import READERS, detect_changes, open_arrays
from .split import Splitter, parse_ratios, read_split_file
from .spool import write_raw_fields
from .writer import temporary_directory_beside, write_fields

PACK = """`lab data pack NAME [SOURCE]`: raw data into one .h5 file in the first writable place of paths.data.

Without --as, the samples come from the class that conf/data/NAME.yaml names: its samples(source).
"""


def pack_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser("lab data pack", description=PACK)
    add = parser.add_argument
    add("name", help="a file of conf/data, without .yaml; with --as also a new name")
    add("source", nargs="*", type=Path, help="raw data: a directory, or files")
    add(
        "--as",
        dest="kind",
        choices=[*READERS, "arrays"],
        help="the source; encoded: images as their bytes",
    )
    add(
        "--size",
        nargs=2,
        type=int,
        metavar=("H", "W"),
        help="of images: scaled to cover it, then cropped",
    )
    add("--label", help="column of a table that becomes y")
    add(
        "--columns",
        type=lambda text: text.split(","),
        default=[],
        help="of a table that become x (default: others)",
    )
    add("--split", default="train=0.8,val=0.1,test=0.1", help="shares (default: %(default)s)")
    add(
        "--split-file",
        type=Path,
        help="lines `sample,split`; sample: path below the source, or row number",
    )
    add(
        "--group",
        help="keeps a group on one side: a column of a table, or an expression found in each path",
    )
    add("--seed", type=int, default=0, help="of the random order and the splits (default: 0)")
    add("--skip-damaged", action="store_true", help="leave out what cannot be read, and record it")
    add(
        "--to",
        type=Path,
        help="directory of the file (default: the first writable one of paths.data)",
    )
    options = parser.parse_args(args)
    known = (project.source / "conf" / "data" / f"{options.name}.yaml").exists() or not options.kind
    config = data_config(project, options.name) if known else {"path": f"{options.name}.h5"}
    if options.kind and not options.source:
        raise LabError(
            f"--as {options.kind} needs a source: lab data pack NAME SOURCE --as {options.kind}"
        )
    for source in filter(None, (*options.source, options.split_file)):
        if not source.exists():
            raise LabError(
                f"there is no {source}. Name the directory or files that hold the raw data."
            )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary files are removed
    started_s = time.monotonic()
    target = (options.to or writable_place(project)) / config["path"]
    _pack(config, target, options)
    found = read_layout(target)
    fingerprint(target, found)  # its bytes were hashed while they were written
    print_content(found)
    n_skipped = len(json.loads(found.attrs.get("skipped", "[]")))
    print(f"  packed in {time.monotonic() - started_s:.1f} s, {n_skipped} damaged samples left out")
    if not known:
        print(
            f"  next: copy conf/data/digits.yaml to {options.name}.yaml beside it; set path and fields"
        )


def _pack(config: dict[str, Any], target: Path, options: argparse.Namespace) -> None:
    given = read_split_file(options.split_file) if options.split_file else None
    expression = None if options.kind in ("table", "arrays") else options.group
    splitter = Splitter(parse_ratios(options.split), options.seed, given, expression)
    skipped: list[str] | None = [] if options.skip_damaged else None
    source, attrs = next(iter(options.source), None), {}
    provenance = {
        "seed": options.seed,
        "source": ", ".join(map(str, options.source)) or config["_target_"],
    }
    check = detect_changes([source for source in options.source if source.is_file()])
    with temporary_directory_beside(target) as scratch:
        if options.kind == "arrays":
            fields = open_arrays(options.source, Path(scratch))
            if options.group and options.group not in fields:
                raise LabError(
                    f"--group {options.group}: no such array. There are: {', '.join(fields)}"
                )
            for row in range(len(next(iter(fields.values()), ())) if given or options.group else 0):
                splitter.add(
                    {"key": row}
                    | ({"group": fields[options.group][row].item()} if options.group else {})
                )
        else:
            read = READERS.get(
                options.kind, lambda source, *_: (load_datamodule_class(config).samples(source), {})
            )
            samples, attrs = read(source, options, skipped)
            bar = tqdm(
                samples,
                f"reading {options.name}",
                unit=" samples",
                mininterval=1,
                leave=False,
                disable=None,
            )
            fields = write_raw_fields(target, Path(scratch), bar, splitter.add, attrs)
        if skipped:
            provenance["skipped"] = json.dumps(skipped, ensure_ascii=False)
        write_fields(target, fields, splitter.rows, provenance, attrs, check)


def load_datamodule_class(config: dict[str, Any]) -> Any:
    """The class that `_target_` names."""
    try:
        return resolve_name(config["_target_"])
    except (ImportError, AttributeError) as error:
        raise LabError(f"_target_: {config['_target_']} cannot be loaded: {error}") from error


def writable_place(project: Project) -> Path:
    """The first directory of paths.data that one may write to, or make."""
    for directory in project.paths["data"]:
        if os.access(
            next(folder for folder in (directory, *directory.parents) if folder.exists()),
            os.W_OK | os.X_OK,
        ):
            return directory
    places = ", ".join(map(str, project.paths["data"]))
    raise LabError(
        f"no directory of paths.data can be written to: {places}. Name one with --to DIRECTORY."
    )
