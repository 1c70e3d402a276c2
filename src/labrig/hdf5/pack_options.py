"""The command line of `lab data pack`."""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError
from .images import Size
from .raw_sources import KINDS, Source, packers, parse_source
from .split import parse_shares

DESCRIPTION = """Packs raw data into one .h5 file in the first writable directory of paths.data, and
writes conf/data/NAME.yaml, unless it is there.

Without --as, the samples come from the class that conf/data/NAME.yaml names: its samples(source).
"""
# What each option needs. Without --as, samples() decides.
KINDS_OF_OPTION = {
    "size": ("images", "encoded"),
    "rate": ("audio",),
    "label": ("table",),
    "columns": ("table",),
    "drop_rows": ("table",),
    "fill": ("table",),
}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class PackOptions:
    """The command line of `lab data pack`."""

    name: str
    sources: list[Source]
    kind: str | None  # one of KINDS or packers(); None: the samples of the data module's class
    size: Size | None
    rate: int | None  # Hz
    label: str | None
    columns: list[str]
    drop_rows: bool
    fill: float | None
    shares: dict[str, float]
    split_file: Path | None
    group: str | None
    seed: int
    skip_damaged: bool
    directory: Path | None


def parse_options(args: list[str]) -> PackOptions:
    """The command line as an object.

    Raises:
        LabError: a name that is a path, --split is not a list of shares, an option of another kind
            of source, or a source that is not there.
    """
    values = vars(_parser().parse_args(args))
    values["sources"] = [parse_source(word) for word in values["sources"]]
    values["shares"] = parse_shares(values.pop("split"))
    values["size"] = tuple(values["size"]) if values["size"] else None
    options = PackOptions(**values)
    _check_name(options.name)
    _check_sources(options)
    _check_kind(options)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("lab data pack", description=DESCRIPTION)
    add = parser.add_argument
    add("name", help="a file of conf/data, without .yaml; with --as also a new name")
    add(
        "sources",
        nargs="*",
        metavar="source",
        help="raw data: a directory, or files; train=PATH val=PATH when they are split already",
    )
    add(
        "--as",
        dest="kind",
        choices=[*KINDS, *packers()],
        help="kind of the source; encoded: images as the bytes of their files",
    )
    add(
        "--size",
        nargs=2,
        type=int,
        metavar=("H", "W"),
        help="of images: scaled to cover it, then cropped; encoded: when they are read",
    )
    add("--rate", type=int, metavar="HZ", help="of audio: resampled to it")
    add("--label", help="column of a table that becomes y")
    add(
        "--columns",
        type=lambda text: text.split(","),
        default=[],
        help="columns of a table that become x, with commas (default: all others)",
    )
    add("--drop-rows", action="store_true", help="leave out the rows of a table that have gaps")
    add("--fill", type=float, metavar="NUMBER", help="put it into the gaps of a table's x")
    add("--split", default="train=0.8,val=0.1,test=0.1", help="shares (default: %(default)s)")
    add(
        "--split-file",
        type=Path,
        help="lines `sample,split`; sample: path below the source, or row number",
    )
    add(
        "--group",
        help="keeps a group in one split: column of a table, name of an array, "
        "or a regular expression that finds the group in each path",
    )
    add("--seed", type=int, default=0, help="of the random order and the splits (default: 0)")
    add("--skip-damaged", action="store_true", help="leave out what cannot be read, and record it")
    add(
        "--to",
        dest="directory",
        type=Path,
        help="directory of the file (default: the first writable one of paths.data)",
    )
    return parser


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise LabError(
            f"{name!r} cannot name a data set: use letters, digits, _ and - only, such as "
            "lab data pack cats. The directory of the file: --to DIRECTORY"
        )


def _check_sources(options: PackOptions) -> None:
    if options.kind and not options.sources:
        raise LabError(
            f"--as {options.kind} needs a source: lab data pack NAME SOURCE --as {options.kind}"
        )
    paths = [source.path for source in options.sources]
    if options.split_file:
        paths.append(options.split_file)
    for path in paths:
        if not path.exists():
            raise LabError(f"there is no {path}. Name the directory or files of the raw data.")
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
    if min(options.size or (1,)) < 1 or (options.rate is not None and options.rate < 1):
        raise LabError("--size and --rate are not above 0; write such as --size 64 64.")
    for name, kinds in KINDS_OF_OPTION.items():
        value = getattr(options, name)
        if value in (None, False, []) or options.kind in kinds:
            continue
        raise LabError(
            f"--{name.replace('_', '-')} goes with --as {' or --as '.join(kinds)}, "
            f"found {'--as ' + options.kind if options.kind else 'no --as'}. Leave one of them out."
        )
