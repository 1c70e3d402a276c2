"""Where the project is, and where its large things go.

A project says so itself: `[tool.labrig]` of its pyproject.toml names its package. It needs PyYAML
only, so commands that read records start fast.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from . import env
from .errors import LabError, nearest
from .plugins import OURS, plugin_directories, refuse_second

LIBRARY = Path(__file__).resolve().parent
CONF = LIBRARY / "conf"  # every setting of the library, and the options of its groups
PYPROJECT = "pyproject.toml"
# Lies with the files of frozen code: the `code` section of the record that they were made from.
LABEL = ".lab-snapshot.json"
# In an environment: the roots of the projects that it was set up for, a line each.
OWNERS = "lab-projects.txt"
# In an environment: what tools/bootstrap.py installed as labrig: a pin, a wheel in vendor/, or a whole path.
INSTALLED = "lab-library.txt"
# Of `lab vendor`, a line each: the pin that a kept wheel stands for, the wheel, perhaps "all".
VENDORED = "vendor/labrig.txt"
PIN = re.compile(r'"labrig(?:\[[^]]*\])? *([@=<>~!][^"]*)"')  # as tools/bootstrap.py reads it
# ${oc.env:NAME}, ${oc.env:NAME,default}, ${NAME} and $NAME
VARIABLE = re.compile(r"\$\{oc\.env:(\w+)(?:,([^}]*))?\}|\$\{(\w+)\}|\$(\w+)")
DEFAULT_SITE = "workstation"
FAST_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
MAX_VALUES = 1_000_000  # of a YAML file
MAX_DEPTH = 100  # of lists and mappings in each other


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
    """A project made from the template.

    Args:
        root: the directory with pyproject.toml, data/ and runs/.
        package: its import name.
        frozen: its directory in the frozen code that runs; None: the code in `root` runs.
    """

    root: Path
    package: str
    frozen: Path | None = None

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The project around `start` (default: the current directory).

        Frozen code works on the data and runs of the project that it was frozen from.

        Raises:
            LabError: outside a project, or its pyproject.toml does not name its package.
        """
        if env.PROJECT in os.environ:
            root = Path(os.environ[env.PROJECT])
            folder = os.environ.get(env.FROZEN)
            frozen = frozen_project(Path(folder)) if folder else None
            return cls(root, package_in(frozen or root), frozen)
        start = Path.cwd() if start is None else Path(start)
        for folder in (start.resolve(), *start.resolve().parents):
            if settings_in(folder) is not None:
                return cls(folder, package_in(folder))
        raise LabError(
            f"no project here: neither {start} nor a directory above it has a {PYPROJECT} with "
            "[tool.labrig]. cd into a project first."
        )

    @classmethod
    def of_notebook(cls) -> Project:
        """The project around the current directory, else the one that this environment was made for.

        Its code can be imported from now on.
        """
        try:
            project = cls.find()
        except LabError:
            owners = owners_of(Path(sys.prefix))
            if len(owners) != 1:
                raise
            project = cls.find(owners[0])
        enter(project)
        return project

    @property
    def source(self) -> Path:
        """The package directory of the code that runs: `root/src/<package>`, or a frozen copy."""
        return (self.frozen or self.root) / "src" / self.package

    @property
    def site_directories(self) -> list[Path]:
        """Where site profiles are searched; the first profile of a name wins."""
        shared = os.environ.get(env.SITE_PATH, "").split(os.pathsep)
        return [
            self.source / "conf" / "site",
            user_config() / "site",
            *(Path(folder).expanduser() for folder in shared if folder),
            *plugin_directories("sites"),
            CONF / "site",
        ]

    def site_file(self, name: str) -> Path:
        """The profile `name`.yaml."""
        directories = self.site_directories
        found = [each for each in directories if (each / f"{name}.yaml").is_file()]
        if found:
            refuse_replaced_site(name, found)
            return found[0] / f"{name}.yaml"
        names = {path.stem for each in directories for path in each.glob("*.yaml")}
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
        return resolve_paths(raw, self.root, self.package)


# The one that this process works on, once `enter` was called
_entered: list[Project] = []


def enter(project: Project) -> None:
    """Makes `project` the one of this process: its package is imported from there and nowhere else.

    It need not be installed, and another project in the same environment may have the same package.
    """
    module = sys.modules.get(project.package)
    file = getattr(module, "__file__", None)
    if file and not Path(file).resolve().is_relative_to(project.source.resolve()):
        raise LabError(
            f"this process has imported {project.package} from {Path(file).parent},\n"
            f"and cannot work on {project.root} too. Start Python again (in a notebook: restart)"
        )
    source = str(project.source.parent)
    if sys.path[:1] != [source]:
        sys.path.insert(0, source)
    _entered[:] = [project]


