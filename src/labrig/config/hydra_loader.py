"""Hydra for this project, by its public API, kept apart from a notebook's or a script's own Hydra.

One thing here is no promise of Hydra's: `repository` of its loader, which finds and reads files, as in
hydra-core 1.3.8. pyproject.toml asks for hydra-core below 1.4.

A trial is an option of the group `trial` in Hydra's ConfigStore, in the global package.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigNode, ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.utils import JobRuntime
from hydra.plugins.config_source import ConfigResult
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError, nearest
from ..project import CONF, FAST_LOADER, Project, mark_of_mistake, new_names
from .renamed import with_new_keys, with_new_options
from .trial_names import PAGE, TRIAL_NAME, trial_names, variant_names, what_became_of

PRIMARY = "config"  # conf/config.yaml
FROZEN_LIBRARY = "lab"  # lab.yaml: every setting of the library
REGISTER = "register"  # conf/register.py: resolvers and structured configs, where a project has any


def read_config(loader: ConfigLoader, name: str) -> Any:
    """What the file of a config holds, such as optimizer/sgd; None where there is none."""
    repository: Any = loader.repository  # type: ignore[attr-defined]
    return repository.load_config(name)


def _read_once(loader: ConfigLoader, project: Project) -> None:
    """Has Hydra read each file once for both passes: the defaults list and the values.

    Settings and options with an old name get the new one here, so that Hydra sees no other.
    """
    repository: Any = loader.repository  # type: ignore[attr-defined]
    load_config = repository.load_config
    results: dict[str, ConfigResult | None] = {}

    def load_once(config_path: str) -> ConfigResult | None:
        if config_path not in results:
            result = load_config(config_path)
            if result and config_path == FROZEN_LIBRARY:
                result.config["package"] = project.package
            results[config_path] = result and with_new_names(config_path, result, project)
        return results[config_path]

    repository.load_config = load_once
    repository.__deepcopy__ = lambda memo: repository  # Hydra copies it for each pass


def with_new_names(config_path: str, result: ConfigResult, project: Project) -> ConfigResult:
    """What was read of a file of the user's, by the names that conf/renamed.yaml gives."""
    settings = new_names("settings")
    of_lab = result.path == f"file://{CONF}"
    if of_lab or config_path.startswith("hydra"):
        return result
    group = config_path.rpartition("/")[0]
    file = Path(result.path.removeprefix("file://"), f"{config_path}.yaml")
    file = Path(result.provider) if group.startswith("trial") else file
    refuse_other_bases(file)
    if not (settings or new_names("options")):
        return result
    package = (result.header or {}).get("package") or group.replace("/", ".")
    prefix = "" if package == "_global_" or group.startswith("trial") else f"{package}."
    root = project.frozen or project.root
    source = str(file.relative_to(root) if file.is_relative_to(root) else file)
    values: Any = OmegaConf.to_container(result.config, resolve=False)
    if isinstance(values, dict):
        values = with_new_keys(values, prefix.lstrip("."), source, settings)
    defaults = result.defaults_list
    return replace(
        result,
        config=OmegaConf.create(values),
        defaults_list=defaults and with_new_options(defaults, group, source),
    )


# Whole numbers as YAML 1.1 has them: 010 is 8, and 1:30 is 90
OTHER_BASE = re.compile(r"[-+]?(0[0-7_]+|[1-9][\d_]*(:[0-5]?\d)+)")


def refuse_other_bases(file: Path) -> None:
    """Raises LabError for a number of base 8 or 60, which nobody sees in it; a `time` may be one."""
    if not file.is_file():  # a node of ConfigStore
        return
    before = ""
    with yaml_errors(file):
        tokens = list(yaml.scan(file.read_text(encoding="utf-8"), FAST_LOADER))
    for token in tokens:
        if not isinstance(token, yaml.ScalarToken):
            continue
        if token.plain and OTHER_BASE.fullmatch(token.value) and before != "time":
            number = yaml.safe_load(token.value)
            if number != int(token.value.replace(":", "")):
                raise LabError(
                    f"{file}, line {token.start_mark.line + 1}: YAML reads {token.value} as {number}. Write "
                    f"that number; or for a text: '{token.value}'"
                )
        before = token.value


@contextmanager
def project_loader(project: Project) -> Iterator[ConfigLoader]:
    """A loader that searches conf/, shared directories with site profiles, and labrig/conf, in this order.

    Until the block ends, `hydra.compose` composes from them, and ConfigStore holds what this project
    registers, and nothing that a notebook or another project of the same process has registered.
    """
    conf = str(project.source / "conf")
    with (
        _own_hydra_state(project),
        tempfile.TemporaryDirectory(prefix="lab-sites-") as links,
        initialize_config_dir(conf, job_name=project.package, version_base="1.3"),
    ):
        loader = GlobalHydra.instance().config_loader()
        search_path = loader.get_search_path()
        for folder in _site_roots(project, Path(links)):
            search_path.prepend("lab", f"file://{folder}", anchor="schema")
        search_path.prepend("lab", f"file://{CONF}", anchor="schema")
        loader.repository.initialize_sources(search_path)  # type: ignore[attr-defined]
        _read_once(loader, project)
        yield loader


