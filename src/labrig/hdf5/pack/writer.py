"""Writes a data file in blocks, hashed on the way, under a temporary name. What recorded runs read is kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ...errors import LabError
from ...machine.disk import create_striped, require_free_space
from ...machine.progress import byte_progress
from ...machine.text_formats import counted
from ...project import Project, this_project
from ..file.atomic_file import explain_write_errors, publish, temporary_directory_next_to
from ..file.attributes import COMPLETE, HASH, seal_of, storable
from ..file.checksum import sha256_of_hashes
from ..file.errors import DataFileError, ForeignFileError
from ..file.layout import FORMAT, VERSION, Layout, read_layout
from .collect import Column, Field, Findings, RaggedField, columns_of, count_samples
from .split import check_splits

LIBVER = ("v110", "v110")  # checksums on metadata, read by HDF5 1.10 and newer
ALIGNMENT_BYTES = 1 << 20  # arrays from this size on begin at a whole stripe
LABEL = "data/y"
NO_ATTRS: Mapping[str, Mapping[str, Any]] = {}


def write_data_file(
    path: str | Path, fields: Mapping[str, Any], splits: Mapping[str, Any], **provenance: Any
) -> Path:
    """Writes one data file; what was under that name is replaced only when all is on the disk, and
    stays under another name when recorded runs of this project read it.

    Args:
        path: the file to make, usually ending in .h5.
        fields: name -> array (N, ...) of numbers, or list of N one-dimensional arrays (a ragged
            field).
        splits: name -> row numbers in 0..N-1; no row twice, neither within nor across splits.
        provenance: attributes of the file: where the data come from, seed, command ...

    Raises:
        DataFileError: nothing to write, unequal lengths, wrong types, splits that overlap or are
            out of range, names that are none, NaN labels, a file of others under that name, no space,
            no permission. Nothing is left on the disk.
    """
    path = Path(path)
    checked = {name: _as_field(f"{path}: field {name!r}", value) for name, value in fields.items()}
    count_samples(path, checked)
    findings = Findings(checked, None)
    return write_fields(path, checked, splits, provenance=provenance, findings=findings)


def _as_field(where: str, value: Any) -> Field:
    is_list = isinstance(value, list | tuple) and len(value) > 0
    if not is_list or any(np.ndim(sample) != 1 for sample in value):
        return np.asarray(value)
    samples = [np.asarray(sample) for sample in value]
    types = sorted({str(sample.dtype) for sample in samples})
    if len(types) > 1:
        raise DataFileError(f"{where} mixes types {types}; convert its samples to one.")
    lengths = np.array([len(sample) for sample in samples])
    return RaggedField(samples[0].dtype, lengths, samples.__getitem__)


def write_fields(
    path: Path,
    fields: Mapping[str, Field],
    splits: Mapping[str, Any],
    *,
    order: np.ndarray | None = None,
    provenance: Mapping[str, Any],
    field_attrs: Mapping[str, Mapping[str, Any]] = NO_ATTRS,
    last_check: Callable[[], None] | None = None,
    findings: Findings | None = None,
) -> Path:
    """`write_data_file`, for fields that may be memory maps.

    Args:
        splits: name -> row numbers in the file, that is after ordering.
        order: (N,) the samples in the order of the file; None: as they come.
        provenance: attributes of the file.
        field_attrs: attributes of each field.
        last_check: called when all is written and nothing has its final name; raises to discard it.
        findings: of these fields in this order; looks at them and prints what is worth a word.
    """
    import h5py  # here, so that a mistyped command is answered without it

    refuse_foreign(path)
    n_samples = count_samples(path, fields)
    columns: dict[str, Column] = {}
    for name, field in fields.items():
        columns |= columns_of(f"data/{name}", field, order)
    for name, rows in check_splits(path, splits, n_samples).items():
        columns[f"splits/{name}"] = Column(rows.dtype, rows.shape, [rows])
    packages = f"python=={sys.version.split()[0]} h5py=={h5py.__version__} numpy=={np.__version__}"
    origin = {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join(sys.argv),
        "host": socket.gethostname(),
        "packages": packages,
    }
    attrs = storable(str(path), origin | dict(provenance))
    attrs_of = {
        name: storable(f"{path}: field {name!r}", field_attrs.get(name, {})) for name in fields
    }
    n_bytes = sum(column.n_bytes for column in columns.values())
    with (
        temporary_directory_next_to(path) as directory,
        explain_write_errors(path),
        byte_progress(f"writing {path.name}", n_bytes) as bar,
    ):
        require_free_space(path.parent, n_bytes)
        temporary = directory / path.name
        create_striped(temporary)
        with h5py.File(
            temporary,
            "w",
            libver=LIBVER,
            locking=False,  # nobody else knows this name
            alignment_threshold=ALIGNMENT_BYTES,
            alignment_interval=ALIGNMENT_BYTES,
        ) as file:
            file.require_group("splits")
            file.attrs.update({"format": FORMAT, "version": VERSION, "n": n_samples})
            file.attrs.update(attrs)
            for name, column in columns.items():
                _write_array(path, file, name, column, bar, findings)
            for name in fields:
                file[f"data/{name}"].attrs.update(attrs_of[name])
            if last_check:
                last_check()
            file.attrs[COMPLETE] = 1
        # as by any reader: what cannot be read gets no name
        layout = read_layout(temporary, is_sealed=False)
        seal = seal_of(layout.attrs, layout.arrays_by_path)
        with h5py.File(temporary, "r+", libver=LIBVER, locking=False) as file:
            file.attrs[HASH] = seal
        layout = read_layout(temporary)
        keep_if_used(path, layout, directory)
        publish(temporary, path)
        if findings:
            findings.tell(layout)
    return path


def _write_array(
    path: Path, file: Any, name: str, column: Column, bar: tqdm, findings: Findings | None = None
) -> None:
    dtype = column.dtype.newbyteorder("=")
    dataset = file.create_dataset(name, column.shape, dtype, track_times=False)
    sha256 = hashlib.sha256()
    n_rows = 0
    for block in column.blocks:
        block = np.ascontiguousarray(block, dtype)
        if name == LABEL and block.ndim == 1 and dtype.kind == "f" and np.isnan(block).any():
            raise DataFileError(
                f"{path}: label y of sample {n_rows + np.isnan(block).argmax()} is NaN. "
                "Leave that sample out."
            )
        dataset[n_rows : n_rows + len(block)] = block
        sha256.update(block.reshape(-1).view(np.uint8).data)
        if findings:
            findings.look_at(name.removeprefix("data/"), block)
        n_rows += len(block)
        bar.update(block.nbytes)
    if n_rows != column.shape[0]:
        raise DataFileError(
            f"{path}: {n_rows} rows of {name} came, {column.shape[0]} were expected: "
            "the source changed while it was packed. Pack again."
        )
    dataset.attrs[HASH] = sha256.hexdigest()


def refuse_foreign(path: Path) -> None:
    """Makes sure that `path` is no HDF5 file of others, such as raw data."""
    if not path.exists():
        return
    try:
        read_layout(path)
    except ForeignFileError as error:
        raise DataFileError(
            f"{path} was not written by `lab data pack`, so it is not replaced. Move it, or write "
            "elsewhere: --to DIRECTORY"
        ) from error
    except DataFileError:
        pass  # damaged: to pack again is the remedy


def keep_if_used(path: Path, new: Layout, directory: Path) -> None:
    """Gives the file at `path` a second name, with its hash, when runs of this project read it and
    `new` holds other data; says so. `lab runs verify`, `eval`, `reproduce` and `resume` find it there.

    Args:
        new: what will take the name.
        directory: for temporary files, on the same disk.
    """
    old = _data_at(path)
    if old is None or sha256_of_hashes(old) == sha256_of_hashes(new):
        return
    from ...record.reproduce.recorded_inputs import kept_path  # here: a new name needs no records

    run_ids = _runs_with(old)
    if not run_ids:
        return
    kept = kept_path(path, sha256_of_hashes(old))
    link = directory / kept.name
    try:
        os.link(path, link)
    except OSError:  # a disk without hard links
        shutil.copyfile(path, link)
    os.replace(link, kept)
    print(
        f"lab: {counted(len(run_ids), 'run')} read the data that {path} held until now, such as "
        f"{run_ids[-1]}: they stay as {kept}",
        file=sys.stderr,
    )


def _data_at(path: Path) -> Layout | None:
    """The data file that would be lost; behind a link it stays where it is."""
    if not path.exists() or path.is_symlink():
        return None
    try:
        return read_layout(path)
    except DataFileError:
        return None


def _runs_with(old: Layout) -> list[str]:
    from ...record.reproduce.recorded_inputs import runs_with_data

    project = _project()
    if project is None:
        return []
    return runs_with_data(project, {sha256_of_hashes(old)})


def _project() -> Project | None:
    try:
        return this_project()
    except LabError:
        return None
