"""The files of a composition in order: what each sets, where it lies, and which chose it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.default_element import DefaultsTreeNode, GroupDefault, InputDefault, ResultDefault
from omegaconf import OmegaConf

from ..errors import LabError
from ..project import CONF, Project, shown_path
from .hydra_loader import read_config, trial_file
from .overrides import COUNTS, name_without_effect


@dataclass(frozen=True)
class ConfigFile:
    """An element of the final defaults list.

    Attributes:
        name: as Hydra names it, such as optimizer/sgd.
        package: the section it sets, "" for the root.
        path: the file.
        values: what it sets, from the root.
    """

    name: str
    package: str
    path: str
    values: dict[str, Any]

    @property
    def of_lab(self) -> bool:
        return self.path.startswith(f"{CONF}/")

    @property
    def of_trial(self) -> bool:
        return self.name.startswith("trial/")


def config_files(
    loader: ConfigLoader, defaults: list[ResultDefault], project: Project
) -> list[ConfigFile]:
    """The files of a final defaults list, without Hydra's own; says which keys have no effect."""
    files = []
    for element in defaults:
        name = str(element.config_path)
        result: Any = read_config(loader, name)
        path = config_path(loader, name, project)
        if name.startswith("hydra/"):
            if Path(path).is_relative_to(project.source):
                name_without_effect([shown_path(path, project)])
            continue
        values: Any = OmegaConf.to_container(result.config, resolve=False)
        if not isinstance(values, dict):
            raise LabError(f"{path} must hold `key: value` lines, but it holds a list.")
        values.pop("defaults", None)  # a structured config keeps its list
        if element.package:
            for part in reversed(element.package.split(".")):
                values = {part: values}
        else:
            of_hydra = _leaves({"hydra": values.pop("hydra", None) or {}})
            without_effect = (key for key in of_hydra if key not in ("hydra", COUNTS))
            name_without_effect(without_effect, f" in {shown_path(path, project)}")
        files.append(ConfigFile(name, element.package or "", path, values))
    return files


def config_path(loader: ConfigLoader, name: str, project: Project) -> str:
    """The file of a config; for one of the ConfigStore, the provider it was stored with."""
    if name.startswith("trial/"):
        return str(trial_file(project, name.removeprefix("trial/")))
    result = read_config(loader, name)
    if result is None:
        return name
    if result.path.startswith("file://"):
        path = Path(result.path.removeprefix("file://"), name)
        return str(path.with_name(f"{path.name}.yaml").resolve())
    return result.provider


def origin_of_keys(files: list[ConfigFile], project: Project) -> dict[str, str]:
    """The file that set each key that is no section, by dotted key."""
    origin = {}
    for file in files:
        for key in _leaves(file.values):
            origin[key] = shown_path(file.path, project)
    return origin


def _leaves(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def tree_lines(
    loader: ConfigLoader,
    node: DefaultsTreeNode | InputDefault,
    project: Project,
    depth: int = 0,
) -> list[str]:
    """The final defaults list as a tree: a line per element, indented below the file that names it."""
    element = node.node if isinstance(node, DefaultsTreeNode) else node
    children = node.children or [] if isinstance(node, DefaultsTreeNode) else []
    if element.is_virtual():  # Hydra's root, with its own configuration first
        return tree_lines(loader, children[-1], project)
    indent = "  " * depth
    if element.is_self():
        return [f"{indent}_self_"]
    name = element.get_config_path()
    text = name
    if isinstance(element, GroupDefault):
        text = f"{element.get_override_key()}: {element.get_name() or 'null'}"
    lines = [f"{indent}{text}"]
    if element.get_name() is not None and not element.is_deleted():
        lines = [f"{indent}{text}  # {shown_path(config_path(loader, name, project), project)}"]
    for child in children:
        lines += tree_lines(loader, child, project, depth + 1)
    return lines
