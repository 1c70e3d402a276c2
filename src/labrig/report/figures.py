"""What a page draws of runs: curves, thinned to what a screen can show, and the pictures that runs saved.

A report of 2,000 runs reads two million rows, so a file that has not changed since the last page is
not read again.

A page holds them compressed, as text in which no character means anything to HTML.
"""

from __future__ import annotations

import base64
import csv
import os
import sys
import zlib
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from io import StringIO
from itertools import chain, pairwise
from pathlib import Path

from ..record.files.atomic import is_below, read_bytes
from ..record.files.metrics_file import MetricColumns, extreme_places
from ..record.read.row_cache import file_stamp

# When the steps of a run were: in which epoch, and after how many hours of training.

MOST_MARKS = 40  # between two of them a page goes straight
FOLDER = "pictures"
MEDIA = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
TABLE = ".csv"
MOST_BYTES = 6_000_000  # of all pictures inside a page; it links to the others
MOST_OF_RUN = 12  # pictures of one run inside a page: the newest
MOST_ROWS = 200  # of a table


@dataclass(frozen=True)
class Clock:
    """Marks of a run: at `steps`, so many `hours` were trained and so many `epochs` done."""

    steps: list[float]
    hours: list[float]
    epochs: list[float]


def clock_of(columns: Mapping[str, Sequence[float]]) -> Clock:
    """The marks of a run's metrics. Time between two attempts, such as in a queue, is left out.

    Args:
        columns: step, epoch, attempt and time_unix_s of every row, by step.
    """
    steps, attempts = columns["step"], columns["attempt"]
    if not steps:
        return Clock([], [], [])
    last = len(steps) - 1
    n_marks = min(MOST_MARKS, len(steps))
    places = {place * last // max(1, n_marks - 1) for place in range(n_marks)}
    if len(set(attempts)) > 1:
        # The rows around a pause: without them its time would count as training.
        pauses = [n for n in range(1, len(steps)) if attempts[n] != attempts[n - 1]]
        places.update(pauses, (n - 1 for n in pauses))
    marks = sorted(places)
    ends = epoch_ends(columns["epoch"], steps)
    seconds = seconds_trained(
        [columns["time_unix_s"][n] for n in marks], [attempts[n] for n in marks]
    )
    return Clock(
        [steps[n] for n in marks],
        [round(each / 3600, 5) for each in seconds],
        [round(epochs_done(steps[n], ends), 4) for n in marks],
    )


def seconds_trained(times_unix_s: list[float], attempts: list[float]) -> list[float]:
    """How long a run had trained at each mark, without the time between attempts."""
    total_s = 0.0
    seconds = [total_s]
    for (time_s, attempt), (later_s, later) in pairwise(zip(times_unix_s, attempts, strict=True)):
        if attempt == later:
            total_s += max(0.0, later_s - time_s)
        seconds.append(total_s)
    return seconds


def epoch_ends(epochs: Sequence[float], steps: Sequence[float]) -> list[tuple[float, float]]:
    """(step, epochs done) where epochs ended, from (0, 0) on.

    The last epoch may not have ended: it counts as long as the one before it.
    """
    last_steps = dict(zip(epochs, steps, strict=True))
    ends = [(0.0, float(min(last_steps)))]
    for epoch in sorted(last_steps):
        if last_steps[epoch] > ends[-1][0]:
            ends.append((last_steps[epoch], epoch + 1.0))
    if len(ends) > 2:
        length = ends[-2][0] - ends[-3][0]
        part = min(1.0, (ends[-1][0] - ends[-2][0]) / length)
        ends[-1] = (ends[-1][0], ends[-2][1] + part)
    return ends


def epochs_done(step: float, ends: list[tuple[float, float]]) -> float:
    """The epochs that were done at a step: whole ones, and a part of the current one."""
    for (begin, before), (end, after) in pairwise(ends):
        if step <= end:
            return before + (after - before) * (step - begin) / (end - begin)
    return ends[-1][1]


MOST_POINTS = 1000  # of one curve: a screen has about as many columns
LARGEST = 3e38  # what four bytes can hold


@dataclass
class Curve:
    """A metric of a run: `values` at `steps`, which count optimizer steps."""

    steps: array = field(default_factory=lambda: array("d"))
    values: array = field(default_factory=lambda: array("d"))


@dataclass(frozen=True)
class RunCurves:
    """All curves of a run by metric, and when each of its steps was."""

    curves: dict[str, Curve]
    clock: Clock


class CurveReader:
    """Reads the curves of runs; those of an unchanged file only once."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[str | None, RunCurves]] = {}

    def read(self, run_dir: Path) -> RunCurves:
        stamp = file_stamp(f"{run_dir}/metrics.jsonl")
        if run_dir not in self._read or self._read[run_dir][0] != stamp:
            self._read[run_dir] = (stamp, read_curves(run_dir))
        return self._read[run_dir][1]


def read_curves(run_dir: Path) -> RunCurves:
    """The curves of a run, each with at most MOST_POINTS points."""
    metrics = MetricColumns(run_dir)
    return RunCurves(
        {name: thin(curve_of(metrics, name), MOST_POINTS) for name in metrics.names},
        clock_of({key: metrics.in_order(key) for key in metrics.columns}),
    )


def curve_of(metrics: MetricColumns, name: str) -> Curve:
    """The points of a metric that can be drawn."""
    steps = metrics.columns["step"]
    pairs = ((steps[row], value) for row, value in metrics.points(name) if abs(value) < LARGEST)
    numbers = array("d", chain.from_iterable(pairs))
    return Curve(numbers[::2], numbers[1::2])


def thin(curve: Curve, n_points: int) -> Curve:
    """At most `n_points` points of a curve: of each stretch of it the lowest and the highest.

    So no peak is lost. The first and the last point stay.
    """
    places = extreme_places(curve.values, n_points)
    if len(places) == len(curve.values):
        return curve
    return Curve(
        array("d", [curve.steps[place] for place in places]),
        array("d", [curve.values[place] for place in places]),
    )


LARGEST_STEP = 2**32 - 1
LEVEL = 6  # of compression; 9 takes thrice the time for a hundredth of the size


def pack(content: bytes) -> str:
    """zlib, then base64: letters, digits, +, / and = only."""
    return base64.b64encode(zlib.compress(content, LEVEL)).decode("ascii")


def pack_curves(curves: list[Curve]) -> str:
    """Curves one after the other: the distances of all steps, then all values.

    A distance has four bytes. A value is a 32-bit float without its last eight bits, so it has
    four to five digits. Bytes of one rank lie together, which halves the compressed size.
    """
    distances = array("I")
    values = array("f")
    distances_of_steps: dict[bytes, array] = {}  # most runs log at the same steps
    for curve in curves:
        steps = curve.steps.tobytes()
        if steps not in distances_of_steps:
            distances_of_steps[steps] = distances_of(curve.steps)
        distances.extend(distances_of_steps[steps])
        values.extend(array("f", curve.values))
    return pack(b"".join([*planes(distances), *planes(values)[1:]]))


def distances_of(steps: array) -> array:
    """The first step, then the distance of each to the one before."""
    pairs = zip(steps, [0.0, *steps], strict=False)
    return array("I", [min(LARGEST_STEP, max(0, int(step - before))) for step, before in pairs])


def planes(numbers: array) -> list[bytes]:
    """The lowest bytes of all numbers of four bytes, then the next higher ones, and so on."""
    if sys.byteorder == "big":
        numbers.byteswap()
    content = numbers.tobytes()
    return [content[place::4] for place in range(4)]


@dataclass(frozen=True)
class PictureFacts:
    """A picture or a table of the run with this number."""

    run: int
    name: str  # its path in the folder
    file: str  # relative to the page
    media: str  # a media type, or "table"
    is_inside: bool  # whether the page holds it


@dataclass(frozen=True)
class SavedPicture:
    facts: PictureFacts
    content: str  # base64; empty when it is not inside
    rows: list[list[str]]  # of a table

    @property
    def about(self) -> dict:
        return asdict(self.facts) | {"rows": self.rows}


def find_pictures(directories: list[Path], folder: Path) -> list[SavedPicture]:
    """The pictures of runs, those of the first run first. `folder` is that of the page."""
    pictures = []
    left_bytes = MOST_BYTES
    for run, directory in enumerate(directories):
        for n, path in enumerate(newest_first(directory / FOLDER)):
            try:
                size = path.stat().st_size
                is_inside = n < MOST_OF_RUN and size <= left_bytes and size <= MOST_BYTES
                picture = read_picture(run, path, directory, folder, is_inside)
            except (OSError, csv.Error):
                continue  # a training has replaced it just now, or it is no table
            left_bytes -= len(picture.content)
            pictures.append(picture)
    return pictures


def newest_first(folder: Path) -> list[Path]:
    """The pictures and tables in a folder and below, without those that are being written.

    A link is left out: it may lead to a file of the reader's.
    """
    times = {}
    for path in folder.rglob("*"):
        is_shown = path.suffix.lower() in {*MEDIA, TABLE} and not path.name.startswith(".")
        with suppress(OSError):
            if is_shown and path.is_file() and is_below(path, folder.parent):
                times[path] = path.stat().st_mtime
    return sorted(times, key=times.__getitem__, reverse=True)


def read_picture(
    run: int, path: Path, directory: Path, folder: Path, is_inside: bool
) -> SavedPicture:
    """A picture or table; without its content when it is not to be inside the page."""
    suffix = path.suffix.lower()
    facts = PictureFacts(
        run=run,
        name=path.relative_to(directory / FOLDER).as_posix(),
        file=os.path.relpath(path, folder).replace(os.sep, "/"),
        media=MEDIA.get(suffix, "table"),
        is_inside=is_inside,
    )
    if not is_inside:
        return SavedPicture(facts, "", [])
    content = read_bytes(path, MOST_BYTES, below=directory)
    if suffix == TABLE:
        return SavedPicture(facts, "", read_table(content))
    return SavedPicture(facts, base64.b64encode(content).decode("ascii"), [])


def read_table(content: bytes) -> list[list[str]]:
    """The first rows of a CSV file."""
    file = StringIO(content.decode("utf-8", errors="replace"), newline="")
    return [row for row, _ in zip(csv.reader(file), range(MOST_ROWS), strict=False)]
