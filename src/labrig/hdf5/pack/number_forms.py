"""Numbers of tables: as arrays, in a type that tells them apart; and numbers that are written otherwise."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..file.errors import DataFileError

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
