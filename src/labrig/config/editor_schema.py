"""`lab config --schema`: every setting for an editor, which underlines a misspelt key and completes others.

conf/config.yaml and each trial name the file in their first line, `# yaml-language-server: $schema=...`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import is_dataclass
from datetime import date
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from ..errors import LabError
from ..project import CONF, Project, read_yaml
from .check_target import INSTANTIATE_KEYS, absolute_target, argument_names, is_target
from .overrides import is_global
from .schema import LabSettings, all_settings
from .setting import KnownSetting, kinds_in, settings_of
from .trainer_arguments import trainer_settings

NAME = ".schema.json"  # in conf/, ignored by git
DRAFT = "http://json-schema.org/draft-07/schema#"
INTERPOLATION = {"type": "string", "pattern": r"\$\{"}
OF_PRIMARY = {"properties": {"defaults": {"contains": {"const": "lab"}}}, "required": ["defaults"]}
FREE = ("defaults", "hydra", "model", "task", "data")  # keys that no class of settings says
JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    date: "string",
    NoneType: "null",
}


def write_schema(project: Project) -> Path:
    """Writes conf/.schema.json of a project; the path."""
    path = project.source / "conf" / NAME
    path.write_text(json.dumps(schema_of(project), indent=1) + "\n", encoding="utf-8")
    return path


def schema_of(project: Project) -> dict[str, Any]:
    """What conf/config.yaml and the files of trials may hold, as a JSON schema.

    A section that builds an object takes the arguments of all classes that files of the project and of the
    library name for it. Only conf/config.yaml may have further keys, which trials then may have too.
    """
    properties: dict[str, Any] = {name: {} for name in FREE}
    of_lab = settings_of(LabSettings)
    for known in all_settings().values():
        # Options of one group may give a name other values.
        form = form_of(known) if known.name in of_lab else {}
        put(properties, known.name.split("."), form)
    for name in trainer_settings():
        put(properties, name.split("."), {})
    if not trainer_settings():  # Lightning is not installed
        properties["trainer"].pop("additionalProperties")
    for name, arguments in arguments_of_sections(project).items():
        properties.setdefault(name, {})
        if arguments is not None:
            properties[name] = {"type": "object", "propertyNames": {"enum": sorted(arguments)}}
    others = {"propertyNames": {"enum": list(properties)}}
    return {
        "$schema": DRAFT,
        "type": "object",
        "properties": properties,
        "if": OF_PRIMARY,
        "then": {},
        "else": others,
    }


def put(properties: dict[str, Any], parts: list[str], form: dict[str, Any]) -> None:
    """Adds a dotted name to the properties of a schema, unless it is there."""
    for part in parts[:-1]:
        properties = properties.setdefault(part, {}).setdefault("properties", {})
    properties.setdefault(parts[-1], form)


def form_of(known: KnownSetting) -> dict[str, Any]:
    """The schema of one setting; that of a section has no properties yet."""
    if known.is_section:
        return {"type": "object", "description": known.comment, "additionalProperties": False}
    kinds = [form_of_kind(kind, known.least) for kind in kinds_in(known.type)]
    return {"description": known.comment, "anyOf": [*kinds, INTERPOLATION]}


def form_of_kind(kind: Any, least: float | None = None) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": [*inner]}
    if origin is list:
        return {"type": "array", "items": form_of_union(inner[0])}
    if origin is dict or is_dataclass(kind):
        return {"type": "object", "additionalProperties": form_of_union(inner[1]) if inner else {}}
    if kind is Any:
        return {}
    limit = {} if least is None or kind not in (int, float) else {"minimum": least}
    return {"type": JSON_TYPES[kind], **limit}


def form_of_union(kind: Any) -> dict[str, Any]:
    return {"anyOf": [*map(form_of_kind, kinds_in(kind)), INTERPOLATION]}


def arguments_of_sections(project: Project) -> dict[str, set[str] | None]:
    """The keys that each section of the files may have; None: any."""
    allowed: dict[str, set[str] | None] = {}
    for name, value, trial in sections_of(project):
        if name in settings_of(LabSettings) or not is_target(value):
            allowed.setdefault(name, None)
            continue
        try:
            target = absolute_target(value["_target_"], trial)
            names = argument_names(target, name)
        except LabError:  # which `lab check` tells
            names = None
        known = allowed.get(name, {*INSTANTIATE_KEYS})
        allowed[name] = None if names is None or known is None else known | {*names}
    return {name: names for name, names in allowed.items() if name not in settings_of(LabSettings)}


def sections_of(project: Project) -> Iterator[tuple[str, Any, str]]:
    """The keys and values at the top of each file of a project, and those of options; the file's trial."""
    conf = project.source / "conf"
    for path in [*CONF.glob("*/*.yaml"), *conf.glob("*.yaml"), *conf.glob("*/*.yaml")]:
        values = read_yaml(path)
        is_option = path.parent not in (CONF, conf) and not is_global(path)
        top = {path.parent.name: values} if is_option else values
        yield from ((name, value, "") for name, value in top.items())
    for path in (project.source / "trials").glob("*/*.yaml"):
        yield from ((name, value, path.parent.name) for name, value in read_yaml(path).items())
