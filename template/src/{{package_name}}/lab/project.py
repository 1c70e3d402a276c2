# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Where the project is, and where its large things go.

It needs PyYAML only, so commands that read records start fast.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from . import env
from .errors import LabError, nearest

LAB = Path(__file__).resolve().parent
PACKAGE = LAB.parent.name
# ${oc.env:NAME}, ${oc.env:NAME,default}, ${NAME} and $NAME
VARIABLE = re.compile(r"\$\{oc\.env:(\w+)(?:,([^}]*))?\}|\$\{(\w+)\}|\$(\w+)")
DEFAULT_SITE = "workstation"
FAST_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast


@dataclass(frozen=True)
class Paths:
    """Where large things lie, as absolute paths; None where none is configured."""

    runs: Path
    checkpoints: Path | None
    scratch: Path | None
    caches: Path | None
    data: list[Path]  # searched in this order


@dataclass(frozen=True)
class Project:
    """A project of this template.

    Args:
        root: the directory with pyproject.toml, src/, data/ and runs/.
        package: its import name.
    """

    root: Path
    package: str

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The project around `start` (default: the current directory).

        Raises:
            LabError: outside a project, or inside another one than this command belongs to.
        """
        if env.PROJECT in os.environ:
            # Frozen code works on the data and runs of the project it was frozen from
            return cls(Path(os.environ[env.PROJECT]), PACKAGE)
        start = Path.cwd() if start is None else Path(start)
        project = cls._around(start)
        if project is None:
            raise LabError(
                f"no project here: neither {start} nor a directory above it has src/*/lab. "
                "cd into a project first."
            )
        return project

    @classmethod
    def of_notebook(cls) -> Project:
        """The project around the current directory, else the one that this package was imported from.

        Raises:
            LabError: the current directory is inside another project, or there is none.
        """
        lies_in_a_project = LAB.parents[1].name == "src"
        if env.PROJECT in os.environ or not lies_in_a_project:
            return cls.find()
        return cls._around(Path.cwd()) or cls(LAB.parents[2], PACKAGE)

    @classmethod
    def _around(cls, start: Path) -> Project | None:
        """The project that holds the directory `start`; None when there is none.

        Raises:
            LabError: it is another project than the one of this package.
        """
        for folder in (start.resolve(), *start.resolve().parents):
            cli = next(folder.glob("src/*/lab/cli.py"), None)
            if cli is None:
                continue
            if not cli.parent.samefile(LAB):
                raise LabError(
                    f"this `lab` command belongs to project {LAB.parents[2]}, "
                    f"but you are inside project {folder}.\n"
                    f"Use the command of that project: {folder}/.venv/bin/lab  "
                    f"(if it is missing: cd {folder} && make setup)"
                )
            return cls(folder, PACKAGE)
        return None

    @property
    def source(self) -> Path:
        """The package directory of the running code: `root/src/<package>`, or a frozen copy."""
        return LAB.parent

    @property
    def site_directories(self) -> list[Path]:
        """Where site profiles are searched; the first profile of a name wins."""
        config_home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        shared = os.environ.get(env.SITE_PATH, "").split(os.pathsep)
        return [
            self.source / "conf" / "site",
            config_home / "lab" / "site",
            *(Path(folder).expanduser() for folder in shared if folder),
            LAB / "conf" / "site",
        ]

    def site_file(self, name: str) -> Path:
        """The profile `name`.yaml.

        Raises:
            LabError: there is none; the message lists all sites.
        """
        names = set()
        for directory in self.site_directories:
            if (directory / f"{name}.yaml").is_file():
                return directory / f"{name}.yaml"
            names |= {path.stem for path in directory.glob("*.yaml")}
        if new := new_names("options").get(f"site/{name}"):
            return self.site_file(new.removeprefix("site/"))
        raise LabError(f"no site {name!r}{nearest(name, names)}. Sites: {', '.join(sorted(names))}")

    @cached_property
    def paths(self) -> Paths:
        """The paths of the configuration, without trial and command line."""
        config = read_yaml(self.source / "conf" / "config.yaml")
        site = read_yaml(self.site_file(site_of(config)))
        raw: dict[str, Any] = {"runs": "runs", "data": ["data"]}
        raw |= site.get("paths") or {}
        raw |= config.get("paths") or {}
        return resolve_paths(raw, self.root)


def package_in(root: Path) -> str:
    """The package of the project in `root`: of code from before `lab rename` it is the old name.

    Raises:
        LabError: there is none.
    """
    cli = next(root.glob("src/*/lab/cli.py"), None)
    if cli is None:
        raise LabError(f"{root} holds no project; expected src/*/lab in it")
    return cli.parents[1].name


@cache
def new_names(what: str) -> dict[str, Any]:
    """The new names of `what`: settings or options, by their old ones."""
    return read_yaml(LAB / "conf" / "renamed.yaml").get(what) or {}


def site_of(config: dict[str, Any]) -> str:
    """The site that the `defaults` of a configuration name."""
    for entry in config.get("defaults", []):
        if not isinstance(entry, dict):
            continue
        for group, option in entry.items():
            name = group.removeprefix("override ").strip().removeprefix("/")
            if name == "site":
                return option
    return DEFAULT_SITE


def resolve_paths(raw: dict[str, Any], root: Path) -> Paths:
    """Absolute paths of a `paths` section: variables expanded, relative ones below `root`.

    A path that names an unset variable is dropped: a project made for a cluster works elsewhere.
    Runs then lie in runs/, which a line says.
    """
    runs = expand_path(raw["runs"], root)
    if runs is None:
        runs = root / "runs"
        say_once(
            f"paths.runs is {raw['runs']}, and the variable is not set here: runs lie in {runs}"
        )
    entries = raw["data"] if isinstance(raw["data"], list) else [raw["data"]]
    data = [expand_path(entry, root) for entry in entries]
    return Paths(
        runs=runs,
        checkpoints=expand_path(raw.get("checkpoints"), root),
        scratch=expand_path(raw.get("scratch"), root),
        caches=expand_path(raw.get("caches"), root),
        data=[path for path in data if path is not None],
    )


@cache
def say_once(text: str) -> None:
    """Prints a line for the user, the first time in a process."""
    print(f"lab: {text}", file=sys.stderr)


def expand_path(text: str | None, root: Path) -> Path | None:
    """The path that `text` means; None when it names a variable that is not set."""
    if text is None:
        return None
    text = str(text).replace("${package}", PACKAGE)
    for match in VARIABLE.finditer(text):
        name = match[1] or match[3] or match[4]
        if name not in os.environ and match[2] is None:
            return None
    return root / Path(VARIABLE.sub(value_of_variable, text)).expanduser()


def value_of_variable(match: re.Match) -> Any:
    default = match[2]
    return os.environ.get(match[1] or match[3] or match[4], default)


def parse_yaml(text: str) -> Any:
    """What a YAML text holds.

    Raises:
        yaml.YAMLError: it is not YAML. The words are those of PyYAML's own parser.
    """
    with suppress(yaml.YAMLError):
        return yaml.load(text, FAST_LOADER)
    return yaml.safe_load(text)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as a dict, which is empty when the file is.

    Raises:
        LabError: it is missing, not YAML (with line and column), or no mapping.
    """
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LabError(f"{path} is missing. Bring it back: git checkout HEAD -- {path}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = str(path)
        mark = getattr(error, "problem_mark", None)
        if mark:
            place += f":{mark.line + 1}:{mark.column + 1}"
        problem = getattr(error, "problem", error)
        raise LabError(f"{place} is not valid YAML: {problem}. Correct that line.") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise LabError(f"{path} holds a {type(content).__name__}, but must hold `key: value` lines")
    return content