def this_project() -> Project:
    """The project of this process: the one that it has entered, else the one around it, which it enters.

    Raises:
        LabError: there is none.
    """
    if not _entered:
        enter(Project.find())
    return _entered[0]


def settings_in(folder: Path) -> dict[str, Any] | None:
    """`[tool.labrig]` of the pyproject.toml in a directory; None where it has none."""
    file = folder / PYPROJECT
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return None
    if "[tool.labrig]" not in text:
        return None
    try:
        return tomllib.loads(text)["tool"]["labrig"]
    except tomllib.TOMLDecodeError as error:
        if "\n<<<<<<< " in text:
            raise LabError(
                f"{file} holds two versions of some lines. Choose between those after <<<<<<< and "
                f"those before >>>>>>>,\ndelete the lines of marks, then: git add {file}"
            ) from error
        raise LabError(f"{file} is not valid TOML: {error}. Correct that line.") from error


def package_in(folder: Path) -> str:
    """The package of the project in `folder`."""
    package = (settings_in(folder) or {}).get("package")
    if not isinstance(package, str) or not (folder / "src" / package).is_dir():
        raise LabError(
            f"{folder / PYPROJECT} must name the directory in src/ with the project's code, "
            f'but it says package = {package!r}.\nWrite: [tool.labrig] and package = "NAME"'
        )
    return package


def frozen_project(directory: Path) -> Path:
    """The project in frozen code, which may lie deeper in its repository.

    Args:
        directory: the unpacked snapshot.
    """
    label = json.loads((directory / LABEL).read_text(encoding="utf-8"))
    return directory / label["prefix"]


def owners_of(environment: Path) -> list[Path]:
    """The projects that an environment was set up for and that still exist."""
    lines = text_of(environment / OWNERS).splitlines()
    return [Path(line) for line in lines if (Path(line) / PYPROJECT).exists()]


def shown_path(path: str | Path, project: Project) -> str:
    """A file of the project or of the library relative to it; one of frozen code, or of the user's, in full."""
    for root in (project.root.resolve(), LIBRARY.parent):
        if Path(path).is_relative_to(root):
            return str(Path(path).relative_to(root))
    return str(path)


def user_config() -> Path:
    """The user's directory of settings: profiles of sites, hosts, accounts, prices."""
    return config_home() / "lab"


def config_home() -> Path:
    """Where the settings of all the user's programs lie."""
    # Path.home() fails for a user without one
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))


@cache
def new_names(what: str) -> dict[str, Any]:
    """The new names of `what`: settings or options, by their old ones."""
    return read_yaml(CONF / "renamed.yaml").get(what) or {}


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


def resolve_paths(raw: dict[str, Any], root: Path, package: str) -> Paths:
    """Absolute paths of a `paths` section: variables expanded, relative ones below `root`.

    A path that names an unset variable is dropped: a project made for a cluster works elsewhere.
    Runs then lie in runs/, which a line says.
    """
    runs = expand_path(raw["runs"], root, package)
    if runs is None:
        runs = root / "runs"
        say_once(
            f"paths.runs is {raw['runs']}, and the variable is not set here: runs lie in {runs}"
        )
    entries = raw["data"] if isinstance(raw["data"], list) else [raw["data"]]
    data = [expand_path(entry, root, package) for entry in entries]
    return Paths(
        runs=runs,
        checkpoints=expand_path(raw.get("checkpoints"), root, package),
        scratch=expand_path(raw.get("scratch"), root, package),
        caches=expand_path(raw.get("caches"), root, package),
        data=[path for path in data if path is not None],
    )


def pin_in(folder: Path) -> str:
    """Which labrig the pyproject.toml in a directory names, without extras; "" where it names none."""
    match = PIN.search(text_of(folder / PYPROJECT))
    return f"labrig {match[1]}" if match else ""


def installed_library(root: Path) -> str:
    """What this environment has as labrig: a pin, or the whole path of a copy; "" where nobody noted it."""
    installed = text_of(Path(sys.prefix) / INSTALLED)
    if installed.startswith("vendor/"):
        return text_of(root / VENDORED).partition("\n")[0]
    return installed


def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def refuse_replaced_site(name: str, directories: list[Path]) -> None:
    """Refuses a profile of a plug-in that would replace one of labrig or of another plug-in.

    Those of the project and of the user may: they are there to be changed.

    Args:
        directories: that have a profile of this name; the first would be taken.
    """
    origins = plugin_directories("sites") | {CONF / "site": OURS}
    of_packages = [origins[each] for each in directories if each in origins]
    if directories[0] in origins and len(of_packages) > 1:
        refuse_second("site", name, *of_packages[:2])


