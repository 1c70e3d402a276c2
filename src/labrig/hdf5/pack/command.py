"""`lab data pack`: raw data into one .h5 file."""

import ast
import json
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...config.targets import Definition
from ...errors import LabError
from ...failure import shown_path
from ...machine.progress import count_progress
from ...machine.text_formats import counted
from ...plugins import load_plugin, origin_of
from ...project import LIBRARY, Project
from ..file.atomic_file import temporary_directory_next_to
from ..file.checksum import fingerprint
from ..file.errors import DataFileError
from ..file.find import (
    DataConfig,
    config_file_of,
    find_data_files,
    names_one_file,
    read_data_config,
    read_data_section,
    writable_directory,
)
from ..file.groups import SOURCE, SPAN, refuse_overlap
from ..file.info import print_categories, print_classes, print_content, print_programs
from ..file.joined import read_layouts
from ..file.layout import GROUP, read_layout
from .arrays import Parts, join_parts, open_arrays
from .collect import Findings, collect_fields, count_samples
from .data_yaml import (
    code_version,
    find_programs,
    lines_written_for,
    pack_command_line,
    programs_attr,
    write_config,
)
from .fetch import fetch_raw
from .options import PackOptions, known_names, parse_options
from .own_samples import OwnSamples, load_data_class
from .pairs import looks_like_pairs, other_meaning
from .samples import Collected, DamagedSamples, RawSamples, UnchangedFiles
from .sources import KINDS, Source, is_table, kind_of, packers, reader_of
from .split import Splitter, names_file, read_split_file, write_names
from .writer import refuse_foreign, write_fields

EXIT_TERMINATED = 143
MAX_REASONS = 5  # of samples that are left out, shown


def pack_command(project: Project, args: list[str]) -> None:
    options = with_fetched_source(project, parse_options(args))
    config = config_of(project, options)
    end_cleanly()
    started_s = time.monotonic()
    directory = options.directory or writable_directory(project)
    target = directory / _file_name(config, options)
    command = pack_command_line(args, options, project.root)
    if options.classes_of:
        options = with_names_of(project, options, options.classes_of)
    damaged = DamagedSamples(options.skip_damaged)
    old_lines = lines_written_for(target) if target.exists() else []
    pack(config, target, options, damaged, {"command": command} | code_version(project.root))
    layout = read_layout(target)
    fingerprint(layout, verified=True)  # its bytes were hashed while they were written
    print_content(layout)
    print_classes(layout)
    print_categories(layout)
    print_programs(layout)
    left_out = counted(len(damaged.skipped_keys), "sample")
    print(f"  packed in {time.monotonic() - started_s:.1f} s, {left_out} left out")
    print_reasons(damaged, layout.n_samples)
    own_class = config.target if config and (options.class_name or not options.kind) else None
    write_config(project, layout, options, command, own_class, old_lines)


def with_names_of(project: Project, options: PackOptions, name: str) -> PackOptions:
    """The options with the classes, categories and columns of another data set."""
    path = read_data_config(project, name).path
    layout = read_layouts(find_data_files(path, project.paths.data), is_whole=isinstance(path, str))
    known, columns = known_names(layout)
    # without classes and columns, only the tokenizer is taken
    known = replace(known, only_of=name if "y" in layout.fields or columns else None)
    return replace(options, known=known, columns=options.columns or columns)


def _file_name(config: DataConfig | None, options: PackOptions) -> str:
    """The name of the file in its directory."""
    if config is None:
        return f"{options.name}.h5"
    if not isinstance(config.path, str) or not names_one_file(config.path):
        raise LabError(
            f"{options.name} is a data set of several files, path: {config.path}. To add one: "
            f"lab data append {options.name} SOURCE"
        )
    return config.path


def with_fetched_source(project: Project, options: PackOptions) -> PackOptions:
    """The options; where no source was typed, with the file of the address in the YAML."""
    if options.sources:
        return options
    if config_file_of(project, options.name).exists():
        raw = fetch_raw(read_data_section(project, options.name))
        if raw is not None:
            return replace(options, sources=[Source(raw)])
    if options.kind and not options.class_name:
        raise LabError(
            f"--as {options.kind} needs a source: lab data pack NAME SOURCE --as {options.kind}"
        )
    return options


