"""The command line of `lab data pack`."""

import argparse
import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...command_parser import CommandParser
from ...errors import LabError, nearest, require_package
from ...machine.text_formats import and_more
from ..file.errors import DataFileError
from ..file.groups import KnownGroups
from ..file.images import Colour, Size
from ..file.layout import Layout
from ..file.names import check_is_text, check_usual_name
from ..file.tokens import Tokenizer
from .sources import KINDS, Source, Spellings, packers, parse_source
from .split import parse_shares

DESCRIPTION = """Packs raw data into one .h5 file in the first writable directory of paths.data, and
writes conf/data/NAME.yaml, unless it is there.

Without --as, the samples come from the class that conf/data/NAME.yaml names: its samples(source).
A data set that has no such file yet: --as CLASS, the name of a class in data.py.
"""
DESCRIPTION_OF_APPEND = """Packs raw data into one more file of a data set, whose other files stay as
they are. How the raw data are read is as in its first file, unless options say otherwise.
"""
HELP = {
    "name": "a file of conf/data, without .yaml; with --as also a new name",
    "sources": "raw data: a directory, or files; train=PATH val=PATH when they are split already",
    "--as": "what the source holds: KINDS; or the name of a class in data.py, of which samples() are "
    "packed. encoded: images as the bytes of their files; pairs: images and masks; text: each file or row "
    "is a sample; tokens: one long sequence; series: tables of which each row is a step in time",
    "--size": "of images and pairs: scaled to cover it, then cropped; encoded: when they are read",
    "--background": "of images: seen where they are transparent; such as white or '#808080'",
    "--rate": "of audio: resampled to it",
    "--float32": "of audio: store all recordings so, whatever their types",
    "--tokenizer": "of text and tokens: bytes (default), characters, words, or a tokenizer of Hugging "
    "Face: its file, or its name in the local cache",
    "--n-tokens": "of characters and words: the most frequent ones of the training split",
    "--series": "column that names the series of a row (default: each table is one)",
    "--time": "column of the times, of which each step is a row or a gap (default: each row is a step)",
    "--split-by-time": "times at which val and test begin: 2024-01-01,2024-07-01; with --group only series "
    "of the same split lie in each",
    "--gap": "steps that are left out before each of these times",
    "--label": "column of a table that becomes y",
    "--columns": "columns of a table that become x, or of series the fields: a,b or '\"a,b\",c' (default: all "
    "others); of --as text the one that holds the texts",
    "--drop-rows": "leave out the rows of a table that have gaps",
    "--fill": "put it into the gaps of a table's x",
    "--each-number": "of a list of numbers is a sample of its own",
    "--texts": "columns of a table whose texts are categories, such as 007, whatever they look like",
    "--times": "of a table: dates and times are seconds since 1970",
    "--missing": "what a table has where there is no value (default: empty, NA, NaN, None, null, …)",
    "--separator": "of a table: such as ';', tab (default: a comma)",
    "--decimal": "of a table: such as , in 0,5",
    "--thousands": "of a table: such as , in 1,000",
    "--encoding": "of a table or texts: such as latin-1 (default: %(default)s)",
    "--split": "shares (default: %(default)s)",
    "--split-file": "lines `sample,split`; sample: path below the source, or row number, from 0",
    "--group": "keeps a group in one split: column of a table or of series, name of an array, or a regular expression "
    "that finds the group in each path",
    "--join-names": "classes and groups whose names differ in capitals, blanks or the form of a number "
    "only are one",
    "--names-as-written": "they are as many as there are spellings",
    "--seed": "of the random order and the splits (default: 0)",
    "--made-by": "program that made the raw data, to be kept in the file; those that lie in the source "
    "are found",
    "--skip-damaged": "leave out what cannot be read, and record it",
    "--to": "directory of the file (default: the first writable one of paths.data)",
    "--names": "write NAME.names.csv next to the file: row, split and source of each sample. It has the "
    "names of the sources, which the file has not",
    "--classes-of": "give classes, texts and columns the numbers that they have in the data set NAME, so "
    "that its models can be evaluated on this one",
}
# What belongs to the sources of a command line, with the value that it has without it.
OF_SOURCES = {"sources": [], "split_file": None, "programs": [], "directory": None}
# What options need. Without --as, samples() decides.
KINDS_OF_OPTIONS = {
    ("images", "encoded", "pairs"): ("size", "background"),
    ("audio",): ("rate", "float32"),
    ("text", "tokens"): ("tokenizer", "n_tokens"),
    ("series",): ("series", "time", "split_by_time", "gap"),
    ("table", "text", "series"): ("columns",),
    ("table", "text"): ("label", "drop_rows"),
    ("table", "pairs", "text", "series"): ("separator",),
    ("table", "series"): ("times", "thousands"),
    ("table",): ("fill", "texts"),
    ("arrays", "hdf5"): ("each_number",),
}
# How programs write that there is no value
GAPS = ("", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
MAX_NEW = 10  # names, shown
CLASS = re.compile(r"(\w+\.)*[A-Z]\w*")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class KnownNames:
    """What numbers mean already, in the files to which one is added."""

    classes: Sequence[str] = ()  # of the numbers 0, 1, 2 … of y
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of columns of a table
    ragged: Sequence[str] = ()  # fields that vary in length
    groups: KnownGroups = field(default_factory=KnownGroups)
    tokenizer: Tokenizer | None = None
    only_of: str | None = None  # a data set whose names are all that there may be

    def and_new(self, what: str, known: Sequence[str], names: Iterable[str]) -> list[str]:
        """The known names, then the new ones in their order; those are refused with --classes-of."""
        new = sorted(set(names).difference(known))
        if new and self.only_of:
            raise DataFileError(
                f"{what}: {self.only_of} has no {and_more(map(repr, new), MAX_NEW)}, so its models have no number for "
                f"them. It has: {and_more(known, MAX_NEW) or 'no names'}. Rename them, leave these samples out, or "
                "leave out --classes-of."
            )
        return [*known, *new]


def known_names(layout: Layout) -> tuple[KnownNames, list[str]]:
    """What numbers mean in a data set, and the columns of its x; groups are not among them."""
    x, label = layout.fields.get("x"), layout.fields.get("y")
    known = KnownNames(
        classes=json.loads(label.attrs.get("classes", "[]")) if label else [],
        categories=json.loads(x.attrs.get("categories", "{}")) if x else {},
        ragged=[name for name in layout.fields if layout.is_ragged(name)],
        tokenizer=Tokenizer.of(x.attrs) if x else None,
    )
    return known, json.loads(x.attrs.get("columns", "[]")) if x else []


@dataclass(frozen=True)
class PackOptions:
    """The command line of `lab data pack`."""

    name: str
    sources: list[Source]
    # one of KINDS or packers(), or the name of a class; None: the class that conf/data names
    kind: str | None
    size: Size | None
    background: Colour | None  # what is seen through transparent pixels
    rate: int | None  # Hz
    float32: bool  # recordings of all types become it
    tokenizer: str | None
    n_tokens: int | None  # of a vocabulary, at most
    series: str | None  # columns
    time: str | None
    split_by_time: list[str]
    gap: int  # steps
    label: str | None
    columns: list[str]
    drop_rows: bool
    fill: float | None
    each_number: bool  # of a list of numbers is a sample
    texts: list[str]  # columns whose texts are categories, whatever they look like
    times: bool  # dates and times become seconds
    missing: list[str]  # texts that say that there is no value
    separator: str | None  # of values in a line
    decimal: str
    thousands: str | None
    encoding: str
    shares: dict[str, float]
    split_file: Path | None
    group: str | None
    seed: int
    skip_damaged: bool
    names: bool  # whether to write which source each row is from
    programs: list[Path]
    directory: Path | None
    spellings: Spellings
    classes_of: str | None  # a data set whose classes, categories and columns are taken
    known: KnownNames = KnownNames()

    @property
    def class_name(self) -> str | None:
        """The class whose samples() are packed, when --as names one."""
        return self.kind if self.kind and CLASS.fullmatch(self.kind) else None


def parse_options(args: list[str], earlier: list[str] | None = None) -> PackOptions:
    """The command line as an object.

    Args:
        earlier: another one, whose options hold where `args` has none; its sources do not, nor what
            belongs to them.
    """
    parser = _parser("append" if earlier is not None else "pack")
    before = None
    if earlier:
        before = parser.parse_args([word for word in earlier if word != "--names"])
        for name, value in OF_SOURCES.items():
            setattr(before, name, value)
    values = vars(parser.parse_args(args, before))
    values["sources"] = [parse_source(word) for word in values["sources"]]
    values["shares"] = parse_shares(values.pop("split"))
    values["size"] = tuple(values["size"]) if values["size"] else None
    values["spellings"] = Spellings(values.pop("join_names"), values.pop("names_as_written"))
    options = PackOptions(**values)
    _check_name(options.name)
    _check_sources(options)
    _check_kind(options)
    return options


def name_to_append_to(args: list[str]) -> str:
    """The data set that `lab data append` names."""
    return _parser("append").parse_args(args).name


def _parser(command: str) -> argparse.ArgumentParser:
    description = DESCRIPTION if command == "pack" else DESCRIPTION_OF_APPEND
    parser = CommandParser(f"lab data {command}", description=description)
    kinds = ", ".join([*KINDS, *packers()])

    def add(name: str, to: Any = parser, **how: Any) -> None:
        to.add_argument(name, help=HELP[name].replace("KINDS", kinds), **how)

    add("name")
    add("sources", nargs="*", metavar="source")
    add("--as", dest="kind", type=_kind, metavar="KIND")
    add("--size", nargs=2, type=int, metavar=("H", "W"))
    add("--background", type=_colour, metavar="COLOUR")
    add("--rate", type=int, metavar="HZ")
    add("--float32", action="store_true")
    add("--tokenizer", metavar="NAME")
    add("--n-tokens", type=int, metavar="N")
    add("--series", metavar="COLUMN")
    add("--time", metavar="COLUMN")
    add("--split-by-time", type=_words, default=[], metavar="TIME,TIME")
    add("--gap", type=int, default=0, metavar="N")
    add("--label")
    add("--columns", type=_words, default=[])
    add("--drop-rows", action="store_true")
    add("--fill", type=float, metavar="NUMBER")
    add("--each-number", action="store_true")
    add("--texts", type=_words, default=[])
    add("--times", action="store_true")
    add("--missing", type=_words, default=[*GAPS], metavar="WORD,WORD")
    add("--separator", metavar="LETTER")
    add("--decimal", default=".", metavar="LETTER")
    add("--thousands", metavar="LETTER")
    add("--encoding", default="utf8")
    add("--split", default="train=0.8,val=0.1,test=0.1")
    add("--split-file", type=Path)
    add("--group")
    spellings = parser.add_mutually_exclusive_group()
    add("--join-names", spellings, action="store_true")
    add("--names-as-written", spellings, action="store_true")
    add("--seed", type=int, default=0)
    add("--made-by", dest="programs", action="append", type=Path, default=[], metavar="PROGRAM")
    add("--skip-damaged", action="store_true")
    add("--to", dest="directory", type=Path)
    if command == "append":
        parser.set_defaults(names=False, classes_of=None)
        return parser
    add("--names", action="store_true")
    add("--classes-of", metavar="NAME")
    return parser


def _words(text: str) -> list[str]:
    return next(csv.reader([text])) or [""]


def _colour(word: str) -> Colour:
    require_package("PIL", "reading images", "pillow")
    from PIL import ImageColor

    try:
        red, green, blue, *_ = ImageColor.getrgb(word)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"found {word!r}, expected a colour such as white or '#808080'"
        ) from None
    return red, green, blue