@contextmanager
def _own_hydra_state(project: Project) -> Iterator[None]:
    """Exchanges Hydra's process-wide state (ConfigStore, version, job's name) and puts it back."""
    Plugins.instance()  # once in a process: finding Hydra's plugins stores their nodes
    store = ConfigStore.instance()
    version = VersionBase.instance()
    job = JobRuntime.instance()
    of_process = GlobalHydra.instance()
    hydra = of_process.hydra
    nodes, version_base, job_conf = store.repo, version.version_base, job.conf
    try:
        of_process.clear()
        job.conf = OmegaConf.create()
        store.repo = _visible_nodes(nodes, project.package)
        _add_nodes(store.repo, _registered_nodes(store, project))
        yield
    finally:
        store.repo, version.version_base, job.conf = nodes, version_base, job_conf
        GlobalHydra.set_instance(of_process)
        of_process.hydra = hydra


def _visible_nodes(nodes: dict[str, Any], package: str) -> dict[str, Any]:
    """A copy of a ConfigStore: Hydra's own nodes, and structured configs of the package's classes."""
    visible = {}
    for name, node in nodes.items():
        if isinstance(node, ConfigNode):
            of_class = OmegaConf.get_type(node.node).__module__.split(".")[0]
            if node.provider == "hydra" or of_class in ("hydra", "hydra_plugins", package):
                visible[name] = node
        elif inside := _visible_nodes(node, package):
            visible[name] = inside
    return visible


# What conf/register.py of each package has added: a module is imported once in a process
_registered: dict[str, dict[str, Any]] = {}


def _registered_nodes(store: ConfigStore, project: Project) -> dict[str, Any]:
    """The nodes that conf/register.py adds; importing it registers its resolvers too."""
    file = project.source / "conf" / f"{REGISTER}.py"
    module = f"{project.package}.conf.{REGISTER}"
    nodes = _registered.setdefault(project.package, {})
    if module in sys.modules or not file.is_file():
        return nodes
    before = store.repo
    store.repo = {}
    importlib.import_module(module)
    _add_nodes(nodes, store.repo, str(file))
    store.repo = before
    return nodes


def _add_nodes(nodes: dict[str, Any], more: dict[str, Any], provider: str = "") -> None:
    for name, node in more.items():
        if isinstance(node, ConfigNode):
            nodes[name] = replace(node, provider=node.provider or provider)
        else:
            _add_nodes(nodes.setdefault(name, {}), node, provider)


def _site_roots(project: Project, links: Path) -> Iterator[Path]:
    """For each shared directory with profiles, a directory that shows it as the group `site`."""
    shared = [path for path in project.site_directories if not path.is_relative_to(project.source)]
    for n, directory in enumerate(path for path in shared if path.is_dir()):
        root = links / str(n)
        root.mkdir()
        (root / "site").symlink_to(directory.resolve(), target_is_directory=True)
        yield root


NAMED_TRIAL = re.compile(r"\btrial/([a-z]\w*(?:/\w+)?)")  # in a defaults list


def trial_file(project: Project, name: str) -> Path:
    """The file of `trial` or of `trial/variant`."""
    trial, _, variant = name.partition("/")
    folder = project.source / "trials" / trial
    trials = trial_names(project)
    if trial not in trials:
        valid_names = f"Trials: {', '.join(trials)}" if trials else "Make one: lab trials new NAME"
        became = what_became_of(trial, project.root / PAGE, project.source / "trials")
        raise LabError(f"no trial {trial!r}{became or nearest(trial, trials)}. {valid_names}")
    if not TRIAL_NAME.fullmatch(trial):
        raise LabError(
            f"trial name {trial!r} must be lower-case letters, digits and _, "
            "beginning with a letter."
        )
    if not variant:
        return folder / "config.yaml"
    variants = variant_names(project, trial)
    if variant not in variants:
        raise LabError(
            f"trial {trial!r} has no variant {variant!r}{nearest(variant, variants)}. "
            f"Variants are YAML files next to its config.yaml: {', '.join(variants) or 'none yet'}"
        )
    return folder / f"{variant}.yaml"


def register_trial(project: Project, name: str) -> None:
    """Stores `name` and the trials that its defaults list names; others are not read and may be broken."""
    to_store = [name]
    stored = set()
    while to_store:
        name = to_store.pop()
        if name in stored:
            continue
        stored.add(name)
        path = trial_file(project, name)
        node = _read(path)
        trial, _, variant = name.partition("/")
        if variant:
            node.defaults = [f"/trial/{trial}@_global_", *node.get("defaults", [])]
            group = f"trial/{trial}"
        else:
            group = "trial"
        ConfigStore.instance().store(variant or trial, node, group, "_global_", provider=str(path))
        to_store += NAMED_TRIAL.findall(str(node.get("defaults", "")))


def _read(path: Path) -> DictConfig:
    with yaml_errors(path):
        node = OmegaConf.load(path) if path.stat().st_size else OmegaConf.create()
    if not isinstance(node, DictConfig):
        raise LabError(f"{path} must hold `key: value` lines, but it holds a list or a text.")
    return node


@contextmanager
def yaml_errors(path: Path | None = None) -> Iterator[None]:
    """A file that is not valid YAML as a LabError with file, line and column."""
    try:
        yield
    except (yaml.YAMLError, UnicodeDecodeError, PermissionError) as error:
        mark = mark_of_mistake(error)
        place = f"{mark.name}, line {mark.line + 1}, column {mark.column + 1}" if mark else path
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise LabError(f"{place or 'a file'}: not valid YAML ({reason}). Fix that line.") from error
