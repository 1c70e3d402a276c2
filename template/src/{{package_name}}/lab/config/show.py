# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab config`: what a run would be made of."""

from __future__ import annotations

from omegaconf import OmegaConf

from ..project import Project
from .compose import compose
from .legal import dotted
from .overrides import SettingsParser


def config_command(project: Project, args: list[str]) -> int:
    parser = SettingsParser("lab config", "Prints the composed configuration of trial=NAME and settings.")
    parser.add_argument("--origin", action="store_true", help="a line per key, with the file that set it")
    chosen = parser.read(args)
    composition = compose(project, chosen.overrides)
    if not chosen.origin:
        print(composition.yaml, end="")
        return 0
    shown = OmegaConf.create(composition.yaml)
    plain = OmegaConf.to_container(shown, resolve=False)
    for key in dotted(plain):
        value = OmegaConf.select(shown, key, throw_on_resolution_failure=False)
        if isinstance(plain, dict) and not OmegaConf.is_dict(value):
            print(f"{key}={value}  # {composition.origin.get(key, 'set by lab')}")
    return 0
