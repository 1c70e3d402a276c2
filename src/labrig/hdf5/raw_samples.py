"""What the readers of raw data share: their result, damaged samples, changed files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .file_errors import DataFileError
from .version_cache import version_key


@dataclass(frozen=True)
class RawSamples:
    """Samples of a source (see `H5DataModule.samples`), and the attributes of their fields."""

    samples: Iterator[dict[str, Any]]
    field_attrs: dict[str, dict[str, Any]] = field(default_factory=dict)


class DamagedSamples:
    """A sample that cannot be read ends the packing, or is left out when `skip` is set."""

    def __init__(self, skip: bool = False) -> None:
        self.skip = skip
        self.skipped_keys: list[str] = []

    @contextmanager
    def handle(self, path: Path, key: str) -> Iterator[None]:
        """Around the reading of the sample `key` from a file.

        Raises:
            DataFileError: it cannot be read, and is not to be skipped.
        """
        try:
            yield
        except Exception as error:  # whatever a decoder raises for a damaged file
            if not self.skip:
                raise DataFileError(
                    f"{path} cannot be read: {error}. Repair it, or use --skip-damaged."
                ) from error
            self.skipped_keys.append(key)


class UnchangedFiles:
    """Notices when one of `files` changes after this object was made."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.versions = self._read_versions()

    def check(self) -> None:
        """Raises DataFileError when one of the files has changed."""
        if self._read_versions() != self.versions:
            listed = ", ".join(map(str, self.files))
            raise DataFileError(
                f"{listed} changed while it was packed. Pack again when nothing writes to it."
            )

    def _read_versions(self) -> list[str]:
        return [version_key(file) for file in self.files]


def require_package(module: str, extra: str, work: str) -> None:
    """Raises DataFileError, with the command to type, when an optional package is missing.

    Args:
        extra: of labrig, which brings it.
    """
    if find_spec(module) is None:
        raise DataFileError(
            f"{work} needs packages that are not installed: make add PACKAGE='labrig[{extra}]'"
        )
