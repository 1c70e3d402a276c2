"""Hydra's errors as answers: its text, with the file, and with the nearest valid name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from ..errors import LabError, nearest
from ..project import Project
from .defaults_list import config_path, shown_path
from .hydra_loader import yaml_errors
from .overrides import INSTEAD

IN_CONFIG = re.compile(r"^In '?([\w/.-]+?)'?: ")
NOT_IN_DEFAULTS = re.compile(r"Could not override '([^'@]+)")


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
