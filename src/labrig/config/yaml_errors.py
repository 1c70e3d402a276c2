"""A file that is not valid YAML, as an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from ..errors import LabError
from ..project import mark_of_mistake


@contextmanager
def yaml_errors(path: Path | None = None) -> Iterator[None]:
    """A file that is not valid YAML as a LabError with file, line and column."""
    try:
        yield
    except (yaml.YAMLError, UnicodeDecodeError, PermissionError) as error:
        mark = mark_of_mistake(error)
        place = f"{mark.name}, line {mark.line + 1}, column {mark.column + 1}" if mark else path
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise LabError(f"{place or 'a file'}: not valid YAML ({reason}). Fix that line.") from error
