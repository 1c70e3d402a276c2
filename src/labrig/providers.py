"""What a room asks of a higher one: its folder's __init__.py lists in PROVIDES what it gives, by name.

`lab runs list` asks so for the states of jobs, which cluster/ knows. A room that is not installed
gives nothing, and whoever asks does without. A plug-in lists its own in the module of an entry
point of the group labrig.providers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from .plugins import load_plugin, plugins
from .project import LIBRARY


def provided(name: str) -> Callable[..., Any] | None:
    """The function of this name that a room gives; None when no such room is installed.

    Its file is imported now. Where several give one, the first of the library counts, then plug-ins.
    """
    place = _places().get(name)
    if place is None:
        return None
    module, function = place
    return getattr(import_module(module), function)


FOR_USERS = ("program",)  # folders that programs import; they have no command, and import much


@cache
def _places() -> dict[str, tuple[str, str]]:
    """Name -> (module, function)."""
    places: dict[str, tuple[str, str]] = {}
    of_plugins = [
        (plugin.value.rpartition(".")[0] or plugin.value, load_plugin(plugin))
        for plugin in plugins("providers")
    ]
    for package, module in [*rooms(), *of_plugins]:
        for name, place in getattr(module, "PROVIDES", ()):
            file, function = place.split(":")
            places.setdefault(name, (f"{package}.{file}", function))
    return places


def rooms() -> Iterator[tuple[str, Any]]:
    """(name, module) of each folder of the library, and of those in it that its ROOMS names.

    A folder that is not there is passed over.
    """
    for path in sorted(LIBRARY.glob("*/__init__.py")):
        if path.parent.name in FOR_USERS:
            continue
        package = f"{__package__}.{path.parent.name}"
        module = import_module(package)
        yield package, module
        for name in getattr(module, "ROOMS", ()):
            if (path.parent / name / "__init__.py").exists():
                yield f"{package}.{name}", import_module(f"{package}.{name}")
