# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Where the project is, and where its large things go. PyYAML only, so that reading records stays instant."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from . import env
from .errors import LabError, nearest

LAB = Path(__file__).resolve().parent
PACKAGE = LAB.parent.name
VARIABLE = re.compile(r"\$\{oc\.env:(\w+)(?:,([^}]*))?\}|\$\{(\w+)\}|\$(\w+)")


@dataclass(frozen=True)
class Project:
    """A project of this template: `root` holds pyproject.toml, src/, data/ and runs/; `package` is its import name."""

    root: Path
    package: str

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The project around `start` (default: the current directory).

        Raises:
            LabError: outside a project, or inside another project than the one this command belongs to.
        """
        if (
            env.PROJECT in os.environ
        ):  # frozen code works on the data and runs of the project it was frozen from
            return cls(Path(os.environ[env.PROJECT]), PACKAGE)
        start = Path.cwd() if start is None else Path(start)
        for folder in (start.resolve(), *start.resolve().parents):
            cli = next(folder.glob("src/*/lab/cli.py"), None)
            if cli is None:
                continue
            if cli.parent.samefile(LAB):
                return cls(folder, PACKAGE)
            raise LabError(
                f"this lab belongs to the project of {LAB}, but {folder} is another project.\n"
                f"Use that project's own: {folder}/.venv/bin/lab  (make it with: cd {folder} && make setup)"
            )
        raise LabError(
            f"no project here: {start} and the directories above it have no src/*/lab. cd into a project first."
        )

    @property
    def source(self) -> Path:
        """The package directory, `root/src/<package>`; of the running code when that is frozen."""
        return LAB.parent

    @property
    def site_directories(self) -> list[Path]:
        """Where site profiles are looked up, first wins."""
        config_home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        extra = os.environ.get(env.SITE_PATH, "")
        return [
            self.source / "conf" / "site",
            config_home / "lab" / "site",
            *(Path(part).expanduser() for part in extra.split(os.pathsep) if part),
            LAB / "conf" / "site",
        ]

    def site_file(self, name: str) -> Path:
        """The profile `name`.yaml, or a LabError that lists the sites there are."""
        names = set()
        for directory in self.site_directories:
            if (directory / f"{name}.yaml").is_file():
                return directory / f"{name}.yaml"
            names |= {path.stem for path in directory.glob("*.yaml")}
        raise LabError(f"no site {name!r}{nearest(name, names)}. Sites: {', '.join(sorted(names))}")

    @cached_property
    def paths(self) -> dict[str, Any]:
        """`runs`, `checkpoints`, `scratch` (Path or None) and `data` (list of Path), as the configuration says without
        trial and command line."""
        config = read_yaml(self.source / "conf" / "config.yaml")
        chosen = [
            option
            for entry in config.get("defaults", [])
            if isinstance(entry, dict)
            for group, option in entry.items()
            if group.removeprefix("override ").strip().removeprefix("/") == "site"
        ]
        site = read_yaml(self.site_file(chosen[0] if chosen else "workstation"))
        raw = {"runs": "runs", "checkpoints": None, "data": ["data"], "scratch": None}
        return resolve_paths(
            raw | (site.get("paths") or {}) | (config.get("paths") or {}), self.root
        )


def resolve_paths(raw: dict[str, Any], root: Path) -> dict[str, Any]:
    """Absolute paths of a `paths` section: variables expanded, relative ones below `root`.

    Entries of the search path `data` and an optional path that name an unset variable are dropped; `runs` must be known.
    """
    data = raw["data"] if isinstance(raw["data"], list) else [raw["data"]]
    resolved = {key: _expand(raw.get(key), root) for key in ("runs", "checkpoints", "scratch")}
    if resolved["runs"] is None:
        raise LabError(
            f"paths.runs is {raw['runs']!r}, which names a variable that is not set here. Set it, or paths.runs."
        )
    return resolved | {
        "data": [path for path in (_expand(entry, root) for entry in data) if path is not None]
    }


def _expand(value: str | None, root: Path) -> Path | None:
    if value is None:
        return None

    def variable(match: re.Match) -> str:
        value = os.environ.get(match[1] or match[3] or match[4], match[2])
        return "\0" if value is None else value

    text = VARIABLE.sub(variable, str(value))
    return None if "\0" in text else root / Path(text).expanduser()


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as a dict (empty when there is nothing in it); a broken one is a LabError with file, line and column."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LabError(f"{path} is missing; restore it with git, or with: copier recopy") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        place = f"{path}:{where.line + 1}:{where.column + 1}" if where else str(path)
        raise LabError(f"{place} is not valid YAML: {getattr(error, 'problem', error)}") from error
    if content is not None and not isinstance(content, dict):
        raise LabError(
            f"{path} must hold `key: value` lines, but it holds a {type(content).__name__}"
        )
    return content or {}
