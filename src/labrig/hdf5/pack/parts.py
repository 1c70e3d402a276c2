"""Packs a source in parts, each by a process of its own or a job of its own, and joins them.

Whatever their number, the file is the same: a part holds every N-th sample with its number, and
samples take their places by that number.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from ...errors import Failed, LabError
from ...machine.cpu import own_cores
from ...machine.parent import end_with_parent
from ..file.atomic_file import explain_write_errors, publish, temporary_directory_next_to
from ..file.errors import DataFileError
from ..file.joined import JoinedRows
from .collect import Field, RaggedField, collect_fields
from .merge import MAX_CLASSES, ROW
from .options import PackOptions, PartOfFiles
from .samples import Collected, DamagedSamples, RawSamples
from .sources import reader_of


class PackedField(TypedDict):
    """How the values of a field lie in the file of a part, one after another."""

    dtype: str
    shape: list[int]  # of a sample
    lengths: list[int] | None  # of each sample of a field that varies


class Report(TypedDict):
    """What is noted of a part when all of it is on the disk."""

    identity: str  # of what it is made from
    n: int  # samples
    fields: dict[str, PackedField]
    field_attrs: dict[str, dict[str, Any]]
    skipped: list[str]  # keys of samples that were left out
    reasons: dict[str, str]
    counts: dict[str, int]  # see `DamagedSamples`


def folder_of_parts(target: Path) -> Path:
    """Where the parts of a file lie until it is there."""
    return target.parent / f".{target.name}.parts"


def report_file(target: Path, part: PartOfFiles) -> Path:
    return folder_of_parts(target) / f"{part.number}-of-{part.n_parts}.json"


def field_file(target: Path, part: PartOfFiles, name: str) -> Path:
    return report_file(target, part).with_suffix(f".{name}")


def identity_of(raw: RawSamples, options: PackOptions, part: PartOfFiles) -> str:
    """The hash of what a part is made from: its files with their sizes and times, the options, and what
    the numbers of all parts mean.
    """
    how = [getattr(options, name) for name in ("kind", "size", "rate", "float32", "background")]
    facts = [*how, raw.field_attrs, *(file.version() for file in part.of(raw.files or []))]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def read_report(target: Path, part: PartOfFiles, identity: str) -> Report | None:
    """What was noted when a part was complete; None where it is not, or is of other sources."""
    with suppress(OSError, ValueError):
        report: Report = json.loads(report_file(target, part).read_text(encoding="utf-8"))
        return report if report.get("identity") == identity else None
    return None


def make_part(
    raw: RawSamples, options: PackOptions, part: PartOfFiles, target: Path, damaged: DamagedSamples
) -> int:
    """Packs one part, unless it is there; returns its number of samples.

    Args:
        raw: all files of the source, and the samples of this part.
    """
    identity = identity_of(raw, options, part)
    report = read_report(target, part, identity)
    if report is not None:
        return report["n"]
    path = report_file(target, part)
    with temporary_directory_next_to(path) as directory:
        path.unlink(missing_ok=True)
        fields = collect_fields(
            path,
            directory,
            raw.samples,
            ragged=[name for name, attrs in raw.field_attrs.items() if "ragged" in attrs],
        )
        report = Report(
            identity=identity,
            n=len(next(iter(fields.values()))) if fields else 0,
            fields={
                name: PackedField(dtype=field.dtype.str, shape=[], lengths=field.lengths.tolist())
                if isinstance(field, RaggedField)
                else PackedField(dtype=field.dtype.str, shape=[*field.shape[1:]], lengths=None)
                for name, field in fields.items()
            },
            field_attrs=raw.field_attrs,
            skipped=damaged.skipped_keys,
            reasons=damaged.reasons,
            counts=dict(damaged.counts),
        )
        with explain_write_errors(path):
            for name in fields:
                publish(directory / name, field_file(target, part, name))
            (directory / path.name).write_text(json.dumps(report), encoding="utf-8")
            publish(directory / path.name, path)
    return report["n"]


def make_parts(options: PackOptions, target: Path, n_parts: int) -> None:
    """Packs all parts that are not there, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    print(f"lab: {n_parts} processes read; parts lie in {folder_of_parts(target)}", file=sys.stderr)
    parts = [PartOfFiles(number, n_parts) for number in range(1, n_parts + 1)]
    processes = []
    for part in parts:
        arguments = (replace(options, part=part), target, answers)
        processes.append(context.Process(target=make_part_here, args=arguments, daemon=True))
        processes[-1].start()
    for process in processes:
        process.join()
    problems = {}
    while not answers.empty():
        problems |= dict([answers.get()])
    killed = [part for part, process in zip(parts, processes, strict=True) if process.exitcode != 0]
    for part in killed:
        if part.number in problems:
            raise DataFileError(problems[part.number])
    if killed:
        raise Failed(
            f"the process of part {killed[0].number} of {n_parts} was killed. The other parts stay: "
            "type the same again, and it alone is packed"
        )


