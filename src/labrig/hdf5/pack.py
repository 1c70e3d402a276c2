"""`lab data pack`: raw data into one .h5 file."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from ..errors import LabError
from ..machine.counted import counted
from ..plugins import load_plugin, origin_of
from ..project import Project
from .atomic_file import explain_write_errors, publish, temporary_directory_next_to
from .checksum import fingerprint
from .code_version import code_version
from .collect import collect_fields
from .columns import count_samples
from .data_yaml import (
    config_directory,
    pack_command_line,
    scale_meaning,
    scale_of,
    yaml_of,
)
from .file_layout import Layout, read_layout
from .find import DataConfig, config_file_of, read_data_config
from .info import print_categories, print_content
from .pack_options import PackOptions, parse_options
from .progress import sample_progress
from .raw_arrays import Parts, join_parts, open_arrays
from .raw_audio import read_audio
from .raw_images import read_encoded_images, read_images
from .raw_samples import DamagedSamples, RawSamples, UnchangedFiles
from .raw_sources import KINDS, Source, kind_of, packers
from .raw_tables import read_table
from .split import Splitter, read_split_file
from .writer import write_fields

EXIT_TERMINATED = 143


def pack_command(project: Project, args: list[str]) -> None:
    options = parse_options(args)
    config = _config_of(project, options)
    signal.signal(signal.SIGTERM, _exit)  # so that temporary files are removed
    started_s = time.monotonic()
    directory = options.directory or writable_directory(project)
    target = directory / (config.path if config else f"{options.name}.h5")
    command = pack_command_line(args, options, project.root)
    pack(config, target, options, {"command": command} | code_version(project.root))
    layout = read_layout(target)
    fingerprint(layout, verified=True)  # its bytes were hashed while they were written
    print_content(layout)
    print_categories(layout)
    n_skipped = len(json.loads(layout.attrs.get("skipped", "[]")))
    print(
        f"  packed in {time.monotonic() - started_s:.1f} s, {counted(n_skipped, 'sample')} left out"
    )
    write_config(project, layout, options, command)


def write_config(project: Project, layout: Layout, options: PackOptions, command: str) -> None:
    """Writes conf/data/NAME.yaml unless it is there, and says which.

    Raises:
        DataFileError: it cannot be written; the data file is complete all the same.
    """
    path = config_directory(project) / f"{options.name}.yaml"
    of_trial = config_file_of(project, options.name)
    if of_trial.exists() and not path.exists():
        path = of_trial
    if path.exists():
        print(f"  {_shown(path)} stays as it is")
        return
    text = yaml_of(project, layout, options, command)
    with temporary_directory_next_to(path) as directory, explain_write_errors(path):
        (directory / path.name).write_text(text, encoding="utf-8")
        publish(directory / path.name, path)
    print(f"  wrote {_shown(path)}: look at it. Its scale:")
    print(f"  {scale_meaning(layout, scale_of(layout, options))}")
    print(f"  next: lab check trial=baseline data={options.name}")


def _shown(path: Path) -> str:
    return os.path.relpath(path)


def _config_of(project: Project, options: PackOptions) -> DataConfig | None:
    """conf/data/NAME.yaml; None without one, when --as says how to read the sources.

    Raises:
        LabError: neither is there, or the file was made by --as.
    """
    exists = config_file_of(project, options.name).exists()
    if options.sources and not options.kind and not exists:
        raise LabError(_which_kind(options))
    if options.kind and not exists:
        return None
    config = read_data_config(project, options.name)
    if not options.kind and config.pack and config.target.endswith(".H5DataModule"):
        raise LabError(
            f"{options.name} is packed from raw data. Type the whole command, with the place where "
            f"they lie here:\n{config.pack}"
        )
    return config


def _which_kind(options: PackOptions) -> str:
    """The message when --as is missing."""
    words = " ".join(str(source.path) for source in options.sources)
    likely = kind_of(options.sources[0].path)
    looks = f" {options.sources[0].path} looks like {likely}." if likely else ""
    return (
        f"conf/data has no {options.name}.yaml, so say what the source holds: --as "
        f"{', '.join(KINDS[:-1])} or {KINDS[-1]}.{looks}\n"
        f"Type: lab data pack {options.name} {words} --as {likely or KINDS[0]}"
    )


def _exit(*_: Any) -> None:
    sys.exit(EXIT_TERMINATED)


def pack(
    config: DataConfig | None, target: Path, options: PackOptions, origin: Mapping[str, str]
) -> None:
    """Packs the sources into `target`.

    Args:
        config: of the data set; may be None when `options.kind` says how to read the sources.
        origin: attributes of the file that say which command and code packed it.

    Raises:
        DataFileError: damaged or changing sources, samples that do not fit together, no space.
    """
    splitter = _build_splitter(options)
    damaged = DamagedSamples(options.skip_damaged)
    paths = [source.path for source in options.sources]
    source_files = UnchangedFiles([path for path in paths if path.is_file()])
    field_attrs: Mapping[str, Mapping[str, Any]] = {}
    with temporary_directory_next_to(target) as directory:
        if options.kind in ("arrays", "hdf5"):
            parts = open_arrays(options.sources, options.kind, directory)
            fields = join_parts(target, parts, directory)
            count_samples(target, fields)
            _add_rows(splitter, parts, options)
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
            provenance={**_provenance(config, options, damaged), **origin},
            field_attrs=field_attrs,
            last_check=source_files.check,
        )


def _build_splitter(options: PackOptions) -> Splitter:
    split_of_key = read_split_file(options.split_file) if options.split_file else None
    # in a table --group is a column, and in arrays one of them
    group_pattern = None if options.kind in ("table", "arrays", "hdf5") else options.group
    return Splitter(options.shares, options.seed, split_of_key, group_pattern)


def _add_rows(splitter: Splitter, parts: Parts, options: PackOptions) -> None:
    """Gives the splitter each row of arrays, when it needs more of them than their number."""
    is_split = None not in parts
    if not (is_split or options.group or options.split_file):
        return
    for split, arrays in parts.items():
        if options.group and options.group not in arrays:
            listed = ", ".join(arrays)
            raise LabError(f"--group {options.group}: no such array. There are: {listed}")
        n_rows = len(next(iter(arrays.values())))
        for row in range(n_rows):
            sample: dict[str, Any] = {"key": row}
            if is_split:
                sample["split"] = split
            elif options.group:
                sample["group"] = arrays[options.group][row].item()
            splitter.add(sample)


def _open_samples(
    config: DataConfig | None, options: PackOptions, damaged: DamagedSamples
) -> RawSamples:
    if options.kind == "images":
        return read_images(options.sources, options.size, damaged)
    if options.kind == "encoded":
        return read_encoded_images(options.sources, damaged)
    if options.kind == "audio":
        return read_audio(options.sources, options.rate, damaged)
    if options.kind == "table":
        return read_table(options, damaged)
    if options.kind:
        return RawSamples(_samples_of(load_plugin(packers()[options.kind]), options.sources))
    assert config is not None  # without a kind there is a data set
    data_class = load_data_class(config.target)
    if not options.sources:
        return RawSamples(data_class.samples(None))
    return RawSamples(_samples_of(data_class.samples, options.sources))


def _samples_of(
    read: Callable[[Path], Iterable[dict[str, Any]]], sources: Sequence[Source]
) -> Iterator[dict[str, Any]]:
    """What `read` yields of each source, in its split when it names one."""
    for source in sources:
        for sample in read(source.path):
            yield sample if source.split is None else sample | {"split": source.split}


def _provenance(
    config: DataConfig | None, options: PackOptions, damaged: DamagedSamples
) -> dict[str, Any]:
    """The attributes that say where the data come from."""
    source = ", ".join(str(source.path) for source in options.sources)
    provenance: dict[str, Any] = {"seed": options.seed, "source": source}
    if config and not source:
        provenance["source"] = config.target
    if packer := packers().get(options.kind or ""):
        provenance["packer"] = f"{packer.value} of {origin_of(packer)}"
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
        raise LabError(
            f"_target_: {target} cannot be loaded: {error}. Write the name of a class of data.py."
        ) from error


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
