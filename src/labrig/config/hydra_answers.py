"""What Hydra answers, by the files of the project: those that it composed, in order, and what it refuses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.default_element import DefaultsTreeNode, GroupDefault, InputDefault, ResultDefault
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import LabError, nearest
from ..project import CONF, Project, shown_path
from .hydra_loader import read_config, trial_file, yaml_errors
from .overrides import COUNTS, INSTEAD, name_without_effect

IN_CONFIG = re.compile(r"^In '?([\w/.-]+?)'?: ")
NOT_IN_DEFAULTS = re.compile(r"Could not override '([^'@]+)")


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


@contextmanager
def hydra_errors(loader: ConfigLoader, project: Project) -> Iterator[None]:
    """Hydra's errors as LabErrors."""

    def shown_file(name: str) -> str:
        return shown_path(config_path(loader, name, project), project)

    try:
        with yaml_errors():
            yield
    except MissingConfigException as error:
        raise LabError(_missing_option(loader, error, shown_file, project)) from error
    except RecursionError as error:
        raise LabError(
            "the `defaults` of some files name each other in a circle. Take one of them out."
        ) from error
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise LabError(_composition_text(loader, error, shown_file)) from error


def _missing_option(
    loader: ConfigLoader,
    error: MissingConfigException,
    shown_file: Callable[[str], str],
    project: Project,
) -> str:
    """The text for an option, or a group, that does not exist."""
    text = _first_line(error, shown_file)
    group, _, option = (error.missing_cfg_file or "").rpartition("/")
    if not _is_written(loader, error, option, project):
        text = text.partition(": ")[2]
    if group in INSTEAD:
        return f"{text}. Take it out of that file. {INSTEAD[group].format(settings='trial=NAME')}"
    options = loader.get_group_options(group)
    options = [name for name in options if not name.startswith("_")]  # Hydra's own empty config
    if options:
        place = f"Options of {group}" if group else "Files"
        return f"{text}{nearest(option, options)}. {place}: {', '.join(options)}"
    groups = group_names(loader)
    if not group.startswith("trial/"):
        hint = nearest(group, groups)
        return f"{text}. There is no group {group!r}{hint}. Groups: {', '.join(groups)}"
    name = group.removeprefix("trial/")
    name = next(iter(difflib.get_close_matches(name, groups, n=1)), name)
    return (
        f"{text}. In a trial, a group without a slash is looked for inside the group `trial`.\n"
        f"To choose another option of a group, write: - override /{name}: {option}"
    )


def _is_written(
    loader: ConfigLoader, error: MissingConfigException, option: str, project: Project
) -> bool:
    """Whether the file that Hydra names has the option. It blames that file also for what is typed,
    and for what a trial chooses.
    """
    match = IN_CONFIG.match(str(error).strip())
    if not match:
        return True
    file = Path(config_path(loader, match[1], project))
    if not file.is_file():
        return True
    text = file.read_text(encoding="utf-8", errors="replace")
    return re.search(rf"(?<!\w){re.escape(option)}(?!\w)", text) is not None


def _composition_text(
    loader: ConfigLoader, error: Exception, shown_file: Callable[[str], str]
) -> str:
    lines = [_first_line(error, shown_file), *str(error).splitlines()[1:]]
    if error.__cause__ is not None and str(error.__cause__) not in str(error):
        lines.append(str(error.__cause__).splitlines()[0])
    match = NOT_IN_DEFAULTS.search(str(error))
    if match and match[1] == "trial":
        return f"{lines[0]}. Add `- trial: ???` at the end of the defaults of conf/config.yaml."
    if match and "No match" in str(error):
        groups = group_names(loader)
        if match[1] not in groups:
            lines[0] += nearest(match[1], groups)
    return "\n".join(line for line in lines if line.strip())


def _first_line(error: Exception, shown_file: Callable[[str], str]) -> str:
    """The first line, which names a config as Hydra does, with the file instead."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = lines[0].rstrip(".")
    return IN_CONFIG.sub(lambda match: f"{shown_file(match[1])}: ", text)


def group_names(loader: ConfigLoader, parent: str = "") -> list[str]:
    """The groups at any depth, without Hydra's own."""
    names = []
    for name in loader.list_groups(parent):
        full_name = f"{parent}/{name}" if parent else name
        if full_name != "hydra":
            names += [full_name, *group_names(loader, full_name)]
    return names
