"""Reads series: the rows of tables in the order of time, a sample for each series or for a part of one."""

import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...machine.text_formats import counted
from ..file.errors import DataFileError
from ..file.groups import SPAN
from ..file.layout import TIME
from .collect import NOT_FIELDS
from .folders import walk
from .options import PackOptions
from .samples import DamagedSamples, FilesSeen, RawSamples
from .sources import SUFFIXES_OF_KIND, Source, source_labels
from .split import divide
from .table_columns import TableColumn, as_numbers, texts_of, type_for, x_column
from .table_files import TableFile
from .tables import check_cut, require_same_columns, x_names
from .texts import RAGGED

MOST_GAPS = 100  # steps for each row of the tables; more are a wrong time
NEAR = 1e-3  # of a step: how far a regular time may be off, as rounding makes it
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TABLES = SUFFIXES_OF_KIND["table"]


@dataclass(frozen=True)
class Series:
    """All rows of the tables, those of a series next to each other, in the order of time.

    Args:
        names: of the series.
        splits: of the series, where the sources name them.
        first: (S + 1,) where the rows of each begin.
        time: (N,) of the rows.
        place: (N,) the step of each row, from 0 in its series.
        step: from one step to the next.
        kind: the type of pyarrow of dates, of which the times are seconds since 1970; None of numbers.
        columns: the values (N,) of each field; NaN where there is none.
        groups: of the series.
    """

    names: list[str]
    splits: list[str | None]
    first: np.ndarray
    time: np.ndarray
    place: np.ndarray
    step: float
    kind: Any
    columns: dict[str, np.ndarray]
    groups: list[str]

    def n_steps(self, i: int) -> int:
        return int(self.place[self.first[i + 1] - 1]) + 1

    def rows(self, i: int) -> slice:
        return slice(self.first[i], self.first[i + 1])

    def times(self, i: int) -> np.ndarray:
        """(T,) of the steps of series i: of a row as it is written."""
        rows = self.rows(i)
        times = self.time[rows.start] + self.step * np.arange(self.n_steps(i))
        times[self.place[rows]] = self.time[rows]
        return times

    def part(self, i: int, start: int, stop: int) -> dict[str, np.ndarray]:
        """The fields of series i, from one step to before another; NaN where a step has no row."""
        fields = {TIME: self.times(i)[start:stop]}
        for name, values in self.columns.items():
            steps = np.full(self.n_steps(i), np.nan, values.dtype)
            steps[self.place[self.rows(i)]] = values[self.rows(i)]
            fields[name] = steps[start:stop]
        return fields

    def place_of(self, i: int, time: float) -> int:
        """The first step of series i that is not before a time, also of a time behind its end."""
        times = self.times(i)
        n_behind = math.ceil((time - times[-1]) / self.step - NEAR) - 1
        return int(np.searchsorted(times, time)) + max(0, n_behind)

    def shown(self, time: Any) -> str:
        if self.kind is None:
            return f"{time:.12g}"
        date = str(np.datetime64(round(time * 10**6), "us")).removesuffix(".000000")
        return f"{date}Z" if self.kind.tz else date

    def time_of(self, text: str) -> float:
        """A time as it is typed; of dates with a zone if those of the tables have one."""
        from pyarrow import scalar

        time, kind = math.nan, self.kind
        with suppress(ValueError):
            ticks = scalar(text).cast(kind).value if kind else float(text)
            time = ticks / (PER_SECOND[kind.unit] if kind else 1)
        if not math.isfinite(time):
            what = "a date" if kind else "a number"
            raise DataFileError(
                f"--split-by-time {text}: expected {what} such as {self.shown(self.time[0])}."
            )
        return time


def read_series(options: PackOptions, damaged: DamagedSamples) -> RawSamples:
    """Samples {"time": (T,), and a field (T,) for each column}, float32 or float64, with NaN in gaps.

    The steps of a series are regular: one that has no row is a gap in all columns.
    """
    series = open_series(options, damaged)
    samples = parts_of(series, options)
    return RawSamples(samples, {name: RAGGED for name in (TIME, *series.columns)})


