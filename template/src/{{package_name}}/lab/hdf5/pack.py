# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab data pack`: raw data into one .h5 file."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np

from ..errors import LabError
from ..project import Project
from .atomic_file import temporary_directory_next_to
from .checksum import fingerprint
from .collect import collect_fields
from .columns import count_samples
from .file_layout import read_layout
from .find import DataConfig, config_file_of, read_data_config
from .images import Size
from .info import print_content
from .progress import sample_progress
from .raw_arrays import open_arrays
from .raw_audio import read_audio
from .raw_images import read_encoded_images, read_images
from .raw_samples import DamagedSamples, RawSamples, UnchangedFiles
from .raw_tables import read_table
from .split import Splitter, parse_shares, read_split_file
from .writer import write_fields

DESCRIPTION = """Packs raw data into one .h5 file in the first writable directory of paths.data.

Without --as, the samples come from the class that conf/data/NAME.yaml names: its samples(source).
"""
KINDS = ("images", "encoded", "audio", "table", "arrays")
EXIT_TERMINATED = 143


@dataclass(frozen=True)
class PackOptions:
    """The command line of `lab data pack`."""

    name: str
    sources: list[Path]
    kind: str | None  # one of KINDS; None: the samples of the data module's class
    size: Size | None
    label: str | None
    columns: list[str]
    shares: dict[str, float]
    split_file: Path | None
    group: str | None
    seed: int
    skip_damaged: bool
    directory: Path | None


def pack_command(project: Project, args: list[str]) -> None:
    options = parse_options(args)
    config = None
    if not options.kind or config_file_of(project, options.name).exists():
        config = read_data_config(project, options.name)
    _check_sources(options)
    signal.signal(signal.SIGTERM, _exit)  # so that temporary files are removed
    started_s = time.monotonic()
    directory = options.directory or writable_directory(project)
    target = directory / (config.path if config else f"{options.name}.h5")
    pack(config, target, options)
    layout = read_layout(target)
    fingerprint(layout, verified=True)  # its bytes were hashed while they were written
    print_content(layout)
    n_skipped = len(json.loads(layout.attrs.get("skipped", "[]")))
    print(f"  packed in {time.monotonic() - started_s:.1f} s, {n_skipped} damaged samples left out")
    if config is None:
        print(f"  next: write {config_file_of(project, options.name)} with _target_ (a class in")
        print(f"  data.py), path: {options.name}.h5, search: ${{paths.data}} and fields")


def parse_options(args: list[str]) -> PackOptions:
    """The command line as an object.

    Raises:
        LabError: --split is not a list of shares.
    """
    parser = argparse.ArgumentParser("lab data pack", description=DESCRIPTION)
    add = parser.add_argument
    add("name", help="a file of conf/data, without .yaml; with --as also a new name")
    add("sources", nargs="*", type=Path, metavar="source", help="raw data: a directory, or files")
    add(
        "--as",
        dest="kind",
        choices=KINDS,
        help="kind of the source; encoded: images as the bytes of their files",
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
        help="columns of a table that become x, with commas (default: all others)",
    )
    add("--split", default="train=0.8,val=0.1,test=0.1", help="shares (default: %(default)s)")
    add(
        "--split-file",
        type=Path,
        help="lines `sample,split`; sample: path below the source, or row number",
    )
    add(
        "--group",
        help="keeps a group in one split: column of a table, name of an array, "
        "or a regular expression that finds the group in each path",
    )
    add("--seed", type=int, default=0, help="of the random order and the splits (default: 0)")
    add("--skip-damaged", action="store_true", help="leave out what cannot be read, and record it")
    add(
        "--to",
        dest="directory",
        type=Path,
        help="directory of the file (default: the first writable one of paths.data)",
    )
    values = vars(parser.parse_args(args))
    values["shares"] = parse_shares(values.pop("split"))
    values["size"] = tuple(values["size"]) if values["size"] else None
    return PackOptions(**values)


def _exit(*_: Any) -> None:
    sys.exit(EXIT_TERMINATED)


def _check_sources(options: PackOptions) -> None:
    if options.kind and not options.sources:
        raise LabError(
            f"--as {options.kind} needs a source: lab data pack NAME SOURCE --as {options.kind}"
        )
    paths = list(options.sources)
    if options.split_file:
        paths.append(options.split_file)
    for path in paths:
        if not path.exists():
            raise LabError(f"there is no {path}. Name the directory or files of the raw data.")


