"""Reads texts, each a sample, and long sequences that keep their order; makes tokens of them."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...machine.text_formats import and_more, counted
from ..file.errors import DataFileError
from ..file.tokens import LEARNT, N_TOKENS, Tokenizer
from .collect import Collector, Field, RaggedField, blocks_of
from .folders import class_attrs, open_class_folders, read_class_folders
from .options import PackOptions
from .samples import DamagedSamples, RawFile, RawSamples
from .sources import SUFFIXES_OF_KIND, Source, source_labels
from .table_files import UTF_16, TableFile

BOM = "\ufeff"
MAX_TOLD = 5  # empty texts
N_AT_ONCE = 1000  # texts
RAGGED = {"ragged": 1}


def read_text(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"x": the text in UTF-8, uint8 (any length,), "y": class}: files in a folder for each class."""
    raw = open_class_folders(options, "text", SUFFIXES_OF_KIND["text"], damaged)

    def read(file: RawFile) -> np.ndarray:
        return _in_utf8(_decoded(file.content(), options.encoding, damaged))

    samples = read_class_folders(raw, "x", read, damaged)
    attrs = {"x": RAGGED} | class_attrs(raw.classes)
    return RawSamples(_without_empty(samples, damaged), attrs, finish=partial(with_tokens, options))


def _decoded(content: bytes, encoding: str, damaged: DamagedSamples) -> str:
    is_wide = re.search("16|32", encoding)
    if content[:2] in UTF_16 and not is_wide:
        raise DataFileError("it is UTF-16. Type: --encoding utf-16")
    if b"\0" in content and not is_wide:
        raise DataFileError(
            "it has bytes of 0, as no text has. Tokens of 16 bits: np.save('x.npy', np.fromfile('x.bin', 'uint16')), "
            "then x.npy --as tokens. UTF-16: --encoding utf-16-le"
        )
    try:
        text = content.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise DataFileError(
            f"it is not {encoding} ({error}). Type its encoding, such as --encoding latin-1"
        ) from error
    if text.startswith(BOM):
        damaged.count("with a byte order mark in front, which is left out")
    return text.removeprefix(BOM)


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
    tell_of_empty(empty, damaged.skip)


def text_field(
    files: Sequence[TableFile], keys: Sequence[str], is_kept: np.ndarray, options: PackOptions
) -> RaggedField:
    """The texts of the column that the options name, in UTF-8; of those rows that are kept.

    Args:
        is_kept: (N,); becomes False for empty texts where these are left out.
    """
    if len(options.columns) != 1:
        raise DataFileError(
            f"{files[0].path} has the columns {', '.join(files[0].names)}. Name the one that holds the "
            "texts, and the one of the classes: --columns text --label label"
        )
    (name,) = options.columns
    columns = [(file.texts if file.is_text else file.typed)[name] for file in files]
    texts = [text.as_py() or "" for column in columns for text in column]
    if not all(isinstance(text, str) for text in texts):
        raise DataFileError(f"column {name!r} holds {columns[0].type}. Name one that holds texts.")
    is_empty = np.array([not text.strip() for text in texts]) & is_kept
    tell_of_empty([keys[row] for row in np.flatnonzero(is_empty).tolist()], options.skip_damaged)
    if options.skip_damaged:
        is_kept &= ~is_empty
    kept = [_in_utf8(texts[row]) for row in np.flatnonzero(is_kept)]
    return RaggedField(np.dtype(np.uint8), np.array([*map(len, kept)]), kept.__getitem__)


def tell_of_empty(keys: Sequence[str], are_left_out: bool) -> None:
    """Prints which texts have no letter."""
    if keys and not are_left_out:
        named = and_more(keys, MAX_TOLD)
        print(
            f"lab: {counted(len(keys), 'empty text')}: {named}. --skip-damaged leaves them out",
            file=sys.stderr,
        )


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
    for source in options.sources:
        if source.path.is_dir():
            raise DataFileError(
                f"{source.path} is a directory; expected a file, one long sequence. Name its files: "
                f"lab data pack {options.name} {source.path}/FILE --as tokens\n"
                "If each of them is a sample: --as text"
            )
    if len({*map(is_numbers, options.sources)}) > 1:
        raise DataFileError("some sources are .npy with numbers, others texts. Name one kind.")

    def samples() -> Iterator[dict[str, Any]]:
        for source, name in zip(options.sources, source_labels(options.sources), strict=True):
            with DamagedSamples().handle(source.path, name):
                whole = _sequence(source, options.encoding, damaged)
            if not len(whole):
                raise DataFileError(f"{source.path} is empty. Name a sequence with values.")
            ends = np.rint(np.cumsum([*options.shares.values()]) * len(whole)).astype(int).tolist()
            ends = dict(zip(options.shares, [*ends[:-1], len(whole)], strict=True))
            start = 0
            for split, end in ({source.split: len(whole)} if source.split else ends).items():
                part = whole[start:end]
                x = _in_utf8(part) if isinstance(part, str) else part
                yield {"key": f"{name}{split}", "x": x, "split": split}
                start = end

    return RawSamples(samples(), {"x": RAGGED}, finish=partial(with_tokens, options))


def is_numbers(source: Source) -> bool:
    return source.path.suffix.lower() == ".npy"


def _sequence(source: Source, encoding: str, damaged: DamagedSamples) -> str | np.ndarray:
    """All of a file: its text, or the numbers of an .npy."""
    if not is_numbers(source):
        return _decoded(source.path.read_bytes(), encoding, damaged)
    values = np.load(source.path, mmap_mode="r", allow_pickle=False)
    if values.ndim != 1:
        raise DataFileError(
            f"its shape is {[*values.shape]}, expected one dimension. If each row is a sample: --as arrays"
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
    known = options.known.tokenizer
    name = options.tokenizer or (known.name if known else "bytes")
    if known and known.name != name:
        raise DataFileError(f"--tokenizer {name}: the other data have {known.name}. Leave it out.")
    if options.n_tokens is not None and name not in LEARNT:
        raise DataFileError(f"--n-tokens is for characters and words, found {name}. Leave it out.")
    if is_numbers(options.sources[0]):
        return {**fields}, {**attrs, "x": {**attrs["x"], **_range_of(texts, options)}}
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
    n_lossy = 0
    with Collector(folder, folder) as collector:
        for start in range(0, len(texts), N_AT_ONCE):
            rows = range(start, min(start + N_AT_ONCE, len(texts)))
            some = [texts.sample(row).tobytes().decode() for row in rows]
            collector.add_batch(f"text {start}", {"x": tokenizer.encode_all(some)})
            n_lossy += tokenizer.n_lossy(some)
    if n_lossy:
        texts_told = counted(n_lossy, "text")
        print(f"lab: {name} has no token for letters of {texts_told}: left out", file=sys.stderr)
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
