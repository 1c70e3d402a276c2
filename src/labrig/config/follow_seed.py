"""The seeds of a configuration follow `seed`, unless they are set on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .check_target import is_target, known_signature
from .targets import definition_of, signature_of

FOLLOWS = "${seed}"
DATA_CLASS = "H5DataModule"  # whose order and augmentation the library seeds


def with_seed_of_data(values: dict[str, Any]) -> dict[str, Any]:
    """A copy in which `data.seed` follows `seed`, where a class of data files leaves it open.

    Of any other class the seed may decide something else, such as the splits: it stays as it is.

    Args:
        values: a composed configuration, with absolute targets.
    """
    data = values["data"]
    if not is_target(data) or "seed" in data or "${" in data["_target_"]:
        return values
    known_signature(data["_target_"], "data")  # it exists
    if not is_data_of_the_library(data["_target_"]):
        return values
    return values | {"data": data | {"seed": FOLLOWS}}


def is_data_of_the_library(target: str) -> bool:
    """Whether a class is H5DataModule, or names it as its base, and takes a seed."""
    definition = definition_of(target)
    if definition is None or DATA_CLASS not in (definition.node.name, *definition.bases):
        return False
    signature = signature_of(target)
    return signature.takes_any or "seed" in signature.names


def seeds_that_stay(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The keys such as data.seed, with their values, that are equal in spite of another `seed`.

    Args:
        one, other: two compositions as dotted keys with values, which differ in `seed`.
    """
    return {
        key: value
        for key, value in one.items()
        if key.endswith(".seed") and value is not None and other.get(key) == value
    }
