"""Whether torch may read the list of tensors of a checkpoint that is a directory. It is a pickle."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

from .checkpoint_files import METADATA

# What torch names in it: anything else could run as code.
NAMED_IN_METADATA = re.compile(
    r"pathlib(\._local)?\.PosixPath|torch\.Size|torch\.serialization\._get_layout"
    r"|torch\.(bool|(b?float|complex|u?int)\d+(_\w+)?)"
    r"|torch\.distributed\.checkpoint\.filesystem\._StorageInfo"
    r"|torch\.distributed\.checkpoint\.metadata\.(_MEM_FORMAT_ENCODING|MetadataIndex|StorageMeta"
    r"|TensorProperties|((Bytes|Chunk|Tensor)Storage)?Metadata)"
)


def metadata_problem(directory: Path) -> str | None:
    """Why torch must not read the METADATA of a directory; None when it may."""
    try:
        with open(directory / METADATA, "rb") as file:
            StandIns(file).load()
    except FileNotFoundError:
        return f"it has no {METADATA}"
    except pickle.UnpicklingError as error:
        return f"{METADATA} {error}"
    except Exception as error:  # bytes that are no pickle raise anything
        return f"{METADATA} cannot be read ({type(error).__name__})"
    return None


class StandIns(pickle.Unpickler):
    """Reads METADATA without torch, into objects without content."""

    def find_class(self, module: str, name: str) -> Any:
        if NAMED_IN_METADATA.fullmatch(f"{module}.{name}"):
            return StandIn
        raise pickle.UnpicklingError(f"names {module}.{name}, which is no part of a checkpoint")


class StandIn:
    def __init__(self, *_: Any, **__: Any) -> None:
        """Takes whatever there is."""

    __setstate__ = __init__