def pack(config: DataConfig | None, target: Path, options: PackOptions) -> None:
    """Packs the sources into `target`.

    Args:
        config: of the data set; may be None when `options.kind` says how to read the sources.

    Raises:
        DataFileError: damaged or changing sources, samples that do not fit together, no space.
    """
    splitter = _build_splitter(options)
    damaged = DamagedSamples(options.skip_damaged)
    source_files = UnchangedFiles([source for source in options.sources if source.is_file()])
    field_attrs: Mapping[str, Mapping[str, Any]] = {}
    with temporary_directory_next_to(target) as scratch:
        directory = Path(scratch)
        if options.kind == "arrays":
            fields = open_arrays(options.sources, directory)
            _add_rows(splitter, fields, count_samples(target, fields), options)
        else:
            raw = _open_samples(config, options, damaged)
            field_attrs = raw.field_attrs
            fields = collect_fields(
                target,
                directory,
                sample_progress(f"reading {options.name}", raw.samples),
                on_sample=splitter.add,
                ragged=[name for name, attrs in field_attrs.items() if "ragged" in attrs],
            )
        arrangement = splitter.arrange(count_samples(target, fields))
        write_fields(
            target,
            fields,
            arrangement.splits,
            order=arrangement.order,
            provenance=_provenance(config, options, damaged),
            field_attrs=field_attrs,
            last_check=source_files.check,
        )


def _build_splitter(options: PackOptions) -> Splitter:
    split_of_key = read_split_file(options.split_file) if options.split_file else None
    # in a table --group is a column, and in arrays one of them
    group_pattern = None if options.kind in ("table", "arrays") else options.group
    return Splitter(options.shares, options.seed, split_of_key, group_pattern)


def _add_rows(
    splitter: Splitter, arrays: Mapping[str, np.ndarray], n_samples: int, options: PackOptions
) -> None:
    """Gives the splitter each row of arrays, when it needs more of them than their number."""
    if options.group and options.group not in arrays:
        listed = ", ".join(arrays)
        raise LabError(f"--group {options.group}: no such array. There are: {listed}")
    if not options.group and not options.split_file:
        return
    for row in range(n_samples):
        sample = {"key": row}
        if options.group:
            sample["group"] = arrays[options.group][row].item()
        splitter.add(sample)


def _open_samples(
    config: DataConfig | None, options: PackOptions, damaged: DamagedSamples
) -> RawSamples:
    source = options.sources[0] if options.sources else None
    if options.kind == "images":
        return read_images(source, options.size, damaged)
    if options.kind == "encoded":
        return read_encoded_images(source, damaged)
    if options.kind == "audio":
        return read_audio(source, damaged)
    if options.kind == "table":
        return read_table(
            source,
            label=options.label,
            group=options.group,
            columns=options.columns,
            damaged=damaged,
        )
    return RawSamples(load_data_class(config.target).samples(source))


def _provenance(
    config: DataConfig | None, options: PackOptions, damaged: DamagedSamples
) -> dict[str, Any]:
    """The attributes that say where the data come from."""
    source = ", ".join(map(str, options.sources))
    provenance = {"seed": options.seed, "source": source or config.target}
    if damaged.skipped_keys:
        provenance["skipped"] = json.dumps(damaged.skipped_keys, ensure_ascii=False)
    return provenance


def load_data_class(target: str) -> Any:
    """The class that `_target_` names.

    Raises:
        LabError: it cannot be imported.
    """
    try:
        return resolve_name(target)
    except (ImportError, AttributeError) as error:
        raise LabError(f"_target_: {target} cannot be loaded: {error}") from error


def writable_directory(project: Project) -> Path:
    """The first directory of paths.data that can be written to, or made.

    Raises:
        LabError: there is none.
    """
    directories = project.paths.data
    for directory in directories:
        existing = next(path for path in (directory, *directory.parents) if path.exists())
        if os.access(existing, os.W_OK | os.X_OK):
            return directory
    listed = ", ".join(map(str, directories))
    raise LabError(
        f"no directory of paths.data can be written to: {listed}. Name one with --to DIRECTORY."
    )