def print_reasons(damaged: DamagedSamples, n_samples: int) -> None:
    """Prints what became of the files, and why the first samples were left out."""
    if damaged.files.n_of_kind:
        print(f"  {damaged.files.describe(n_samples * damaged.files_of_sample)}")
    for what, n in sorted(damaged.counts.items()):
        print(f"  {n} {what}")
    for reason in sorted(damaged.reasons.values())[:MAX_REASONS]:
        print(f"    {' '.join(reason.split())}")
    n_more = len(damaged.reasons) - MAX_REASONS
    if n_more > 0:
        print(f"    … and {n_more} more")


def config_of(project: Project, options: PackOptions) -> DataConfig | None:
    """conf/data/NAME.yaml; None without one, when --as says how to read the sources."""
    exists = config_file_of(project, options.name).exists()
    if options.sources and not options.kind and not exists:
        raise LabError(_which_kind(project, options))
    target = class_target(project, options.class_name) if options.class_name else None
    if options.kind and not exists:
        return DataConfig(target, f"{options.name}.h5", None) if target else None
    config = read_data_config(project, options.name)
    if target and target != config.target:
        file = shown_path(config_file_of(project, options.name))
        raise LabError(
            f"--as {options.kind} is {target}, but {file} names {config.target}. "
            "Change _target_ there, or choose another NAME for the data."
        )
    # its class has samples(), and the sources are named, or the file was made without any
    says_all = bool(options.sources) or shlex.split(config.pack or "")[3:] == [options.name]
    if config.target.startswith(f"{LIBRARY.name}."):
        says_all = False
    if not options.kind and config.pack and not says_all:
        raise LabError(
            f"{options.name} is packed from raw data. Type the whole command, with the place where "
            f"they lie here:\n{config.pack}"
        )
    return config


def class_target(project: Project, name: str) -> str:
    """The `_target_` of a class: of data.py, unless its name has a module in front."""
    return name if "." in name else f"{project.package}.data.{name}"


def _which_kind(project: Project, options: PackOptions) -> str:
    """The message when --as is missing."""
    words = " ".join(str(source.path) for source in options.sources)
    source = options.sources[0].path
    likely = "pairs" if looks_like_pairs(source) else kind_of(source)
    classes, file = [], project.source / "data.py"
    with suppress(OSError, SyntaxError, ValueError):
        statements = ast.parse(file.read_bytes()).body
        classes = [each for each in statements if isinstance(each, ast.ClassDef)]
    with_samples = [each.name for each in classes if Definition(file, each).defines("samples")]
    looks = f" {source} looks like {likely}." if likely else ""
    return (
        f"conf/data has no {options.name}.yaml, so say what the source holds: --as "
        f"{', '.join(KINDS[:-1])} or {KINDS[-1]}.{looks} Or name a class of data.py with samples(): "
        f"{', '.join(with_samples) or 'there is none yet'}\n"
        f"Type: lab data pack {options.name} {words} --as {likely or KINDS[0]}"
    )


