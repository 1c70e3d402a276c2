"""Reads texts, each a sample, and long sequences that keep their order; makes tokens of them."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...machine.counted import counted
from ..file.errors import DataFileError
from ..file.tokens import LEARNT, N_TOKENS, Tokenizer
from .collect import Collector, Field, blocks_of
from .folders import class_attrs, open_class_folders, read_class_folders
from .options import PackOptions
from .samples import DamagedSamples, RawFile, RawSamples
from .sources import SUFFIXES_OF_KIND, Source, source_labels
from .table_columns import text_column, texts_of
from .table_files import TableFile

MAX_TOLD = 5  # empty texts
N_AT_ONCE = 1000  # texts
RAGGED = {"x": {"ragged": 1}}


def read_text(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": the text in UTF-8, uint8 (any length,), "y": class}: files in a folder for each class,
    or the rows of tables.
    """
    if all(map(_is_table, options.sources)):
        samples, classes = _rows_of_tables(options, damaged)
        attrs = RAGGED | class_attrs(classes)
        return RawSamples(
            _without_empty(samples, damaged), attrs, finish=partial(with_tokens, options)
        )
    raw = open_class_folders(options, "text", SUFFIXES_OF_KIND["text"], damaged)

    def read(file: RawFile) -> np.ndarray:
        return _in_utf8(_decoded(file.content(), options.encoding))

    samples = read_class_folders(raw, "x", read, damaged, None)
    attrs = RAGGED | class_attrs(raw.classes)
    return RawSamples(
        _without_empty(samples, damaged),
        attrs,
        files=raw.files,
        finish=partial(with_tokens, options),
    )


def _is_table(source: Source) -> bool:
    name = source.path.name.lower().removesuffix(".gz")
    return source.path.is_file() and name.endswith(SUFFIXES_OF_KIND["table"])


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise DataFileError(
            f"it is not {encoding} ({error}). Type its encoding, such as --encoding latin-1"
        ) from error


