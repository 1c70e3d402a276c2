"""`lab config`: prints the composed configuration."""

from __future__ import annotations

import os
from typing import cast

from omegaconf import DictConfig, OmegaConf

from ..project import CONF, Project
from .check import dotted_keys
from .compose import Composition, compose
from .editor_schema import NAME, write_schema
from .overrides import SettingsParser
from .resolve import plain_values

ADDED = ("debug",)  # groups that no defaults list names: +debug=limit


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
    parser.add_argument(
        "--all",
        action="store_true",
        help="every setting of labrig with its default and comment, and the options of its groups",
    )
    parser.add_argument(
        "--schema",
        action="store_true",
        help=f"write conf/{NAME}, by which an editor completes settings and underlines misspelt ones",
    )
    options = parser.read(args)
    if options.schema:
        print(os.path.relpath(write_schema(project)))
        return 0
    if options.all:
        print(all_settings(), end="")
        return 0
    composition = compose(project, options.overrides)
    if options.defaults:
        print("\n".join(composition.defaults_tree))
    elif options.origin:
        print("\n".join(origin_lines(composition)))
    else:
        print(composition.yaml, end="")
    return 0


def all_settings() -> str:
    """The text of lab.yaml, then that of each option of a group, below the setting that chooses it."""
    parts = [(CONF / "lab.yaml").read_text(encoding="utf-8")]
    for path in sorted(CONF.glob("*/*.yaml")):
        group = path.parent.name
        if group == "site":  # lab site show prints these
            continue
        sign = "+" if group in ADDED else ""
        title = f"# ---- {sign}{group}={path.stem}"
        parts.append(f"{title}\n{path.read_text(encoding='utf-8')}")
    return "\n".join(parts)


def origin_lines(composition: Composition) -> list[str]:
    """`key=value  # file` for each key that is no section; values as the record shows them."""
    config = cast("DictConfig", OmegaConf.create(composition.yaml))
    lines = []
    for key in dotted_keys(plain_values(config)):
        value = OmegaConf.select(config, key, throw_on_resolution_failure=False)
        if not OmegaConf.is_dict(value):
            lines.append(f"{key}={value}  # {composition.origin.get(key, 'set by lab')}")
    return lines
