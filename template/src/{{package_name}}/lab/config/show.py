# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab config`: prints the composed configuration."""

from __future__ import annotations

from omegaconf import OmegaConf

from ..project import Project
from .check import dotted_keys
from .compose import compose
from .overrides import SettingsParser


def config_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser(
        "lab config", "Prints the composed configuration of trial=NAME and settings."
    )
    parser.add_argument(
        "--origin", action="store_true", help="a line per key, with the file that set it"
    )
    chosen = parser.read(args)
    composition = compose(project, chosen.overrides)
    if not chosen.origin:
        print(composition.yaml, end="")
        return 0
    written = OmegaConf.create(composition.yaml)
    for key in dotted_keys(OmegaConf.to_container(written, resolve=False)):
        value = OmegaConf.select(written, key, throw_on_resolution_failure=False)
        if not OmegaConf.is_dict(value):
            print(f"{key}={value}  # {composition.origin.get(key, 'set by lab')}")
    return 0