def make_part_here(options: PackOptions, target: Path, answers: SimpleQueue) -> None:
    """What the process of a part does, on its share of the cores."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process says that it was interrupted
    part = options.part
    assert part is not None
    share = sorted(own_cores())[part.number - 1 :: part.n_parts]
    if share and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share)
    damaged = DamagedSamples(options.skip_damaged)
    try:
        make_part(reader_of(str(options.kind))(options, damaged), options, part, target, damaged)
    except LabError as error:
        answers.put((part.number, str(error)))
        raise SystemExit(error.exit_code) from error


def join_made_parts(
    raw: RawSamples, options: PackOptions, target: Path, n_parts: int, damaged: DamagedSamples
) -> Collected:
    """The samples of the first part, then of the second …"""
    assert raw.files is not None
    reports: dict[PartOfFiles, Report] = {}
    for number in range(1, n_parts + 1):
        part = PartOfFiles(number, n_parts)
        report = read_report(target, part, identity_of(raw, options, part))
        if report is None:
            raise DataFileError(
                f"{options.sources[0].path} changed while it was packed. Type the same again when "
                "nothing writes to it"
            )
        damaged.skipped_keys += report["skipped"]
        damaged.reasons |= report["reasons"]
        damaged.counts.update(report["counts"])
        if report["n"]:
            reports[part] = report
    if not reports:
        raise DataFileError(f"{target}: no samples to write, all were left out. Check the source.")
    check_alike([*reports.values()], options)
    rows = np.concatenate([values_of(target, part, reports[part], ROW) for part in reports])
    names = [name for name in next(iter(reports.values()))["fields"] if name != ROW]
    fields = {name: join_field(target, reports, name) for name in names}
    places = rows.argsort()
    files = [raw.files[row] for row in rows[places]]
    placements = ({"key": file.key, **file.placement} for file in files)
    attrs = {**raw.field_attrs, **values_of_all([*reports.values()])}
    return Collected(fields, attrs, placements, places)


def values_of_all(reports: Sequence[Report]) -> dict[str, dict[str, str]]:
    """The attributes of masks, from those of the parts in which they were read."""
    attrs = {}
    for name in reports[0]["field_attrs"]:
        of_parts = [report["field_attrs"].get(name, {}).get("values") for report in reports]
        lists = [json.loads(values) for values in of_parts if values]
        different = sorted({value for values in lists for value in values})
        if len(lists) == len(reports) and len(different) <= MAX_CLASSES:
            attrs[name] = {"values": json.dumps(different)}
    return attrs


def check_alike(reports: Sequence[Report], options: PackOptions) -> None:
    """Makes sure that all samples of a field have one type and shape."""
    for report in reports[1:]:
        for name, field in reports[0]["fields"].items():
            other = report["fields"][name]
            if (other["dtype"], other["shape"]) != (field["dtype"], field["shape"]):
                way = "; or keep them as they are: --as encoded" if options.kind == "images" else ""
                raise DataFileError(
                    f"field {name!r} is {np.dtype(field['dtype'])} {field['shape']} in some samples "
                    f"and {np.dtype(other['dtype'])} {other['shape']} in others. Give all one type, "
                    f"and one size: --as {options.kind} --size HEIGHT WIDTH{way}"
                )


def values_of(target: Path, part: PartOfFiles, report: Report, name: str) -> np.ndarray:
    """A memory map of a field of a part: its samples, or the values of all where they vary in length."""
    field = report["fields"][name]
    dtype = np.dtype(field["dtype"])
    lengths = field["lengths"]
    shape = (report["n"], *field["shape"]) if lengths is None else (sum(lengths),)
    file = field_file(target, part, name)
    n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not file.exists() or file.stat().st_size != n_bytes:
        report_file(target, part).unlink(missing_ok=True)
        raise DataFileError(
            f"{file} is not as it was written. Type the same again: this part alone is packed again"
        )
    if n_bytes == 0:
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(file, dtype, "r", shape=shape))


def join_field(target: Path, reports: Mapping[PartOfFiles, Report], name: str) -> Field:
    values = JoinedRows([values_of(target, part, reports[part], name) for part in reports])
    lengths_of_parts = [report["fields"][name]["lengths"] for report in reports.values()]
    if lengths_of_parts[0] is None:
        return values
    lengths = np.concatenate([np.array(each, np.int64) for each in lengths_of_parts])
    return RaggedField.of(values, lengths)


def remove_parts(target: Path) -> None:
    """Once the file is there."""
    shutil.rmtree(folder_of_parts(target), ignore_errors=True)
