"""The public names of the library: what projects import stays, until a release has warned that it goes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

from .library import SOURCE
from .repository import Repository

# of labrig; __all__ lists the names
MODULES = ("", "callbacks", "data", "program", "task", "train")
ADVICE = (
    '  Keep it for a release that warns: decorate it with @deprecated("..."), or begin a line of its\n'
    '  docstring with "Deprecated:". The release after that one may take it away'
)

Names = dict[str, Any]  # "labrig.data.Order" -> what griffe read of it


def check_public_names(repository: Repository) -> list[str]:
    """What the last release had, against HEAD."""
    tag = repository.newest_tag
    if tag is None:
        return []
    old, new = (public_names(repository, ref) for ref in (tag, "HEAD"))
    problems = []
    for name, member in old.items():
        if is_deprecated(member):
            continue
        if name not in new:
            problems.append(f"the public name {name} of {tag} is gone.\n{ADVICE}")
        elif member is not None and new[name] is None:
            problems.append(
                f"{name} can no longer be read without running the library; import it where it is\n"
                "  listed, if need be below TYPE_CHECKING"
            )
        elif broken := "; ".join(breakages(member, new[name])):
            problems.append(
                f"the public name {name} of {tag} breaks its callers: {broken}.\n{ADVICE}"
            )
    return problems


def public_names(repository: Repository, ref: str) -> Names:
    """The names of each public module, as they were committed. Nothing is imported."""
    files = repository.files(ref, SOURCE)
    if f"{SOURCE}/__init__.py" not in files:
        return {}
    with tempfile.TemporaryDirectory(prefix="names-") as folder:
        for path, content in files.items():
            if path.endswith(".py"):
                Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, path).write_bytes(content)
        library = griffe.load(
            "labrig",
            search_paths=[Path(folder, "src")],
            allow_inspection=False,
            resolve_aliases=True,
            resolve_external=False,
        )
    modules = [library[module] if module else library for module in MODULES if has(library, module)]
    return {
        f"{module.path}.{name}": defined(library, module, str(name))
        for module in modules
        for name in module.exports or []
    }


def has(library: Any, module: str) -> bool:
    return not module or module in library.members


def defined(library: Any, module: Any, name: str) -> Any:
    """The function or class behind a name; None where only running the code would tell.

    A name may be that of a folder too, as labrig.trials is: what is imported counts.
    """
    path = module.imports.get(name, f"{module.path}.{name}")
    try:
        member = library[path.removeprefix(f"{library.path}.")]
        return member.final_target if member.is_alias else member
    except (KeyError, griffe.AliasResolutionError):
        return None


def breakages(old: Any, new: Any) -> Iterator[str]:
    """What no longer works for who calls it, in words; what the last release deprecated is left out."""
    if old is None:
        return
    for breakage in griffe.find_breaking_changes(alone(old), alone(new)):
        method = breakage.obj.name
        if method in old.members and is_deprecated(old.members[method]):
            continue
        value = breakage.old_value or breakage.new_value
        shown = f"{method}({value.name})" if isinstance(value, griffe.Parameter) else method
        yield f"{shown}: {breakage.kind.value.lower()}"


def alone(member: Any) -> Any:
    """A module with that one public name, since griffe compares modules."""
    module = griffe.Module("public")
    module.exports = ["it"]
    module.set_member("it", griffe.Alias("it", member))
    return module


def is_deprecated(member: Any) -> bool:
    """Whether a release warned: by a decorator, which type checkers and Python show, or in the docstring."""
    if member is None:
        return False
    decorators = [str(decorator.value) for decorator in getattr(member, "decorators", [])]
    text = member.docstring.value if member.docstring else ""
    return any("deprecated" in decorator for decorator in decorators) or any(
        line.lstrip().startswith("Deprecated:") for line in text.splitlines()
    )
