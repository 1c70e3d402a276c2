"""Takes samples of a class of the user's: a damaged file is named, and left out where that is asked."""

import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

import numpy as np

from ...errors import LabError
from ...failure import debugging, describe, shown_path
from ..file.errors import DataFileError
from ..file.groups import SOURCE, number_of_source
from .collect import Field
from .folders import class_attrs
from .options import PackOptions
from .samples import DamagedSamples
from .sources import Source

LABEL = "y"
LONGEST_PATH = 4096  # letters; a longer text is no path on Linux
MISTAKES = (NameError, ImportError)  # of the code: no file is to blame


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Around what `samples()` does for one file: damage is told with its name, and left out with
    `lab data pack --skip-damaged`.

    for path in sorted(source.glob("*.dat")):
        with reading(path):
            yield {"x": np.fromfile(path)}

    Raises:
        DataFileError: the file cannot be read, and is not to be left out.
    """
    try:
        yield
    except Exception as error:
        packing = OwnSamples.current
        file = packing.opened.file_of(error) if packing else None
        if packing and packing.damaged.skip and not isinstance(error, MISTAKES):
            packing.damaged.leave_out(
                packing.key_of(Path(path)), f"{shown_path(file or path)}: {error}"
            )
            return
        if debugging():
            raise
        raise DataFileError(
            f"{shown_path(file or path)} cannot be read:\n{describe(error)}\n"
            "Repair it, or use --skip-damaged."
        ) from error


class OpenedFiles:
    """The last file below some directories, or of some files, that this thread opened."""

    def __init__(self, sources: Iterable[Path]) -> None:
        places = [os.path.realpath(source) for source in sources]
        self.files = {place for place in places if os.path.isfile(place)}
        self.folders = tuple(os.path.join(place, "") for place in places)
        self.thread = threading.get_ident()
        self.last: str | None = None
        self.is_watching = True
        sys.addaudithook(self._note)

    def stop(self) -> None:
        """From now on nothing is noted: Python never forgets the hook itself."""
        self.is_watching = False

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self.is_watching or threading.get_ident() != self.thread:
            return
        path = arguments[0]
        if isinstance(path, str | os.PathLike) and self.covers(os.fspath(path)):
            self.last = os.fsdecode(path)

    def covers(self, path: str | bytes) -> bool:
        place = os.path.realpath(os.fsdecode(path))
        return place in self.files or place.startswith(self.folders)

    def file_of(self, error: BaseException) -> str | None:
        """The file that an error is about; None when nothing says it.

        It is the last one that was opened; unless a function that failed holds the path of
        another one, as when a thread of `map_in_order` read it.
        """
        for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
            held = [str(value) for value in frame.f_locals.values() if self._is_file(value)]
            if held:
                return self.last if self.last in held else held[0]
        return self.last

    def _is_file(self, value: Any) -> bool:
        if not isinstance(value, str | Path) or not 0 < len(str(value)) <= LONGEST_PATH:
            return False
        return "\0" not in str(value) and self.covers(str(value)) and os.path.isfile(value)


class OwnSamples:
    """The samples that `read` yields of each source, in its split when it names one.

    A text `y` names a class, a text `name` names the sample. `current` are those that this process packs
    at the moment: it tells `reading` of them.

    Args:
        read: such as `samples` of a data module's class; without a source it is given None.
    """

    current: ClassVar[Self | None] = None

    def __init__(
        self,
        read: Callable[[Path | None], Iterable[Any]],
        options: PackOptions,
        damaged: DamagedSamples,
    ) -> None:
        self.read = read
        self.options = options
        self.sources = options.sources
        self.damaged = damaged
        self.classes: Counter[str] = Counter()  # the texts of y, and how often
        self.number_of: dict[str, int] = {}  # of each, as they came
        self.opened = OpenedFiles(source.path for source in options.sources)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Raises DataFileError with the file, when `read` fails at one or yields something else."""
        OwnSamples.current = self
        try:
            for source in self.sources or [Source(Path())]:
                path = source.path if self.sources else None
                for sample in self.read(path):
                    self._check(sample)
                    given = {} if source.split is None else {"split": source.split}
                    yield {**self._with_numbers(sample), **given}
        except LabError:
            raise
        except Exception as error:
            file = self.opened.file_of(error)
            if file is None or debugging():
                raise
            advice = "Repair it, or remove it."
            if self.damaged.skip:
                advice = (
                    "A generator that failed is over, so --skip-damaged cannot go on behind it."
                )
            raise DataFileError(
                f"samples() failed at {shown_path(file)}:\n{describe(error)}\n{advice} So that "
                "--skip-damaged leaves such files out, read each in `with reading(path):`, which is "
                "in labrig.data. Its page: lab docs data"
            ) from error
        finally:
            self.opened.stop()
            OwnSamples.current = None

    def key_of(self, path: Path) -> str:
        """The path below its source, else all of it."""
        for source in self.sources:
            if path.is_relative_to(source.path):
                return path.relative_to(source.path).as_posix()
        return str(path)

    def _check(self, sample: Any) -> None:
        if not isinstance(sample, Mapping):
            raise DataFileError(
                f"samples() yielded {type(sample).__name__}{self.last_file()}, expected a dict of "
                'fields such as {"x": array, "y": number}.'
            )

    def _with_numbers(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The sample with a number for the name of its class, its key and its group."""
        numbers = dict(sample)
        label = sample.get(LABEL)
        if isinstance(label, str):
            self.classes[label] += 1
            numbers[LABEL] = np.int64(self.number_of.setdefault(label, len(self.number_of)))
        if isinstance(sample.get(SOURCE), str):
            numbers[SOURCE] = number_of_source(sample[SOURCE])
        if isinstance(sample.get("name"), str):
            numbers["key"] = numbers.pop("name")
        group = self.options.group
        if group and group in sample and "group" not in sample:
            numbers["group"] = sample[group]
            if isinstance(sample[group], str):
                del numbers[group]
        return numbers

    def with_class_names(
        self,
        fields: Mapping[str, Field],
        attrs: Mapping[str, Mapping[str, Any]],
        train: np.ndarray,
        directory: Path,
    ) -> tuple[dict[str, Field], dict[str, Mapping[str, Any]]]:
        """The fields with y in 0..C-1 in the order of the names, which are its attribute; see `RawSamples`."""
        if not self.classes:
            return {**fields}, {**attrs}
        n_named, n_samples = self.classes.total(), len(fields[LABEL])
        if n_named < n_samples:
            raise DataFileError(
                f"samples() yielded the name of a class as y in {n_named} of {n_samples} samples, and a "
                "number in the others. Give all a name, or all a number."
            )
        known = self.options.known
        chosen = self.options.spellings.choose("classes", self.classes, known.classes)
        names = [chosen.get(name, name) for name in self.classes]
        classes = known.and_new("y", known.classes, names)
        numbers = np.array([classes.index(name) for name in names])
        labels = numbers[np.asarray(fields[LABEL])]
        return {**fields, LABEL: labels}, {**attrs, **class_attrs(classes)}

    def last_file(self) -> str:
        """Such as " (the last file that was opened: raw/a.png)"."""
        last = self.opened.last
        return f" (the last file that was opened: {shown_path(last)})" if last else ""


def load_data_class(target: str) -> Any:
    """The class that `_target_` names."""
    module, _, name = target.rpartition(".")
    try:
        return resolve_name(f"{module}:{name}")
    except (ImportError, AttributeError) as error:
        raise LabError(
            f"_target_: {target} cannot be loaded: {error}. Write the name of a class of data.py."
        ) from error
