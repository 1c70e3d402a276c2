"""Columns of tables as numbers: what pyarrow reads, or the number of each text."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...machine.counted import counted
from ...machine.terminal import short
from ..file.errors import DataFileError
from .options import PackOptions
from .table_files import TableFile

MAX_TEXTS = 1000  # different texts of a column of x
MAX_CLASSES = 65536  # different texts of the label
MANY_ROWS = 10  # from so many rows on, a text that differs in nearly every one names the rows
NEARLY_ALL = 0.9


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
        return (
            f"{self.name}: {int(self.is_gap.sum())} of {n_rows} rows, first in row {row + 1}{shown}"
        )

    def describe(self, is_kept: np.ndarray) -> str:
        """Such as: age: numbers from 20 to 39."""
        if self.texts:
            return f"{self.name}: {counted(len(self.texts), 'text')}, numbered in their order"
        values = self.values[is_kept & ~self.is_gap]
        if not len(values):
            return f"{self.name}: no values"
        each = ", another one in every row" if _names_rows(values) else ""
        return f"{self.name}: numbers from {values.min():.7g} to {values.max():.7g}{each}"


def texts_of(files: Sequence[TableFile], name: str, options: PackOptions) -> np.ndarray:
    """The values of a column as they are written, (N,) of str; None in a gap of Parquet."""
    parts = []
    for file in files:
        if file.is_text:
            parts.append(file.texts([name])[name].to_numpy())
        else:
            values = file.typed[name].to_pylist()
            parts.append(np.array([None if v is None else _as_text(v) for v in values], object))
    return np.concatenate([part.astype(object) for part in parts])


def _as_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def gaps_in(texts: np.ndarray, options: PackOptions) -> np.ndarray:
    missing = set(options.missing)
    return np.array([text is None or text.strip() in missing for text in texts], bool)


def x_column(name: str, files: Sequence[TableFile], options: PackOptions) -> TableColumn:
    """A column of x."""
    from pyarrow import types

    if name in options.texts:
        return _categories(name, files, options)
    kinds = {file.typed[name].type for file in files}
    for kind in kinds:
        if types.is_binary(kind) or types.is_large_binary(kind):
            raise DataFileError(
                f"{files[0].path}: column {name!r} is not {options.encoding}. Type its encoding, such as "
                "--encoding latin-1 or --encoding cp1252"
            )
        if types.is_temporal(kind) and not options.times:
            raise DataFileError(
                f"column {name!r} holds times ({kind}). --times makes seconds since 1970 of them; "
                "--columns takes others."
            )
        if types.is_nested(kind):
            raise DataFileError(
                f"column {name!r} holds {kind}, not one number for each row. Choose --columns without it, "
                "or write samples() in data.py."
            )
    is_number = all(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
        or types.is_temporal(kind)
        for kind in kinds
    )
    if not is_number or (any(map(types.is_temporal, kinds)) and len(kinds) > 1):
        return _categories(name, files, options)
    return _numbers(name, files)


def _numbers(name: str, files: Sequence[TableFile]) -> TableColumn:
    """A column that pyarrow reads as numbers."""
    parts = [as_numbers(file.typed[name]) for file in files]
    values = np.concatenate([part for part, _ in parts])
    is_gap = np.concatenate([gap for _, gap in parts])
    if values.dtype == np.float64 and any(part.dtype.kind in "iu" for part, _ in parts):
        for part, gap in parts:
            if part.dtype.kind in "iu" and (part[~gap].astype(np.float64) != part[~gap]).any():
                raise DataFileError(
                    f"column {name!r} has whole numbers of more than 53 bits and fractions, which no type "
                    "holds together. Choose --columns without it, or subtract an origin."
                )
    texts = _texts_if_merged(name, files, values, is_gap)
    if texts:
        first, second = texts
        raise DataFileError(
            f"column {name!r} has {first!r} and {second!r}, which are one number. If these are names: "
            f"--texts {name}. If they are numbers, write them alike; or choose --columns without it."
        )
    return TableColumn(name, values, is_gap)


def _texts_if_merged(
    name: str, files: Sequence[TableFile], values: np.ndarray, is_gap: np.ndarray
) -> tuple[str, str] | None:
    """Two texts of a text file that became one number though they name two things, as 007 and 7 do."""
    if not all(file.is_text for file in files) or is_gap.all():
        return None
    largest = np.abs(values[~is_gap].astype(np.float64)).max()
    if values.dtype == np.float64 and largest < 2**53:
        return None  # 1.5 and 1.50 are one number
    first_of: dict[Any, str] = {}
    for file in files:
        column = file.texts([name])[name].unique().to_pylist()
        for text in (text.strip().removeprefix("+") for text in column):
            try:
                number: Any = int(text) if values.dtype.kind in "iu" else float(text)
            except ValueError:
                continue
            other = first_of.setdefault(number, text)
            if other != text and not ("e" in (other + text).lower() or "." in other + text):
                return other, text
    return None


def label_column(files: Sequence[TableFile], options: PackOptions) -> TableColumn:
    """The label, which is read as text first: whole numbers stay numbers while each text is another one."""
    assert options.label is not None
    name = options.label
    texts = texts_of(files, name, options)
    is_gap = gaps_in(texts, options)
    if options.known.classes or name in options.texts:
        return _coded(name, texts, is_gap, MAX_CLASSES, options, options.known.classes)
    numbers = _parsed(name, texts, is_gap, options)
    if numbers is None:
        return _coded(name, texts, is_gap, MAX_CLASSES, options)
    good = ~numbers.is_gap
    values = numbers.values[good]
    is_whole = bool((values == np.rint(values)).all())
    if is_whole and len(np.unique(values)) < len({text.strip() for text in texts[good]}):
        counts = Counter(texts[good].tolist())
        options.spellings.choose(f"classes in column {name!r}", counts)
        if options.spellings.as_written:
            return _coded(name, texts, is_gap, MAX_CLASSES, options)
    if is_whole and numbers.values.dtype == np.float64:
        numbers.values = np.where(good, numbers.values, 0).astype(np.int64)
    return numbers


def _categories(name: str, files: Sequence[TableFile], options: PackOptions) -> TableColumn:
    """A column of texts, or of numbers with some texts among them."""
    texts = texts_of(files, name, options)
    is_gap = gaps_in(texts, options)
    known = options.known.categories.get(name, ())
    if not known and name not in options.texts:
        numbers = _parsed(name, texts, is_gap, options)
        there = texts[~is_gap]
        if numbers is not None:
            values = numbers.values[~numbers.is_gap]
            n_texts = len({text.strip() for text in texts[~numbers.is_gap]})
            merges = _is_whole(values) and len(np.unique(values)) < n_texts
            if merges or not all(file.is_text for file in files):
                raise DataFileError(
                    f"column {name!r} has texts that look like numbers, such as {there[0]!r}. If these "
                    f"are names: --texts {name}. If they are numbers, write them as numbers, and alike."
                )
            return numbers
        form = other_form(there.tolist(), options.decimal)
        if form:
            raise DataFileError(
                f"column {name!r} {form} To take its texts as categories: --texts {name}"
            )
        if _names_rows(there):
            raise DataFileError(
                f"column {name!r} has {len(set(there))} different texts in {len(there)} rows, such as "
                f"{short(str(there[0]))!r}, so it names the rows. Choose --columns without it; or take "
                f"its texts as categories: --texts {name}"
            )
    return _coded(name, texts, is_gap, MAX_TEXTS, options, known)


def _names_rows(values: np.ndarray) -> bool:
    """Whether nearly every row has another value."""
    n = len(values)
    return n >= MANY_ROWS and _is_whole(values) and len(set(values.tolist())) >= NEARLY_ALL * n


def _is_whole(values: np.ndarray) -> bool:
    return values.dtype.kind != "f" or bool((values == np.rint(values)).all())


def _parsed(
    name: str, texts: np.ndarray, is_gap: np.ndarray, options: PackOptions
) -> TableColumn | None:
    """The numbers of texts, when most are numbers; the others are gaps."""
    from pyarrow import array, compute, float64, int64, string

    cleaned = array(np.where(is_gap, "", texts), string())
    cleaned = compute.utf8_trim_whitespace(cleaned)
    if options.thousands:
        pattern = rf"^([+-]?\d{{1,3}}(\{options.thousands}\d{{3}})+)(\{options.decimal}\d+)?$"
        without = compute.replace_substring(cleaned, options.thousands, "")
        is_grouped = compute.match_substring_regex(cleaned, pattern)
        cleaned = compute.if_else(is_grouped, without, cleaned)
    if options.decimal != ".":
        is_plain = compute.invert(compute.match_substring(cleaned, "."))
        pointed = compute.replace_substring(cleaned, options.decimal, ".")
        cleaned = compute.if_else(is_plain, pointed, "")
    cleaned = compute.replace_substring_regex(cleaned, r"^\+", "")
    number = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
    is_number = compute.match_substring_regex(cleaned, number).to_numpy(zero_copy_only=False)
    n_numbers, n_texts = int(is_number.sum()), int((~is_number & ~is_gap).sum())
    if n_texts >= n_numbers:
        return None
    numbers = compute.if_else(array(is_number), cleaned, "0")
    try:
        values = compute.cast(numbers, int64()).to_numpy()
    except ValueError:
        values = compute.cast(numbers, float64()).to_numpy()
    bad = ~is_number & ~is_gap
    first_bad = (int(bad.argmax()), str(texts[bad.argmax()])) if n_texts else None
    return TableColumn(name, values, ~is_number, first_bad=first_bad)


def _coded(
    name: str,
    texts: np.ndarray,
    is_gap: np.ndarray,
    max_texts: int,
    options: PackOptions,
    known: Sequence[str] = (),
) -> TableColumn:
    """The number of each text."""
    counts = Counter(texts[~is_gap].tolist())
    if len(counts) > max_texts:
        raise DataFileError(
            f"column {name!r} has more than {max_texts} different texts, so it does "
            "not name categories. Choose --columns without it."
        )
    chosen = options.spellings.choose(f"texts in column {name!r}", counts, known)
    different = {chosen.get(text, text) for text in counts}
    is_filled = options.fill is not None and max_texts == MAX_TEXTS and is_gap.any()
    if is_filled:
        different.add("")
    names = options.known.and_new(f"column {name!r}", known, different)
    code_of = {text: code for code, text in enumerate(names)}
    codes = [
        (code_of[""] if is_filled else 0) if gap else code_of[chosen.get(text, text)]
        for text, gap in zip(texts, is_gap, strict=True)
    ]
    no_gap = np.zeros_like(is_gap)
    return TableColumn(name, np.array(codes, np.int64), no_gap if is_filled else is_gap, names)


# Numbers: in a type that tells them apart, and as others write them


MOVED = 1e-6  # of the range of a column: what rounding to float32 may move a value by
MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
# How people write numbers, times and shares; what to type
FORMS = (
    (r"[+-]?\d+([.,]\d+)?\s*%", "as a share. Write a number, such as 0.05."),
    (
        r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?",
        "with thousands separators. Type --thousands , (or --decimal , if it is one).",
    ),
    (
        r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?",
        "with thousands separators. Type --thousands . --decimal , there.",
    ),
    (
        r"[+-]?\d{1,3}([ '\u00a0\u202f]\d{3})+([.,]\d+)?",
        "with thousands separators. Type --thousands ' '.",
    ),
    (r"[+-]?\d*,\d+", "with a decimal comma. Type --decimal , then."),
    (r"[\u2012-\u2015\u2212]\d+([.,]\d+)?", "with another sign than -. Write that one."),
    (r"[+-]?\d+\.\d+", "with a decimal point. Leave --decimal out."),
    (r"[$€£¥]\s?[\d.,]+|[\d.,]+\s?[$€£¥]", "with a currency. Write the number alone."),
    (
        r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?",
        "as a date. Write it as 2024-12-31 and type --times.",
    ),
    (
        rf"\d{{1,4}}[-/ .]*{MONTH}[-/ .,]*\d{{1,4}}|{MONTH}[-/. ]+\d{{1,2}}[-/, ]+\d{{2,4}}",
        "as a date. Write it as 2024-12-31 and type --times.",
    ),
    (r"\d{1,2}:\d{2}(:\d{2})?(\.\d+)?( ?[AaPp][Mm])?", "as a time. Write seconds."),
)


def as_numbers(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The values of a column of pyarrow, int64, uint64 or float64, and where it has none.

    Times are seconds since 1970.
    """
    from pyarrow import compute, float64, int64, nulls, timestamp, types, uint64

    kind = column.type
    if types.is_null(kind):
        column, kind = nulls(len(column), float64()), float64()
    is_gap = column.is_null().to_numpy(zero_copy_only=False) if hasattr(column, "chunks") else None
    if is_gap is None:
        is_gap = np.ones(len(column), bool)
    if types.is_date(kind):
        column, kind = column.cast(timestamp("s")), timestamp("s")
    if types.is_time(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        whole = column.cast("int32") if kind.bit_width == 32 else column
        ticks = compute.fill_null(whole.cast(int64()), 0).to_numpy()
        if not (ticks % per_second).any():
            return ticks // per_second, is_gap
        seconds = ticks / per_second
        if len(np.unique(seconds)) < len(np.unique(ticks)):
            raise DataFileError(
                "times fall together as seconds of 64 bits. Subtract an origin first."
            )
        return seconds, is_gap
    if types.is_boolean(kind) or types.is_signed_integer(kind):
        target: Any = int64()
    elif types.is_unsigned_integer(kind):
        target = uint64() if kind.bit_width == 64 else int64()
    else:
        target = float64()
    values = compute.fill_null(column.cast(target), 0).to_numpy()
    if values.dtype == np.float64:
        is_gap = is_gap | np.isnan(values)
    return values, is_gap


def type_for(values: np.ndarray) -> tuple[np.dtype, str]:
    """The smallest type that tells these numbers apart, and why float32 is none; "" where it is.

    Fractions may be rounded to the 7 digits of float32, as long as no value moves by a millionth of the
    range of all.
    """
    single = np.dtype(np.float32)
    double = np.dtype(np.float64)
    if not len(values):
        return single, ""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not len(finite):
        return single, ""
    is_whole = values.dtype.kind in "iu" or bool((finite == np.rint(finite)).all())
    with np.errstate(over="ignore"):
        rounded = finite.astype(single)
    if not np.isfinite(rounded).all():
        return double, "has values beyond 3e38"
    if is_whole:
        if (rounded.astype(double) == finite).all() and _fits(finite, 1 << 24):
            return single, ""
        n_before, n_after = len(np.unique(finite)), len(np.unique(rounded))
        reason = f"has {n_before} different values, {n_after} in float32"
        if n_after == n_before:
            reason = "has whole numbers that float32 rounds"
        is_exact = values.dtype == double or _fits(finite, 1 << 53)
        return (double if is_exact else values.dtype), reason
    lost = (rounded == 0) & (finite != 0)
    if lost.any():
        return double, "has values below 1e-45"
    span = float(finite.max()) - float(finite.min())
    moved = float(np.abs(rounded.astype(double) - finite).max())
    n_before = len(np.unique(finite))
    n_after = len(np.unique(rounded))
    if moved > MOVED * span and n_after < n_before:
        return double, f"has {n_before} different values, {n_after} in float32"
    return single, ""


def _fits(values: np.ndarray, largest: int) -> bool:
    """Whether these whole numbers lie within -largest to largest; a float was compared already."""
    if values.dtype.kind == "f":
        return True
    return max(abs(int(values.min())), abs(int(values.max()))) <= largest


def other_form(texts: Sequence[str], decimal: str) -> str | None:
    """How most of these texts are numbers or times, and what to type; None when they are names."""
    different = list(dict.fromkeys(text.strip() for text in texts))
    plain = re.compile(r"[+-]?\d+")
    for pattern, advice in FORMS:
        matching = [text for text in different if re.fullmatch(pattern, text)]
        n_alike = len(matching) + sum(bool(plain.fullmatch(text)) for text in different)
        if matching and 2 * n_alike > len(different):
            return f"has {matching[0]!r}, a number written {advice}"
    return None
