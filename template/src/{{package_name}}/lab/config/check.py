# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checks keys, types and `_target_` arguments of a configuration before torch is imported."""

from __future__ import annotations

from typing import Any

from ..errors import LabError, nearest
from ..project import LAB, PACKAGE
from .layers import GROUPS, read_layer
from .signature import MissingTarget, signature_of

KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a section",
}
INSTANTIATE = ("_target_", "_partial_", "_args_", "_recursive_", "_convert_")


def absolute_target(target: str, trial: str) -> str:
    """`.model.CNN` is the trial's own code; a target in another trial is refused, as trials stand alone."""
    target = target.replace("${package}", PACKAGE)
    own = f"{PACKAGE}.trials.{trial}"
    if target.startswith("."):
        return own + target
    if target.startswith(f"{PACKAGE}.trials.") and not target.startswith(f"{own}."):
        raise LabError(
            f"_target_: {target} is in another trial. Copy it into trials/{trial}/ and write .module.Name instead."
        )
    return target


def check_keys(
    values: dict[str, Any], base: dict[str, Any], trial: str, source: str, prefix: str = ""
) -> None:
    """Refuses keys of `values` that are not legal on top of `base`; `source` (a file) is named in the message."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        old = base.get(key)
        if name == "model" or (isinstance(value, dict) and "_target_" in value):
            check_target(value, old if isinstance(old, dict) else {}, trial, source, name)
        elif isinstance(old, dict) and "_target_" in old:
            check_target(value, old, trial, source, name)
        elif key not in base:
            raise unknown_setting(name, dotted_keys(base, prefix), source)
        elif isinstance(old, dict) and isinstance(value, dict) and (old or name in GROUPS):
            check_keys(value, old, trial, source, f"{name}.")
        else:
            check_type(name, value, old, source)


def unknown_setting(name: str, known: list[str], source: str) -> LabError:
    """For a setting that does not exist: the nearest one that does, or the option of its group that would bring it."""
    group, *inside = name.split(".")
    found = {}
    for conf in (LAB / "conf", LAB.parent / "conf") if group in GROUPS and inside else ():
        found |= (
            read_layer(conf / f"{group}.yaml").values if (conf / f"{group}.yaml").is_file() else {}
        )
        found |= {file.stem: read_layer(file).values for file in conf.glob(f"{group}/*.yaml")}
    having = [
        f"{group}={option}" for option, values in found.items() if values and inside[0] in values
    ]
    advice = (
        f"It comes with {' or '.join(sorted(having))}"
        if having
        else "All settings: lab config trial=NAME"
    )
    return LabError(f"{source}: unknown setting {name!r}{nearest(name, known)}. {advice}")


def check_target(value: Any, old: dict[str, Any], trial: str, source: str, name: str) -> None:
    """Checks the arguments of one `_target_` node, and of those inside it."""
    if not isinstance(value, dict):
        raise LabError(
            f"{source}: {name} must hold `_target_: module.Class` and its arguments, but it is {value!r}."
        )
    merged = {**old, **value}
    if "_target_" not in merged:
        raise LabError(
            f"{source}: {name} needs a `_target_`, for example `_target_: .model.CNN` for a class of the trial's model.py."
        )
    if not isinstance(merged["_target_"], str):
        raise LabError(
            f"{source}: {name}._target_ must be a dotted name, but it is {merged['_target_']!r}."
        )
    target = absolute_target(merged["_target_"], trial)
    legal = legal_arguments(target, f"{source}: {name}")
    for key, item in merged.items():
        if key in INSTANTIATE:
            continue
        if legal is not None and key not in legal:
            below = f" (it comes from the layer below: choose a group, `defaults: [- {name}: ...]`, instead)"
            inherited = "" if key in value else below
            raise LabError(
                f"{source}: {target} takes no argument {key!r}{nearest(key, legal)}{inherited}. It takes: {', '.join(legal)}"
            )
        previous = old.get(key)
        if isinstance(item, dict) and "_target_" in item:
            check_target(
                item, previous if isinstance(previous, dict) else {}, trial, source, f"{name}.{key}"
            )
        elif key in value and key in old:
            check_type(f"{name}.{key}", item, previous, source)


def legal_arguments(target: str, where: str) -> tuple[str, ...] | None:
    """The arguments a target takes, or None when any name may be right or only an import can tell."""
    try:
        found = signature_of(target)
    except MissingTarget as error:
        raise LabError(
            f"{where}._target_ is {target!r}, but {error}{nearest(target.split('.')[-1], error.known)}."
        ) from error
    return None if found is None or found.open else found.names


def check_type(name: str, value: Any, old: Any, source: str) -> None:
    """Refuses a value of another type than the one it replaces."""
    if old is None or old == "auto" or _interpolated(old) or _interpolated(value):
        return
    if value is None:
        ok = isinstance(old, str | list | dict)
    elif isinstance(old, bool) or isinstance(value, bool):
        ok = isinstance(old, bool) and isinstance(value, bool)
    elif isinstance(old, float):
        ok = isinstance(value, int | float)
    else:
        ok = isinstance(value, type(old))
    if not ok:
        raise LabError(
            f"{source}: {name} must be {KINDS[type(old)]} (like {old!r}), but it is {value!r}."
        )


def _interpolated(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def dotted_keys(values: dict[str, Any], prefix: str = "") -> list[str]:
    """All keys, at any depth, as dotted names."""
    names = []
    for key, value in values.items():
        names.append(f"{prefix}{key}")
        if isinstance(value, dict):
            names += dotted_keys(value, f"{prefix}{key}.")
    return names