def open_series(options: PackOptions, damaged: DamagedSamples) -> Series:
    """The series of all tables of the sources."""
    files, names_of_files, seen = [], [], FilesSeen()
    for source, label in zip(options.sources, source_labels(options.sources), strict=True):
        for path in tables_in(source.path, seen):
            files.append(TableFile(Source(path, source.split), options))
            is_file = path == source.path
            place = Path(label or path.name) if is_file else label / path.relative_to(source.path)
            names_of_files.append(place.with_suffix("").as_posix())
    if seen.n_of_kind:
        print(f"  {seen.describe(seen.n_of_kind)}")
    require_same_columns(files)
    check_cut(files, options)
    file_of = dict(zip(names_of_files, files, strict=True))
    for file, name in zip(files, names_of_files, strict=True):
        if file is not file_of[name]:
            raise DataFileError(
                f"{file.path} and {file_of[name].path} are both the series {name!r}. Rename one, or leave it out."
            )
        if not file.typed.num_rows:
            raise DataFileError(f"{file.path} has no rows. Leave it out, or fill it.")
        damaged.skipped_keys += [f"{name}:{row.number - 1}" for row in file.cut]
    names = x_names(files, options)
    fields = {field_name(name): name for name in names}
    taken = [field for field in (TIME, SPAN, *NOT_FIELDS) if field in fields]
    if len(fields) < len(names) or taken:
        found = f"{taken[0]!r}, which has another meaning" if taken else "two of one name"
        raise DataFileError(
            f"{files[0].path}: a field is called by the letters, digits and _ of its column. The columns "
            f"{', '.join(names)} give {found}. Rename one, or choose --columns."
        )
    renamed = [f"{name!r} is {field}" for field, name in fields.items() if field != name]
    if renamed:
        print(f"  columns as fields: {', '.join(renamed)}")
    of_row, names, splits = series_of_rows(files, names_of_files, options)
    ticks, kind = times_of(files, options, of_row)
    order = np.lexsort((ticks, of_row))
    if (order != of_row.argsort(kind="stable")).any():
        print(f"lab: rows not in the order of {options.time} are put into it", file=sys.stderr)
    of_row, ticks = of_row[order], ticks[order]
    first = np.searchsorted(of_row, np.arange(len(names) + 1))
    if options.time is None:
        ticks = np.arange(len(ticks)) - first[of_row]
    groups = names
    if options.group:
        texts = texts_of(files, options.group, options)
        groups = groups_of_series(texts.codes[order], texts.different, first, names, options.group)
    columns = {field: x_column(name, files, options) for field, name in fields.items()}
    values = {field: values_of(field, column)[order] for field, column in columns.items()}
    dates = kind if hasattr(kind, "tz") else None
    per_second = PER_SECOND.get(getattr(kind, "unit", ""), 1)
    none = np.zeros(0, int)
    series = Series(names, splits, first, ticks / per_second, none, 1, dates, values, groups)
    place, step = steps_of(series, ticks, of_row, per_second)
    series = replace(series, place=place, step=step)
    tell_of_gaps(series, of_row)
    return series


def tables_in(source: Path, seen: FilesSeen) -> list[Path]:
    """The tables of a folder, each of a series of its own; or the one that is named."""
    if source.is_file():
        return [source]
    found, counts = walk(source, [*TABLES, ".gz"])
    paths = [path for path in found if path.name.lower().removesuffix(".gz").endswith(TABLES)]
    if not paths:
        raise DataFileError(f"{source} has no table (.csv, .tsv, .parquet). Name another folder.")
    counts.n_of_kind = len(paths)
    counts.others[".gz"] = len(found) - len(paths)
    seen.add(counts)
    return [source / path for path in paths]


def field_name(column: str) -> str:
    return re.sub(r"\W+", "_", column.strip()).strip("_") or "_"