@cache
def say_once(text: str) -> None:
    """Prints a line for the user, the first time in a process."""
    print(f"lab: {text}", file=sys.stderr)


def expand_path(text: str | None, root: Path, package: str) -> Path | None:
    """The path that `text` means; None when it names a variable that is not set."""
    if text is None:
        return None
    text = str(text).replace("${package}", package)
    for match in VARIABLE.finditer(text):
        name = match[1] or match[3] or match[4]
        if name not in os.environ and match[2] is None:
            return None
    return root / Path(VARIABLE.sub(value_of_variable, text)).expanduser()


def value_of_variable(match: re.Match) -> Any:
    default = match[2]
    return os.environ.get(match[1] or match[3] or match[4], default)


class TooMuch(yaml.YAMLError):
    """A text that would fill the memory, or the stack of the parser."""


def parse_yaml(text: str, max_values: int = MAX_VALUES) -> Any:
    """What a YAML text holds.

    Raises:
        yaml.YAMLError: it is not YAML. The words are those of PyYAML's own parser.
        TooMuch: with more than `max_values` values, or nested deeper than MAX_DEPTH.
    """
    try:
        check_extent(text, max_values)
        return yaml.load(text, FAST_LOADER)
    except TooMuch:
        raise
    except yaml.YAMLError:
        return yaml.safe_load(text)


def check_extent(text: str, max_values: int) -> None:
    """Counts the values of a YAML text that a stranger may have written, each alias as what it stands for.

    Nine lines of aliases can stand for a billion values, and libyaml crashes at 200,000 brackets.

    Raises:
        TooMuch: see `parse_yaml`.
    """
    sizes: dict[str | None, float] = {}  # of what has an anchor
    counts: list[float] = [0]  # of the text, and of each list and mapping that is open
    anchors: list[str | None] = []
    for event in yaml.parse(text, FAST_LOADER):
        if isinstance(event, yaml.AliasEvent):
            counts[-1] += sizes.get(event.anchor, 0)
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = 1
            counts[-1] += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes[event.anchor] = math.inf  # in itself
            anchors.append(event.anchor)
            counts.append(1)
        elif isinstance(event, yaml.CollectionEndEvent):
            size = counts.pop()
            sizes[anchors.pop()] = size
            counts[-1] += size
        if counts[-1] > max_values:
            raise TooMuch(f"it stands for more than {max_values:,} values")
        if len(anchors) > MAX_DEPTH:
            raise TooMuch(f"it is nested deeper than {MAX_DEPTH}")


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as a dict, which is empty when the file is."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LabError(f"{path} is missing. Bring it back: git checkout HEAD -- {path}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = str(path)
        mark = mark_of_mistake(error, path)
        if mark:
            place += f":{mark.line + 1}:{mark.column + 1}"
        problem = getattr(error, "problem", error)
        raise LabError(f"{place} is not valid YAML: {problem}. Correct that line.") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise LabError(f"{path} holds a {type(content).__name__}, but must hold `key: value` lines")
    return content


# What YAML misses at a later line than that of the mistake
NOT_ENDED = (
    "could not find expected ':'",
    "did not find expected ',' or",  # as libyaml says it
    "expected ',' or",
    "found unexpected end of stream",
)


def mark_of_mistake(error: Exception, file: Path | None = None) -> Any:
    """Where the mistake in a YAML file is, as a yaml.Mark; None when the error says no place.

    YAML names the place where it cannot go on. After a bracket or a quote that is not closed, and
    after a line without a colon, that is a later line.
    """
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or ""
    begin = getattr(error, "context_mark", None)
    if begin and problem.startswith(NOT_ENDED):
        return begin
    if mark and problem.startswith("mapping values are not allowed"):
        return _line_above_without_colon(mark, file) or mark
    return mark


def _line_above_without_colon(mark: Any, file: Path | None) -> Any:
    """The line above `mark`, when it is no `key: value`; None when it is one."""
    try:
        lines = (file or Path(mark.name)).read_text(encoding="utf-8").splitlines()[: mark.line]
    except (OSError, UnicodeDecodeError):
        return None
    written = [(n, line) for n, line in enumerate(lines) if line.partition("#")[0].strip()]
    if not written:
        return None
    number, line = written[-1]
    text = line.partition(" #")[0].rstrip()
    if ": " in text or text.endswith(":"):
        return None
    column = len(line) - len(line.lstrip())
    return yaml.Mark(mark.name, 0, number, column, None, 0)
