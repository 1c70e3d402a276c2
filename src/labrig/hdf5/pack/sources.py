"""What the sources of a packing look like, which split each belongs to, and names that are spellings of one name."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...machine.text_formats import and_more
from ...plugins import distinct_plugins
from ..file.errors import DataFileError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


SUFFIXES_OF_KIND = {
    "images": (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"),
    "audio": (".wav", ".flac", ".ogg", ".aiff"),
    "table": (".csv", ".tsv", ".parquet", ".pq"),
    "text": (".txt",),
    "arrays": (".npy", ".npz"),
    "hdf5": (".h5", ".hdf5", ".hdf"),
}
# what a source may be -> the function that reads it
READERS = {
    "images": "folders:read_images",
    "encoded": "folders:read_images",
    "pairs": "pairs:read_pairs",
    "audio": "audio:read_audio",
    "table": "tables:read_table",
    "text": "texts:read_text",
    "tokens": "texts:read_tokens",
    "series": "series:read_series",
    "arrays": "",  # packed as they are
    "hdf5": "",
}
FOLDER = Path(__file__).parent
# those that labrig reads, without the files that are not installed; packers of plug-ins add theirs
KINDS = tuple(
    kind
    for kind, place in READERS.items()
    if not place or (FOLDER / f"{place.partition(':')[0]}.py").exists()
)
SPLIT_AND_PATH = re.compile(r"([A-Za-z_]\w*)=(.+)")
N_LOOKED_AT = 1000  # files of a directory
MAX_SHOWN = 20
ONE_FOR_ALL = {"Cf": "", "Pd": "-"}  # in Unicode's categories of what is not seen, and of dashes


def reader_of(kind: str) -> Callable[..., Any]:
    """The function of the library that reads a kind of source, of those that are not packed as they are."""
    file, function = READERS[kind].split(":")
    return getattr(import_module(f"{__package__}.{file}"), function)


def packers() -> dict[str, EntryPoint]:
    """The packers of plug-ins by name."""
    return distinct_plugins("packers", KINDS)


@dataclass(frozen=True)
class Source:
    """A file or directory of raw data. With a `split`, all its samples belong to that one."""

    path: Path
    split: str | None = None


def parse_source(word: str) -> Source:
    """`train=raw/a.csv` as a source of the split train; any other path as it is."""
    match = SPLIT_AND_PATH.fullmatch(word)
    if match and not os.path.exists(word):
        return Source(Path(match[2]), match[1])
    return Source(Path(word))


def source_labels(sources: Sequence[Source]) -> list[str]:
    """What begins the keys of the samples of each source, such as "a/raw/"; "" of a single one.

    It is the end of its path, as long as it takes to tell all sources apart.
    """
    if len(sources) < 2:
        return [""] * len(sources)
    parts = [Path(os.path.abspath(source.path)).parts for source in sources]
    for path, source in zip(parts, sources, strict=True):
        if parts.count(path) > 1:
            raise DataFileError(f"{source.path} is named twice. Name each source once.")
    n = 1
    while len({path[-n:] for path in parts}) < len(parts):
        n += 1
    return ["/".join(path[-n:]) + "/" for path in parts]


def kind_of(path: Path) -> str | None:
    """The kind that most files of `path` are of, in a folder of tables series; None without a known suffix."""
    counts = Counter()
    for name in islice(_file_names(path), N_LOOKED_AT):
        suffix = Path(name).suffix.lower()
        counts.update(kind for kind, suffixes in SUFFIXES_OF_KIND.items() if suffix in suffixes)
    kind = counts.most_common(1)[0][0] if counts else None
    return "series" if kind == "table" and path.is_dir() else kind


def is_table(source: Source) -> bool:
    """Whether a source is the file of a table, by its name."""
    name = source.path.name.lower().removesuffix(".gz")
    return source.path.is_file() and name.endswith(SUFFIXES_OF_KIND["table"])


def hint(path: Path, kind: str) -> str:
    """The end of a message for a source that is not of `kind`: what it looks like instead."""
    likely = kind_of(path)
    if likely is None or likely == kind or (likely, kind) == ("images", "encoded"):
        return ""
    return f" {path} looks like {likely}: --as {likely}"


def _file_names(path: Path) -> Iterator[str]:
    if path.is_file():
        yield path.name
    for _, _, names in os.walk(path):
        yield from names


def common_form(name: str) -> str:
    """The same text for all spellings of a name: letters, blanks, dashes, Unicode and forms of a number."""
    letters = unicodedata.normalize("NFKC", name).casefold()
    text = "".join(ONE_FOR_ALL.get(unicodedata.category(letter), letter) for letter in letters)
    text = " ".join(text.split())
    if "_" in text or not any(letter.isdigit() for letter in text):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    is_whole = number.is_integer() and abs(number) < 2**53
    return f"{int(number)}" if is_whole else (text if number != number else repr(number))


@dataclass(frozen=True)
class Spellings:
    """What to do about names that differ in their spelling only."""

    join: bool = False
    as_written: bool = False

    def choose(
        self, what: str, names: Mapping[str, int], known: Iterable[str] = ()
    ) -> dict[str, str]:
        """The name that takes the place of each other spelling of it: a known one, else the most frequent.

        Args:
            what: they name, such as classes.
            names: as they are written, and how often.
            known: names that are there already.
        """
        if self.as_written:
            return {}
        known_names = set(known)
        spellings: dict[str, list[str]] = {}
        for name in [*names, *known_names.difference(names)]:
            spellings.setdefault(common_form(name), []).append(name)
        alike = [sorted(of_one) for of_one in spellings.values() if len(of_one) > 1]
        if alike and not self.join:
            pairs = (" and ".join(map(show, of_one)) for of_one in alike)
            shown = and_more(pairs, MAX_SHOWN, between="; ")
            raise DataFileError(
                f"{what} that differ in their spelling only: {shown}. If each of these is one: "
                "--join-names. If they are different: --names-as-written"
            )
        counts = Counter(names)
        chosen = {}
        for of_one in alike:
            name = max(of_one, key=lambda name: (name in known_names, counts[name]))
            chosen |= {other: name for other in of_one if other != name}
        return chosen


def show(name: str) -> str:
    """A name in which each letter can be told from others that look the same."""
    return ascii(name) if not name.isascii() or name != name.strip() else repr(name)
