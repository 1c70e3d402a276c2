"""Plug-ins: what installed packages add to `lab`. Each names it in its pyproject.toml, by group:

```
[project.entry-points."labrig.sites"]       # a package whose directory holds profiles, *.yaml
[project.entry-points."labrig.schedulers"]  # a class, see labrig.cluster.schedulers
[project.entry-points."labrig.callbacks"]   # a function of the configuration; lab docs lab
[project.entry-points."labrig.commands"]    # a module with a list COMMANDS, as in the folders here
[project.entry-points."labrig.providers"]   # a module with a list PROVIDES, see providers.py
[project.entry-points."labrig.packers"]     # a function of a path that yields samples: lab data pack --as NAME
```
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Container, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import LabError
from .version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PREFIX = "labrig."  # of every group
OURS = f"labrig {__version__}"


@cache
def plugins(group: str) -> list[EntryPoint]:
    """The entry points of a group, such as `sites`, by package and name."""
    if not has_plugins(tuple(sys.path)):
        return []
    from importlib.metadata import entry_points  # 60 ms

    found = entry_points(group=PREFIX + group)
    return sorted(found, key=lambda point: (origin_of(point), point.name))


@cache
def has_plugins(search_path: tuple[str, ...]) -> bool:
    """Whether an installed package has entry points of ours; a few milliseconds tell."""
    header = f"[{PREFIX}".encode()
    for folder in search_path:
        try:
            entries = [entry.path for entry in os.scandir(folder) if entry.name.endswith("-info")]
        except OSError:
            continue
        for entry in entries:
            try:
                with open(f"{entry}/entry_points.txt", "rb") as file:
                    if header in file.read():
                        return True
            except OSError:
                continue
    return False


def origin_of(plugin: EntryPoint) -> str:
    """The package that a plug-in is from, as `ourlab-plugin 0.1`."""
    distribution = plugin.dist
    return f"{distribution.name} {distribution.version}" if distribution else "an unknown package"


def load_plugin(plugin: EntryPoint) -> Any:
    """What a plug-in names.

    Raises:
        LabError: it cannot be imported.
    """
    try:
        return plugin.load()
    except Exception as error:
        raise LabError(
            f"the plug-in {plugin.name} of {origin_of(plugin)} cannot be loaded:\n"
            f"{type(error).__name__}: {error}\n"
            f"Correct {plugin.value}, or remove the package"
        ) from error


def distinct_plugins(
    group: str, taken: Iterable[str], left_out: Container[str] = ()
) -> dict[str, EntryPoint]:
    """The plug-ins of a group by their names.

    Args:
        taken: the names that labrig itself has.
        left_out: names that the user has replaced or left out.
    """
    owners = dict.fromkeys(taken, OURS)
    found = {}
    for plugin in plugins(group):
        if plugin.name in left_out:
            continue
        origin = origin_of(plugin)
        refuse_second(group.removesuffix("s"), plugin.name, origin, owners.get(plugin.name))
        owners[plugin.name] = origin
        found[plugin.name] = plugin
    return found


def refuse_second(kind: str, name: str, origin: str, owner: str | None) -> None:
    """Refuses a plug-in with the name of what `owner` has already."""
    if owner is not None:
        raise LabError(
            f"{origin} adds the {kind} {name}, which {owner} has. "
            "Rename one of them in its entry points, or remove its package"
        )


def plugin_directories(group: str) -> dict[Path, str]:
    """The directories of the packages that the plug-ins of a group name, with where each is from.

    One that is broken is named, and left out.
    """
    directories = {}
    for plugin in plugins(group):
        try:
            spec = importlib.util.find_spec(plugin.value)
        except Exception:  # of a package around it, which is imported
            spec = None
        if spec is None or not spec.submodule_search_locations:
            say_broken(
                f"the plug-in {plugin.name} of {origin_of(plugin)} names {plugin.value}, which is no "
                "package. Correct its entry point, or remove it"
            )
            continue
        directories |= {
            Path(location): origin_of(plugin) for location in spec.submodule_search_locations
        }
    return directories


@cache
def say_broken(text: str) -> None:
    """Prints why a plug-in is left out, once."""
    print(f"lab: {text}", file=sys.stderr)
