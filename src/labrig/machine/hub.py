"""Files of models from the Hugging Face hub: read from this machine's cache, fetched by `lab prefetch`.

As a program, `python -m labrig.machine.hub hf:ORG/MODEL` fetches the weights of a model.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError, require_package

INDEX = ".safetensors.index.json"  # how its name ends
MAX_INDEX_BYTES = 100_000_000
SCHEME = "hf:"
REFERENCE = re.compile(r"hf:(?P<repo>[^@:]+/[^@:]+)(?:@(?P<revision>[^:]+))?(?::(?P<file>.+))?")
# Of weights, the first that is there; an index stands for several files.
NAMES = ("model.safetensors", f"model{INDEX}", "pytorch_model.bin", "adapter_model.safetensors")
PACKAGES = "safetensors huggingface-hub"


@dataclass(frozen=True)
class HubFile:
    """A file of a model: `hf:REPO@REVISION:FILE`."""

    repo: str  # ORG/MODEL
    revision: str  # a branch, a tag or a commit
    file: str | None  # None: the first of NAMES

    @classmethod
    def parse(cls, reference: str) -> HubFile:
        """Reads `hf:ORG/MODEL[@REVISION][:FILE]`.

        Raises:
            LabError: it is not of this form.
        """
        match = REFERENCE.fullmatch(reference)
        if match is None:
            raise LabError(
                f"{reference!r} names no model; expected hf:ORG/MODEL, hf:ORG/MODEL@REVISION "
                "or hf:ORG/MODEL@REVISION:FILE"
            )
        return cls(match["repo"], match["revision"] or "main", match["file"])

    @property
    def names(self) -> tuple[str, ...]:
        """The files that may be meant, the first wins."""
        return (self.file,) if self.file else NAMES

    def __str__(self) -> str:
        file = f":{self.file}" if self.file else ""
        return f"{SCHEME}{self.repo}@{self.revision}{file}"


def find_cached(wanted: HubFile) -> tuple[HubFile, Path]:
    """The file with the commit of its revision, and where it lies. It never asks the network."""
    require_package("huggingface_hub", "a model of the hub", PACKAGES)
    from huggingface_hub import try_to_load_from_cache  # an optional package

    for name in wanted.names:
        path = try_to_load_from_cache(wanted.repo, name, revision=wanted.revision)
        if isinstance(path, str):
            commit = commit_in(Path(path), name)
            shards = shards_of(Path(path)) if name.endswith(INDEX) else []
            if all(shard.exists() for shard in shards):
                return HubFile(wanted.repo, commit, name), Path(path)
    raise LabError(
        f"{wanted} is not whole in this machine's cache: none of {', '.join(wanted.names)}, with all files of "
        f"an index. Fetch it where there is a network: lab prefetch trial=NAME init_from={wanted}"
    )


def commit_in(path: Path, name: str) -> str:
    """The commit in a path of the cache: .../snapshots/<commit>/<name>."""
    return path.parts[-1 - len(Path(name).parts)]


def fetch(wanted: HubFile) -> Path:
    """Downloads the file into the cache; of an index the files that it names, too.

    Raises:
        LabError: there is no such model, revision or file, or no network.
    """
    require_package("huggingface_hub", "a model of the hub", PACKAGES)
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    for name in wanted.names:
        try:
            path = Path(hf_hub_download(wanted.repo, name, revision=wanted.revision))
            for shard in shards_of(path) if name.endswith(INDEX) else []:
                sibling = str(Path(name).with_name(shard.name))
                hf_hub_download(wanted.repo, sibling, revision=commit_in(path, name))
            return path
        except (HfHubHTTPError, EntryNotFoundError, LocalEntryNotFoundError, OSError) as error:
            # A missing file may have another name; a network that is cut is an error of this kind too.
            is_missing = isinstance(error, EntryNotFoundError)
            if not is_missing or isinstance(error, LocalEntryNotFoundError):
                reason = str(error).strip().splitlines()[0]
                raise LabError(
                    f"{wanted} cannot be fetched: {reason}. "
                    "Is its name right, is there a network, is HF_TOKEN set?"
                ) from error
    raise LabError(
        f"{wanted.repo} has none of {', '.join(wanted.names)} at {wanted.revision}. Name the file: "
        f"init_from={SCHEME}{wanted.repo}@{wanted.revision}:FILE"
    )


def shards_of(index: Path) -> list[Path]:
    """The .safetensors files that an index names, sorted."""
    try:
        if index.stat().st_size > MAX_INDEX_BYTES:
            raise ValueError(f"it has more than {MAX_INDEX_BYTES:,} bytes")
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if not names or not all(is_plain(name) for name in names):
            raise ValueError("its weight_map must name .safetensors files next to it")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LabError(
            f"init_from: {index} is no index of .safetensors files: {error}. Copy it again"
        ) from error
    return [index.parent / name for name in sorted(names)]


def is_plain(name: object) -> bool:
    """Whether it names a .safetensors file in the same directory."""
    return isinstance(name, str) and Path(name).name == name and name.endswith(".safetensors")


if __name__ == "__main__":
    try:
        print(fetch(HubFile.parse(sys.argv[1])))
    except LabError as error:
        sys.exit(f"lab: {error}")