def _in_utf8(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


def _without_empty(
    samples: Iterable[dict[str, Any]], damaged: DamagedSamples
) -> Iterator[dict[str, Any]]:
    """Tells of texts without a letter, or leaves them out."""
    empty = []
    for sample in samples:
        if not sample["x"].tobytes().strip():
            empty.append(str(sample["key"]))
            if damaged.skip:
                damaged.leave_out(empty[-1], f"{empty[-1]}: an empty text")
                continue
        yield sample
    if empty and not damaged.skip:
        named = ", ".join(empty[:MAX_TOLD]) + (", …" if len(empty) > MAX_TOLD else "")
        print(
            f"lab: {counted(len(empty), 'empty text')}: {named}. --skip-damaged leaves them out",
            file=sys.stderr,
        )


def _rows_of_tables(
    options: PackOptions, damaged: DamagedSamples
) -> tuple[Iterator[dict[str, Any]], list[str]]:
    """The rows as samples, and the names of the classes."""
    files = [TableFile(source, options) for source in options.sources]
    asked = [*options.columns, *filter(None, (options.label, options.group))]
    for file in files:
        unknown = [name for name in asked if name not in file.names]
        if unknown or len(options.columns) != 1:
            raise DataFileError(
                f"{file.path} has the columns {', '.join(file.names)}. Name the one that holds the texts, "
                "and the one of the classes: --columns text --label label"
            )
        if file.cut:
            raise DataFileError(f"{file.path}: row {file.cut[0].number} is cut. Correct it.")
    label = text_column(options.label, files, options, is_label=True) if options.label else None
    groups = texts_of(files, options.group, options) if options.group else None
    if label and label.is_gap.any() and not options.drop_rows:
        gaps = label.describe_gaps(len(label.is_gap))
        raise DataFileError(f"no label in {gaps}. --drop-rows leaves these rows out.")

    def samples() -> Iterator[dict[str, Any]]:
        row = -1
        for file, name in zip(files, source_labels(options.sources), strict=True):
            for number, text in enumerate(_column(file, options.columns[0])):
                row += 1
                sample: dict[str, Any] = {
                    "key": f"{name and name.removesuffix('/') + ':'}{number}",
                    "x": _in_utf8(text),
                }
                if label and label.is_gap[row]:
                    damaged.leave_out(sample["key"], f"{sample['key']}: no label")
                    continue
                if label:
                    is_class = label.values.dtype.kind in "iu"
                    sample["y"] = label.values[row].astype(np.int64 if is_class else np.float32)
                if groups:
                    sample["group"] = groups.different[groups.codes[row]]
                if file.source.split:
                    sample["split"] = file.source.split
                yield sample

    return samples(), label.texts if label else []


def _column(file: TableFile, name: str) -> Iterator[str]:
    """The texts of a column; an empty one where Parquet has none."""
    for value in (file.texts if file.is_text else file.typed)[name]:
        text = value.as_py()
        if not isinstance(text, str | None):
            raise DataFileError(f"{file.path}: column {name!r} holds {value.type}, expected texts.")
        yield text or ""


# One long sequence, in its order


def read_tokens(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """A sample {"x": (any length,)} for each split of each source: parts by position, as the shares say,
    or all of it where the source names its split.
    """
    if options.group or options.split_file:
        raise DataFileError(
            "--as tokens divides a sequence by position: leave out --group and --split-file. The parts "
            "as they are: train=FILE val=FILE"
        )

    def samples() -> Iterator[dict[str, Any]]:
        for source, name in zip(options.sources, source_labels(options.sources), strict=True):
            whole = _sequence(source.path, options.encoding)
            ends = (np.cumsum(list(options.shares.values())) * len(whole)).astype(int).tolist()
            ends = dict(zip(options.shares, [*ends[:-1], len(whole)], strict=True))
            start = 0
            for split, end in ({source.split: len(whole)} if source.split else ends).items():
                part = whole[start:end]
                x = _in_utf8(part) if isinstance(part, str) else part
                yield {"key": f"{name}{split}", "x": x, "split": split}
                start = end

    return RawSamples(samples(), dict(RAGGED), finish=partial(with_tokens, options))


def _sequence(path: Path, encoding: str) -> str | np.ndarray:
    """All of a file: its text, or the numbers of an .npy."""
    if not path.is_file():
        raise DataFileError(f"{path} is no file. Name a text file, or an .npy of one dimension.")
    if path.suffix != ".npy":
        return _decoded(path.read_bytes(), encoding)
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataFileError(f"{path} cannot be read as .npy: {error}.") from error
    if values.ndim != 1:
        raise DataFileError(
            f"{path} has the shape {[*values.shape]}, expected one dimension. If each row is a sample: "
            "--as arrays"
        )
    return values


# Tokens, once it is known which samples train


def with_tokens(
    options: PackOptions,
    fields: Mapping[str, Any],
    attrs: Mapping[str, Mapping[str, Any]],
    train: np.ndarray,
    directory: Path,
) -> tuple[dict[str, Field], dict[str, Mapping[str, Any]]]:
    """The fields with tokens in place of texts, and their attributes with the vocabulary.

    Args:
        train: the rows of the training split, of which alone a vocabulary is made.
        directory: takes the tokens.
    """
    texts = fields["x"]
    if options.sources[0].path.suffix == ".npy":
        return {**fields}, {**attrs, "x": {**attrs["x"], **_range_of(texts, options)}}
    known = options.known.tokenizer
    name = options.tokenizer or (known.name if known else "bytes")
    if known and known.name != name:
        raise DataFileError(f"--tokenizer {name}: the other data have {known.name}. Leave it out.")
    tokenizer = known or Tokenizer.named(name)
    if name in LEARNT and not known:
        if not len(train):
            raise DataFileError(
                "a vocabulary is made of the split train, which has no sample. Name the data whose "
                "vocabulary it shall have: --classes-of NAME"
            )
        in_train = (texts.sample(row).tobytes().decode() for row in train)
        tokenizer = tokenizer.learn(in_train, options.n_tokens)
    attrs = {**attrs, "x": {**attrs["x"], **tokenizer.attrs}}
    if name == "bytes":
        return {**fields}, attrs
    folder = directory / "tokens"
    folder.mkdir()
    with Collector(folder, folder) as collector:
        for start in range(0, len(texts), N_AT_ONCE):
            rows = range(start, min(start + N_AT_ONCE, len(texts)))
            some = [texts.sample(row).tobytes().decode() for row in rows]
            collector.add_batch(f"text {start}", {"x": tokenizer.encode_all(some)})
    return {**fields, **collector.fields(["x"])}, attrs


def _range_of(numbers: Any, options: PackOptions) -> dict[str, int]:
    """How many tokens there are, where the numbers may be tokens."""
    if options.tokenizer:
        raise DataFileError("--tokenizer is for texts, and an .npy holds numbers. Leave it out.")
    blocks = [
        block for i in range(len(numbers)) for block in blocks_of(numbers.sample(i)) if block.size
    ]
    if numbers.dtype.kind not in "iu" or min(block.min() for block in blocks) < 0:
        return {}
    return {N_TOKENS: int(max(block.max() for block in blocks)) + 1}