def series_of_rows(
    files: Sequence[TableFile], names_of_files: list[str], options: PackOptions
) -> tuple[np.ndarray, list[str], list[str | None]]:
    """The number of the series of each row, (N,); their names, and the splits of the sources."""
    n_rows = [file.typed.num_rows for file in files]
    of_file = np.repeat(np.arange(len(files)), n_rows)
    splits = list(dict.fromkeys(file.source.split for file in files))
    if options.series is None:
        return of_file, names_of_files, [file.source.split for file in files]
    texts = texts_of(files, options.series, options)
    if texts.is_gap.any():
        raise DataFileError(
            f"--series {options.series}: row {int(texts.is_gap.argmax()) + 1} names no series. Correct it."
        )
    split_of_row = np.array([splits.index(file.source.split) for file in files])[of_file]
    both = split_of_row * len(texts.different) + texts.codes
    found, of_row = np.unique(both, return_inverse=True)
    names = [texts.different[code] for code in found % len(texts.different)]
    return of_row, names, [splits[i] for i in found // len(texts.different)]


def times_of(
    files: Sequence[TableFile], options: PackOptions, of_row: np.ndarray
) -> tuple[np.ndarray, Any]:
    """The time of each row, (N,), and its type of pyarrow, of which a date has ticks, not seconds;
    without --time the number of the row, and None.
    """
    from pyarrow import ArrowException, concat_tables, timestamp, types

    if options.time is None:
        return np.arange(len(of_row)), None
    tables = [file.typed.select([options.time]) for file in files]
    try:
        column = concat_tables(tables, promote_options="permissive")[0]
    except ArrowException as error:
        raise DataFileError(
            f"--time {options.time}: {error}. Write the times of all tables alike."
        ) from error
    if not types.is_primitive(column.type):
        raise DataFileError(
            f"--time {options.time} has texts, such as {str(column[0])!r}. Write all times as 2024-12-31 06:00, or as "
            "numbers."
        )
    if types.is_date(column.type) or types.is_timestamp(column.type):
        with suppress(ArrowException):  # of microseconds seconds of 64 bits are the nearest
            column = column.cast(timestamp("us", getattr(column.type, "tz", None)))
    kind = column.type
    if types.is_temporal(kind):
        column = column.cast("int32" if kind.bit_width == 32 else "int64")
    time, is_gap = as_numbers(column)
    is_gap = is_gap | ~np.isfinite(time)
    if is_gap.any():
        found = TableColumn(options.time, time, is_gap).describe_gaps(len(time))
        raise DataFileError(f"--time: {found} without a time. Correct them.")
    return time, kind


def groups_of_series(
    codes: np.ndarray, different: list[str], first: np.ndarray, names: Sequence[str], column: str
) -> list[str]:
    """The group of each series."""
    for i, name in enumerate(names):
        of_series = np.unique(codes[first[i] : first[i + 1]])
        if len(of_series) > 1:
            found = " and ".join(different[code] for code in of_series[:2])
            raise DataFileError(
                f"--group {column}: the series {name!r} has {found}. A series has one group: name another column."
            )
    return [different[code] for code in codes[first[:-1]]]


def values_of(field: str, column: TableColumn) -> np.ndarray:
    """The values of a column as a float that tells them apart, NaN in gaps."""
    if column.texts:
        raise DataFileError(
            f"column {column.name!r} holds texts, such as {column.texts[0]!r}. Choose --columns without it, or "
            "write numbers."
        )
    if column.first_bad:
        row, text = column.first_bad
        raise DataFileError(
            f"column {column.name!r} has {text!r} among numbers, first in row {row + 1}. If it says that there "
            f"is no value: --missing '{text}'. Else correct it."
        )
    values = column.values[~column.is_gap]
    dtype, reason = type_for(values)
    if dtype.kind != "f":
        raise DataFileError(
            f"column {column.name!r} {reason}, and float64 holds no more than 53 bits. Subtract an origin."
        )
    if reason:
        print(f"  {field} is {dtype}: {column.name} {reason}")
    return np.where(column.is_gap, np.nan, column.values.astype(dtype)).astype(dtype)


def steps_of(
    series: Series, ticks: np.ndarray, of_row: np.ndarray, per_second: int
) -> tuple[np.ndarray, float]:
    """The step of each row, (N,), and the time from one to the next: the usual difference of two times,
    of which all others are multiples.
    """
    pairs = np.flatnonzero(np.diff(of_row) == 0)
    between = np.diff(ticks)[pairs]
    if not len(between):
        return np.zeros(len(ticks), int), 1
    if between.min() == 0:
        at = pairs[between.argmin()]
        raise DataFileError(
            f"series {series.names[of_row[at]]!r} has two rows of the time {series.shown(series.time[at])}. Leave "
            "one out; or name the column that tells the series apart: --series COLUMN. An hour of local time "
            "comes twice in autumn: write UTC."
        )
    if not np.diff(series.time)[pairs].all():
        raise DataFileError("times fall together as floats of 64 bits. Subtract an origin first.")
    usual = np.sort(between)[len(between) // 2]
    # the mean, since each difference of rounded times is a little off, and that adds up
    step = between[np.rint(between / usual) == 1].mean()
    steps = np.zeros(len(ticks))
    steps[pairs + 1] = np.maximum(np.rint(between / step), 1)
    first, last = series.first[:-1], series.first[1:] - 1
    place = np.cumsum(steps)
    place -= place[first][of_row]
    longest = place[last].argmax()
    since = ticks - ticks[first][of_row]
    step = since[last[longest]] / place[last[longest]]
    if (np.abs(since - place * step) > NEAR * step).any():
        at = pairs[np.abs(between / step - steps[pairs + 1]).argmax()]
        raise DataFileError(
            f"the times are not regular: most are {usual / per_second:g} apart, but series "
            f"{series.names[of_row[at]]!r} has {series.shown(series.time[at])} and "
            f"{series.shown(series.time[at + 1])}. Give the rows times of one step; or leave out --time: each row "
            "is a step then."
        )
    return np.minimum(place, 1 << 53).astype(int), float(step / per_second)


def tell_of_gaps(series: Series, of_row: np.ndarray) -> None:
    """Says where steps have no row, and where rows have no value."""
    n_rows = len(series.time)
    n_steps = sum(series.n_steps(i) for i in range(len(series.names)))
    if n_steps > n_rows:
        far = (np.diff(series.place) > 1) & (np.diff(of_row) == 0)
        at = int(far.argmax())
        where = f"after {series.shown(series.time[at])} in series {series.names[of_row[at]]!r}"
        if n_steps > MOST_GAPS * n_rows:
            raise DataFileError(
                f"a step of {series.step:g} makes {n_steps} steps of {n_rows} rows. The first gap is {where}. "
                "Correct the times there."
            )
        missing = counted(n_steps - n_rows, "step")
        print(f"lab: {missing} without a row, first {where}: NaN", file=sys.stderr)
    for name, values in series.columns.items():
        n_gaps = int(np.isnan(values).sum())
        if n_gaps:
            print(f"lab: {name}: {n_gaps} of {n_rows} rows have no value: NaN", file=sys.stderr)


# Splits


def parts_of(series: Series, options: PackOptions) -> Iterator[dict[str, Any]]:
    """Each series; with --split-by-time each part of it that lies in a split."""
    if not options.split_by_time:
        require_several(series, options)
        for i, (name, split) in enumerate(zip(series.names, series.splits, strict=True)):
            given = {} if split is None else {"split": split}
            whole = series.part(i, 0, series.n_steps(i))
            yield {"key": name, "group": series.groups[i], **given, **whole}
        return
    splits = [*options.shares]
    times = [series.time_of(text) for text in options.split_by_time]
    n_splits = len(times) + 1
    too_few = options.group and n_splits < len(splits)
    if n_splits > len(splits) or too_few or times != sorted(times):
        raise DataFileError(
            f"--split-by-time {','.join(options.split_by_time)}: expected times in their order that part the "
            f"splits {', '.join(splits)}, of which each begins where the one before ends."
        )
    split_of_group = splits_of_groups(series, options) if options.group else {}
    found, n_left_out = set(), 0
    for i, name in enumerate(series.names):
        places = [series.place_of(i, time) for time in times]
        starts = [0, *places]
        n_steps = series.n_steps(i)
        stops = [*(min(n_steps, place - options.gap) for place in places), n_steps]
        for split, start, stop in zip(splits, starts, stops, strict=False):
            if start >= stop:
                continue
            if split_of_group.get(series.groups[i], split) != split:
                n_left_out += 1
                continue
            found.add(split)
            part = series.part(i, start, stop)
            yield {"key": f"{name}/{split}", "split": split, "group": series.groups[i], **part}
    empty = [split for split in splits[:n_splits] if split not in found]
    if empty:
        raise DataFileError(
            f"--split-by-time {','.join(options.split_by_time)} leaves nothing for {' and '.join(empty)}: the "
            f"times are {series.shown(series.time.min())} to {series.shown(series.time.max())}. Write others."
        )
    if n_left_out:
        print(
            f"lab: {counted(n_left_out, 'part')} left out, whose {options.group} is in another split",
            file=sys.stderr,
        )


def require_several(series: Series, options: PackOptions) -> None:
    """Raises DataFileError where there is nothing to divide by series."""
    if len({*series.groups}) >= len(options.shares) or options.split_file or series.splits[0]:
        return
    n_steps = series.n_steps(0)
    times = [
        series.shown(series.time[0] + round(share * n_steps) * series.step)
        for share in np.cumsum([*options.shares.values()])[:-1]
    ]
    noun = "group" if options.group else "series"
    raise DataFileError(
        f"{counted(len({*series.groups}), noun)} cannot be divided into "
        f"{', '.join(options.shares)}. Divide by time, such as: --split-by-time {','.join(times)}"
    )


def splits_of_groups(series: Series, options: PackOptions) -> dict[str, str]:
    """The split of each group, by the shares."""
    groups = list(dict.fromkeys(series.groups))
    parts = divide(options.shares, options.seed, len(groups))
    return {groups[number]: split for split, numbers in parts.items() for number in numbers}
