"""Columns of tables as numbers: what pyarrow reads, or the number of each text."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...machine.text_formats import counted, short
from ..file.errors import DataFileError
from .options import PackOptions
from .table_files import TableFile

MAX_TEXTS = 1000  # different texts of a column of x
MAX_CLASSES = 65536  # different texts of the label
MANY_ROWS = 10  # from so many rows on, a text that differs in nearly every one names the rows
NEARLY_ALL = 0.9
NUMBER = re.compile(r"[+-]?((?P<int>\d{1,308})|(\d+\.\d*|\.\d+|\d+(?=e))(e[+-]?\d+)?)", re.A | re.I)


@dataclass
class TableColumn:
    """One column of all tables, as numbers; a text is the number of its category.

    Attributes:
        values: (N,) int64, uint64 or float64; anything at all in a gap.
        is_gap: (N,) where there is no value, or a text among numbers.
        texts: of the numbers 0, 1, 2 …; empty when the column holds numbers.
        first_bad: the first text among numbers.
    """

    name: str
    values: np.ndarray
    is_gap: np.ndarray
    texts: list[str] = field(default_factory=list)
    first_bad: tuple[int, str] | None = None

    def describe_gaps(self, n_rows: int) -> str:
        """Such as: age: 3 of 100 rows, first in row 8."""
        row, shown = int(self.is_gap.argmax()), ""
        if self.first_bad:
            row, text = self.first_bad
            shown = f" ({text!r} among numbers)"
        n_gaps = self.is_gap.sum()
        return f"{self.name}: {n_gaps} of {n_rows} rows, first in row {row + 1}{shown}"

    def describe(self, is_kept: np.ndarray) -> str:
        """Such as: age: numbers from 20 to 39."""
        if self.texts:
            return f"{self.name}: {counted(len(self.texts), 'text')}, numbered in their order"
        values = self.values[is_kept & ~self.is_gap]
        if not len(values):
            return f"{self.name}: no values"
        is_id = _is_whole(values) and _names_rows(len(values), len(np.unique(values)))
        each = ", another one in every row" if is_id else ""
        return f"{self.name}: numbers from {values.min():.7g} to {values.max():.7g}{each}"


@dataclass(frozen=True)
class Texts:
    """A column as it is written: row i holds the text `different[codes[i]]`, or there is a gap."""

    different: list[str]
    codes: np.ndarray
    is_gap: np.ndarray

    @cached_property
    def counts(self) -> dict[str, int]:
        """How often each text is there, in the order in which they come; without gaps."""
        n_of = np.bincount(self.codes[~self.is_gap], minlength=len(self.different)).tolist()
        return {text: n for text, n in zip(self.different, n_of, strict=True) if n}


def texts_of(files: Sequence[TableFile], name: str, options: PackOptions) -> Texts:
    """The values of a column as they are written."""
    from pyarrow import array, chunked_array, string

    chunks = []
    for file in files:
        if file.is_text:
            chunks += file.texts[name].chunks
        else:
            chunks.append(array(map(_as_text, file.column(name).to_pylist()), string()))
    encoded: Any = chunked_array(chunks, string()).dictionary_encode().combine_chunks()
    different = [*encoded.dictionary.to_pylist(), ""]  # of a gap in Parquet, too
    codes = encoded.indices.fill_null(len(different) - 1).to_numpy()
    missing, numbers = {*options.missing}, _missing_numbers(options)
    is_gap = np.array([text.strip() in missing for text in different[:-1]] + [True])
    if numbers:
        is_gap |= [number_in(text, options) in numbers for text in different]
    return Texts(different, codes, is_gap[codes])


def _as_text(value: Any) -> str | None:
    is_whole = isinstance(value, float) and value.is_integer()
    return None if value is None else str(int(value) if is_whole else value)


def _missing_numbers(options: PackOptions) -> set[float]:
    """Those that say that there is no value, however they are written."""
    return {number for text in options.missing if (number := number_in(text, options)) is not None}


def x_column(name: str, files: Sequence[TableFile], options: PackOptions) -> TableColumn:
    """A column of x."""
    from pyarrow import types

    if name in options.texts:
        return text_column(name, files, options)
    of_kind = {file.column(name).type: file.path for file in files}
    kinds = [kind for kind in of_kind if not types.is_null(kind)]
    if len(kinds) > 1 and any(types.is_temporal(kind) or types.is_boolean(kind) for kind in kinds):
        found = " and ".join(f"{kind} in {of_kind[kind]}" for kind in kinds[:2])
        raise DataFileError(
            f"column {name!r} holds {found}. Write it alike in all tables, or take its texts: --texts {name}"
        )
    if any(map(types.is_temporal, kinds)) and not options.times:
        raise DataFileError(
            f"column {name!r} holds times ({kinds[0]}). --times makes seconds of them; --columns takes others."
        )
    if not all(types.is_primitive(kind) or types.is_decimal(kind) for kind in kinds):
        return text_column(name, files, options)
    return _numbers(name, files, options)


def _numbers(name: str, files: Sequence[TableFile], options: PackOptions) -> TableColumn:
    """A column that pyarrow reads as numbers."""
    parts = [as_numbers(file.typed[name], _missing_numbers(options)) for file in files]
    values = np.concatenate([part for part, _ in parts])
    is_gap = np.concatenate([gap for _, gap in parts])
    there = values[~is_gap]
    if values.dtype == np.float64:
        for part, gap in parts:
            check_bits(name, part[~gap])
    # of small floats 1.5 and 1.50 are one number
    may_merge = values.dtype != np.float64 or np.abs(there).max(initial=0) >= 2**53
    if may_merge and all(file.is_text for file in files):
        texts = texts_of(files, name, options).counts
        if len(texts) > len(np.unique(there)):
            _refuse_merged(name, texts, options)
        if values.dtype == np.float64:
            numbers = [number_in(text, options) or 0 for text in texts]
            check_bits(name, np.array(numbers, object))
    return TableColumn(name, values, is_gap)


def check_bits(name: str, values: np.ndarray) -> None:
    """Raises DataFileError when float64 changes one of these whole numbers."""
    if not len(values) or _fits(values, 1 << 53):
        return
    for number in values.tolist():  # Python compares a whole number and a float exactly
        if number != float(number):
            raise DataFileError(
                f"column {name!r} has {number}, of more than 53 bits, which float64 makes {float(number):.0f}. "
                "Beside fractions no type holds it. Choose --columns without it, or subtract an origin."
            )


def _refuse_merged(name: str, texts: Iterable[str], options: PackOptions) -> None:
    """Raises DataFileError when two texts became one number though they name two things, as 007 and 7."""
    first_of: dict[Any, str] = {}
    for text in (text.strip().removeprefix("+") for text in texts):
        number = number_in(text, options)
        other = first_of.setdefault(text if number is None else number, text)
        if other != text and not {"e", "E", "."} & {*other, *text}:
            raise DataFileError(
                f"column {name!r} has {other!r} and {text!r}, which are one number. If these are names: "
                f"--texts {name}. If they are numbers, write them alike; or choose --columns without it."
            )


def text_column(
    name: str, files: Sequence[TableFile], options: PackOptions, is_label: bool = False
) -> TableColumn:
    """A column that is read as text: the label, categories, or numbers with some texts among them.

    Numbers of a label stay numbers while each text is another one.
    """
    texts = texts_of(files, name, options)
    known = options.known.classes if is_label else options.known.categories.get(name, ())
    is_asked = name in options.texts or bool(known)
    numbers = None if is_asked else _parsed(name, texts, options)
    if numbers is None:
        if not is_asked and not (is_label and options.spellings.as_written):
            _refuse_no_categories(name, texts, files, options, is_label)
        return _coded(name, texts, options, known, is_label)
    values = numbers.values[~numbers.is_gap]
    written = {text: n for text, n in texts.counts.items() if number_in(text, options) is not None}
    is_whole = _is_whole(values)
    merges = len(np.unique(values)) < len({text.strip() for text in written})
    if is_label:
        if merges:
            options.spellings.choose(f"classes in column {name!r}", written)
            if options.spellings.as_written:
                return _coded(name, texts, options, known, is_label)
        if is_whole and np.abs(numbers.values).max() < 2**53:
            numbers.values = numbers.values.astype(np.int64)
    elif (merges and is_whole) or not all(file.is_text for file in files):
        raise DataFileError(
            f"column {name!r} has texts that look like numbers, such as {next(iter(texts.counts))!r}. If these "
            f"are names: --texts {name}. If they are numbers, write them as numbers, and alike."
        )
    return numbers


def _refuse_no_categories(
    name: str, texts: Texts, files: Sequence[TableFile], options: PackOptions, is_label: bool
) -> None:
    """Raises DataFileError when most texts are numbers in another form, or in a column of x names of rows."""
    form = other_form(texts.counts, options)
    if form and (DATE in form if is_label else not all(file.is_text for file in files)):
        form = form.split(". ")[0] + ". Write a number."  # as the options do not help there
    if form:
        option = "--names-as-written" if is_label else f"--texts {name}"
        raise DataFileError(f"column {name!r} {form} To take its texts as categories: {option}")
    n_rows = int((~texts.is_gap).sum())
    if not is_label and _names_rows(n_rows, len(texts.counts)):
        raise DataFileError(
            f"column {name!r} has {len(texts.counts)} different texts in {n_rows} rows, such as "
            f"{short(next(iter(texts.counts)))!r}, so it names the rows. Choose --columns without it; or take "
            f"its texts as categories: --texts {name}"
        )


def _names_rows(n_rows: int, n_different: int) -> bool:
    """Whether nearly every row has another value."""
    return n_rows >= MANY_ROWS and n_different >= NEARLY_ALL * n_rows


def _is_whole(values: np.ndarray) -> bool:
    return values.dtype.kind != "f" or bool((values == np.rint(values)).all())


def number_in(text: str, options: PackOptions) -> int | float | None:
    """The number that a text is, as the options say how they are written; None of others."""
    text = text.strip()
    thousands, decimal = (re.escape(mark or "") for mark in (options.thousands, options.decimal))
    if thousands and re.fullmatch(rf"[+-]?\d{{1,3}}({thousands}\d{{3}})+({decimal}\d+)?", text):
        text = text.replace(options.thousands or "", "")
    if options.decimal != ".":
        text = "" if "." in text else text.replace(options.decimal, ".")
    match = NUMBER.fullmatch(text)
    if not match:
        return None
    number = int(text) if match["int"] else float(text)
    return number if abs(number) != np.inf else None


def _parsed(name: str, texts: Texts, options: PackOptions) -> TableColumn | None:
    """The numbers of texts, when most are numbers; the others are gaps."""
    found = [number_in(text, options) for text in texts.different]
    is_number = np.array([number is not None for number in found])[texts.codes] & ~texts.is_gap
    is_bad = ~is_number & ~texts.is_gap
    if is_bad.sum() >= is_number.sum():
        return None
    numbers = np.array([0 if number is None else number for number in found], object)
    is_whole = all(isinstance(n, int) and -(2**63) <= n < 2**63 for n in numbers)
    if not is_whole:
        check_bits(name, numbers)
    values = numbers.astype(np.int64 if is_whole else np.float64)[texts.codes]
    values[~is_number] = 0
    row = int(is_bad.argmax())
    first_bad = (row, texts.different[texts.codes[row]]) if is_bad[row] else None
    return TableColumn(name, values, ~is_number, first_bad=first_bad)


def _coded(
    name: str, texts: Texts, options: PackOptions, known: Sequence[str], is_label: bool
) -> TableColumn:
    """The number of each text."""
    max_texts = MAX_CLASSES if is_label else MAX_TEXTS
    if len(texts.counts) > max_texts:
        raise DataFileError(
            f"column {name!r} has more than {max_texts} different texts. Choose --columns without it."
        )
    chosen = options.spellings.choose(f"texts in column {name!r}", texts.counts, known)
    different = {chosen.get(text, text) for text in texts.counts}
    is_filled = options.fill is not None and not is_label and bool(texts.is_gap.any())
    different |= {""} if is_filled else set()
    names = options.known.and_new(f"column {name!r}", known, different)
    code_of = {text: code for code, text in enumerate(names)}
    of_different = [code_of.get(chosen.get(text, text), 0) for text in texts.different]
    codes = np.where(texts.is_gap, code_of.get("", 0), np.array(of_different)[texts.codes])
    is_gap = np.zeros_like(texts.is_gap) if is_filled else texts.is_gap
    return TableColumn(name, codes, is_gap, names)


# Numbers: in a type that tells them apart, and as others write them


MOVED = 1e-6  # of the range of most values: what rounding to float32 may move a value by
MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
GROUPED = "with thousands separators. Type --thousands"
DATE = "as a date. Write it as 2024-12-31 and type --times."
# How people write numbers, times and shares; what to type
FORMS = (
    (r"[+-]?\d+([.,]\d+)?\s*%", "as a share. Write a number, such as 0.05."),
    (r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", f"{GROUPED} , (or --decimal , if it is one)."),
    (r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?", f"{GROUPED} . --decimal , there."),
    (r"[+-]?\d{1,3}([ '\u00a0\u202f]\d{3})+([.,]\d+)?", f"{GROUPED} ' '."),
    (r"[+-]?\d*,\d+", "with a decimal comma. Type --decimal , then."),
    (r"[\u2012-\u2015\u2212]\d+([.,]\d+)?", "with another sign than -. Write that one."),
    (r"[+-]?\d+\.\d+", "with a decimal point. Leave --decimal out."),
    (r"[$€£¥]\s?[\d.,]+|[\d.,]+\s?[$€£¥]", "with a currency. Write the number alone."),
    (r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?", DATE),
    (rf"\d{{1,4}}[-/ .]*{MONTH}[-/ .,]*\d{{1,4}}|{MONTH}[-/. ]+\d{{1,2}}[-/, ]+\d{{2,4}}", DATE),
    (r"\d{1,2}:\d{2}(:\d{2})?(\.\d+)?( ?[AaPp][Mm])?", "as a time. Write seconds."),
)


def as_numbers(column: Any, missing: Iterable[float] = ()) -> tuple[np.ndarray, np.ndarray]:
    """The values of a column of pyarrow, int64, uint64 or float64, and where it has none, or one of
    `missing`. Times are seconds since 1970.
    """
    from pyarrow import float64, int64, timestamp, types, uint64

    if types.is_null(column.type):
        column = column.cast(float64())
    if types.is_decimal(column.type):
        column = _of_decimals(column)
    kind = column.type
    is_gap = column.is_null().to_numpy()
    if types.is_date(kind):
        column, kind = column.cast(timestamp("s")), timestamp("s")
    if types.is_time(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        whole = column.cast("int32") if kind.bit_width == 32 else column
        ticks = whole.cast(int64()).fill_null(0).to_numpy()
        if not (ticks % per_second).any():
            return ticks // per_second, is_gap
        seconds = ticks / per_second
        if len(np.unique(seconds)) < len(np.unique(ticks)):
            raise DataFileError(
                "times fall together as seconds of 64 bits. Subtract an origin first."
            )
        return seconds, is_gap
    target: Any = float64() if types.is_floating(kind) else int64()
    values = column.cast(kind if kind == uint64() else target).fill_null(0).to_numpy()
    gaps = [] if types.is_boolean(kind) else [values == number for number in missing]
    return values, np.logical_or.reduce([is_gap, np.isnan(values), *gaps])


def _of_decimals(column: Any) -> Any:
    """Decimal numbers as int64 if they are whole, else as float64."""
    from pyarrow import ArrowInvalid, float64, int64

    try:
        return column.cast(int64())
    except ArrowInvalid:
        numbers = column.cast(float64())
    if column.type.scale <= 0 or len(numbers.unique()) < len(column.unique()):
        raise DataFileError(f"{column.type} has too many digits for float64. Subtract an origin.")
    return numbers


def type_for(values: np.ndarray) -> tuple[np.dtype, str]:
    """The smallest type that tells these numbers apart, and why float32 is none; "" where it is.

    Fractions may be rounded to the digits of float32, as long as as many values are different; or more
    than half as many, and none moves by a millionth of the range in which the middle half of them lies.
    """
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        rounded = finite.astype(single)
    if not np.isfinite(rounded).all():
        return double, "has values beyond 3e38"
    if not len(finite) or ((rounded.astype(double) == finite).all() and _fits(finite, 1 << 24)):
        return single, ""
    n_before, n_after = len(np.unique(finite)), len(np.unique(rounded))
    merged = f"has {n_before} different values, {n_after} in float32"
    if _is_whole(finite):
        reason = merged if n_after < n_before else "has whole numbers that float32 rounds"
        return (double if _fits(finite, 1 << 53) else values.dtype), reason
    if ((rounded == 0) & (finite != 0)).any():
        return double, "has values below 1e-45"
    low, high = np.quantile(finite, [0.25, 0.75])  # no outlier moves them
    is_moved = np.abs(rounded.astype(double) - finite).max() > MOVED * (high - low)
    if n_after < n_before and (is_moved or 2 * n_after < n_before):
        return double, merged
    return single, f"has fractions, rounded to {np.finfo(single).precision} digits"


def _fits(values: np.ndarray, largest: int) -> bool:
    """Whether these whole numbers lie within -largest to largest; a float was compared already."""
    is_float = values.dtype.kind == "f"
    return is_float or max(abs(int(values.min())), abs(int(values.max()))) <= largest


def other_form(texts: Iterable[str], options: PackOptions) -> str | None:
    """How most of these texts are numbers or times, and what to type; None when they are names."""
    different = list(dict.fromkeys(text.strip() for text in texts))
    plain = re.compile(r"[+-]?\d+")
    for pattern, advice in FORMS:
        matching = [text for text in different if re.fullmatch(pattern, text)]
        matching = [text for text in matching if number_in(text, options) is None]
        n_alike = len(matching) + sum(bool(plain.fullmatch(text)) for text in different)
        if matching and 2 * n_alike > len(different):
            return f"has {matching[0]!r}, a number written {advice}"
    return None