def _kind(word: str) -> str:
    kinds = [*KINDS, *packers()]
    if word not in kinds and not CLASS.fullmatch(word):
        raise argparse.ArgumentTypeError(
            f"found {word!r}{nearest(word, kinds)}. Expected {', '.join(kinds)}, or the name of a "
            "class in data.py, such as Spectra"
        )
    return word


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise LabError(
            f"{name!r} cannot name a data set: use letters, digits, _ and - only, such as "
            "lab data pack cats. The directory of the file: --to DIRECTORY"
        )
    check_is_text("lab data pack", name, "data")


def _check_sources(options: PackOptions) -> None:
    paths = [source.path for source in options.sources] + options.programs
    if options.split_file:
        paths.append(options.split_file)
    for path in paths:
        if not path.exists():
            raise LabError(f"there is no {path}. Name the directory or files of the raw data.")
    for source in options.sources:
        if source.split:
            check_usual_name(f"{source.split}={source.path}", source.split)
    n_with_split = sum(source.split is not None for source in options.sources)
    if n_with_split not in (0, len(options.sources)):
        raise LabError(
            "some sources are SPLIT=PATH, others are not. Write all of them so, or none."
        )
    if n_with_split and (options.split_file or options.group):
        raise LabError(
            "sources as SPLIT=PATH are split already: leave out --split-file and --group."
        )