def end_cleanly() -> None:
    """From now on a SIGTERM removes temporary files."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))


def pack(
    config: DataConfig | None,
    target: Path,
    options: PackOptions,
    damaged: DamagedSamples,
    origin: Mapping[str, str],
) -> None:
    """Packs the sources into `target`.

    Args:
        config: of the data set; may be None when `options.kind` says how to read the sources.
        damaged: notes what is left out.
        origin: attributes of the file that say which command and code packed it.
    """
    refuse_foreign(target)
    path_of_names = names_file(target) if options.names else None
    splitter = Splitter(
        options.shares,
        options.seed,
        read_split_file(options.split_file) if options.split_file else None,
        # in a table --group is a column, and in arrays one of them
        None if options.kind in ("table", "series", "arrays", "hdf5") else options.group,
        options.known.groups,
        options.names or options.split_file is not None,
        options.spellings,
    )
    paths = [source.path for source in options.sources]
    source_files = UnchangedFiles([path for path in paths if path.is_file()])
    with temporary_directory_next_to(target) as directory:
        collected = _collect(config, target, options, damaged, splitter, directory)
        for placement in collected.placements:
            splitter.add(placement)
        fields, attrs = collected.fields, collected.field_attrs
        n_samples = count_samples(target, fields)
        splitter.check_split_file(damaged.skipped_keys)
        splitter.join_spellings()
        groups = splitter.group_numbers()
        if groups is not None and GROUP not in fields:
            numbers, names = groups
            fields[GROUP] = numbers  # k folds keep groups together, too
            origin = {**origin, **names}
        arrangement = splitter.arrange(n_samples)
        order = arrangement.order
        if {SOURCE, SPAN} <= fields.keys():
            source, span = (np.asarray(fields[name])[order] for name in (SOURCE, SPAN))
            refuse_overlap(options.name, source, span, arrangement.splits)
        if collected.finish:
            train = order[arrangement.splits.get("train", [])]
            fields, attrs = collected.finish(fields, attrs, train, directory)
        write_fields(
            target,
            fields,
            arrangement.splits,
            order=order,
            provenance={**_provenance(config, options, damaged), **origin},
            field_attrs=attrs,
            last_check=source_files.check,
            findings=Findings(fields, order),
        )
    if path_of_names is not None:
        write_names(path_of_names, splitter.keys, arrangement)
    if not options.split_by_time:  # which divides each series on purpose
        splitter.tell_of_groups()
    splitter.tell_of_empty_splits(arrangement)


def _collect(
    config: DataConfig | None,
    target: Path,
    options: PackOptions,
    damaged: DamagedSamples,
    splitter: Splitter,
    directory: Path,
) -> Collected:
    """Reads the sources, and gives each sample to `splitter`."""
    if options.kind in ("arrays", "hdf5"):
        parts = open_arrays(options.sources, options.kind, directory)
        arrays = [*next(iter(parts.values())).values()]
        if len(arrays) == 1 and arrays[0].ndim == 1 and not options.each_number:
            raise DataFileError(
                f"{options.sources[0].path} is one list of {len(arrays[0])} numbers. A sequence, such as "
                "tokens or a signal, would lose its order. To keep it: --as tokens. If each number is a "
                "sample: --each-number"
            )
        return Collected(join_parts(target, parts), placements=_rows(parts, options))
    has_texts = options.kind == "text" and all(map(is_table, options.sources))
    if options.kind == "table" or has_texts:
        return reader_of("table")(options, damaged)
    raw = open_samples(config, options, damaged)
    is_ragged = [name for name, attrs in raw.field_attrs.items() if "ragged" in attrs]
    fields = collect_fields(
        target,
        directory,
        count_progress(f"reading {options.name}", raw.samples, "sample"),
        on_sample=splitter.add,
        ragged=[*is_ragged, *options.known.ragged],
        last_file=raw.last_file,
    )
    return Collected(fields, raw.field_attrs, finish=raw.finish)


def _rows(parts: Parts, options: PackOptions) -> Iterator[dict[str, Any]]:
    """Each row of arrays, when the splitter needs more of them than their number."""
    if None in parts and not (options.group or options.split_file):
        return
    for split, arrays in parts.items():
        if options.group and (options.group not in arrays or arrays[options.group].ndim != 1):
            listed = ", ".join(f"{name} {[*array.shape]}" for name, array in arrays.items())
            raise LabError(f"--group {options.group}: no such array (N,). There are: {listed}")
        for row in range(len(next(iter(arrays.values())))):
            sample: dict[str, Any] = {"key": row, **({} if split is None else {"split": split})}
            if options.group:
                sample["group"] = arrays[options.group][row].item()
            yield sample


def open_samples(
    config: DataConfig | None, options: PackOptions, damaged: DamagedSamples
) -> RawSamples:
    kind = options.kind or ""
    for source in options.sources if kind in ("images", "encoded", "audio", "text") else ():
        meaning = other_meaning(source.path)
        if meaning:  # its sub-directories are no classes: images and masks, or splits of them
            names = sorted(path.name for path in source.path.iterdir() if path.is_dir())
            raise DataFileError(
                f"{source.path} has no sub-directory for each class, but {', '.join(names)}.\n"
                f"Type: lab data pack {options.name} {meaning}\n"
                f"If these are classes, rename {source.path / names[0]}."
            )
    if kind in KINDS:
        return reader_of(kind)(options, damaged)
    if kind in packers():
        read = load_plugin(packers()[kind])
    else:
        assert config is not None  # of a class, or without a kind
        read = load_data_class(config.target).samples
    samples = OwnSamples(read, options, damaged)
    return RawSamples(samples, last_file=samples.last_file, finish=samples.with_class_names)


def _provenance(
    config: DataConfig | None, options: PackOptions, damaged: DamagedSamples
) -> dict[str, Any]:
    """The attributes that say where the data come from."""
    source = ", ".join(str(source.path) for source in options.sources)
    of_class = config.target if config else ""
    provenance: dict[str, Any] = {"seed": options.seed, "source": source or of_class}
    if packer := packers().get(options.kind or ""):
        provenance["packer"] = f"{packer.value} of {origin_of(packer)}"
    provenance |= programs_attr(find_programs(options.sources) + options.programs)
    if damaged.skipped_keys:
        provenance["skipped"] = json.dumps(sorted(damaged.skipped_keys), ensure_ascii=False)
    return provenance
