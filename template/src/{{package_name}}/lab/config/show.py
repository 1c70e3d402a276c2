# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""`lab config`: prints the composed configuration."""

from __future__ import annotations

from typing import cast

from omegaconf import DictConfig, OmegaConf

from ..project import Project
from .check import dotted_keys
from .compose import Composition, compose
from .overrides import SettingsParser
from .resolve import plain_values


def config_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab config", "Prints the composed configuration of trial=NAME and settings."
    )
    parser.add_argument(
        "--origin", action="store_true", help="a line per key, with the file that set it"
    )
    parser.add_argument(
        "--defaults",
        action="store_true",
        help="the final defaults list as a tree: which file chose which, in the order of merging",
    )
    options = parser.read(args)
    composition = compose(project, options.overrides)
    if options.defaults:
        print("\n".join(composition.defaults_tree))
    elif options.origin:
        print("\n".join(origin_lines(composition)))
    else:
        print(composition.yaml, end="")
    return 0


def origin_lines(composition: Composition) -> list[str]:
    """`key=value  # file` for each key that is no section; values as the record shows them."""
    config = cast("DictConfig", OmegaConf.create(composition.yaml))
    lines = []
    for key in dotted_keys(plain_values(config)):
        value = OmegaConf.select(config, key, throw_on_resolution_failure=False)
        if not OmegaConf.is_dict(value):
            lines.append(f"{key}={value}  # {composition.origin.get(key, 'set by lab')}")
    return lines