def _check_kind(options: PackOptions) -> None:
    letters = [options.decimal, *([options.thousands] if options.thousands else [])]
    if options.decimal == options.thousands or any(len(letter) != 1 for letter in letters):
        raise LabError("--decimal and --thousands are two letters; write such as --decimal , ")
    if options.gap and (options.gap < 0 or not options.split_by_time):
        raise LabError("--gap N is a number of steps, and goes with --split-by-time.")
    is_split = options.split_file or any(source.split for source in options.sources)
    if options.split_by_time and is_split:
        raise LabError(
            "--split-by-time says which split each step is in: leave out --split-file and SPLIT=PATH."
        )
    if min(options.size or (1,)) < 1 or (options.rate is not None and options.rate < 1):
        raise LabError("--size and --rate are not above 0; write such as --size 64 64.")
    if options.names and options.kind in ("arrays", "hdf5"):
        raise LabError(
            f"--names needs a name for each sample, which {options.kind} have not. Leave it out."
        )
    for kinds, names in KINDS_OF_OPTIONS.items():
        given = [name for name in names if getattr(options, name) not in (None, False, [])]
        if given and options.kind not in kinds:
            found = f"--as {options.kind}" if options.kind else "no --as"
            raise LabError(
                f"--{given[0].replace('_', '-')} goes with --as {' or --as '.join(kinds)}, "
                f"found {found}. Leave one of them out."
            )
