"""Adopts a repository of the lightning-hydra-template family: configs/ in groups, `_target_`s, src/.

Its settings are written in the words of this project.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ...errors import LabError
from ...machine.text_formats import and_more
from ...project import Project
from .plan import OLD_LIGHTNING, AdoptionPlan, Notes, trial_name
from .repository import Configs, ForeignConfig, Modules, dotted_parts, new_place

EXPERIMENT = "experiment"
SECTIONS = {"data": "data", "model": "task"}  # there and here
# Groups of the family whose settings move along, or mean nothing here
MOVED = {*("callbacks", "data", EXPERIMENT, "extras", "logger", "model", "paths", "trainer")}


@dataclass
class HydraTemplate:
    """What is known while a repository of the family is read."""

    configs: Configs
    modules: Modules
    plan: AdoptionPlan
    name: str  # of the new directory in the package, and of the trial of the primary file
    targets: set[str] = field(default_factory=set)
    options: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def adopt(self) -> AdoptionPlan:
        configs = self.configs
        self.add_trial(self.name, configs.primary, f"{configs.folder}/{configs.name}.yaml")
        for group in (EXPERIMENT, *SECTIONS):
            for option in configs.groups.get(group, []):
                try:
                    if group == EXPERIMENT:
                        self.add_experiment(option)
                    else:
                        self.option(group, option)
                except LabError as error:
                    place = f"{configs.folder}/{group}/{option}.yaml"
                    self.plan.notes.ask(f"{place} was left out. {error}")
        self.add_modules()
        left = ", ".join(sorted(configs.groups.keys() - MOVED))
        if left:
            self.plan.notes.ask(
                f"groups that stay behind: {left}. Values of theirs are written where something reads "
                "them. What does the same here: lab docs from-hydra-template"
            )
        return self.plan

    def translation(self, composed: ForeignConfig) -> Translation:
        self.targets |= targets_in(composed.values)
        return Translation(self.modules, composed, f"${{package}}.{self.name}", self.plan.notes)

    def add_experiment(self, option: str) -> None:
        composed = self.configs.choose(EXPERIMENT, option)
        name = trial_name(option)
        if name in self.plan.trials or (self.plan.project.source / "trials" / name).exists():
            name = f"{self.name}_{name}"
        self.add_trial(name, composed, f"{self.configs.folder}/{EXPERIMENT}/{option}.yaml")

    def add_trial(self, name: str, composed: ForeignConfig, origin: str) -> None:
        """Adds a trial, and the options that it chooses."""
        there = self.translation(composed)
        defaults: list[Any] = []
        sections: dict[str, Any] = {}
        for group, here in SECTIONS.items():
            section = there.section(group)
            choice = composed.choices.get(group)
            if section and choice in self.configs.groups.get(group, []):
                option, base = self.option(group, choice)
                if here == "task":  # which the project has not chosen before; Hydra wants it first
                    defaults.insert(0, {"/task": option})
                else:
                    defaults.append({f"override /{here}": option})
                section = difference(base, section)
            sections[here] = section
        if device := there.device():
            defaults.append({"override /trainer": device})
        sections["callbacks"] = there.callbacks()
        sections["seed"] = composed.values.get("seed")
        sections |= there.trainer()
        sections["checkpoint"] = there.monitor()
        there.tell_of_the_rest()
        kept = {key: value for key, value in sections.items() if value not in (None, {})}
        self.plan.add_trial(name, {"defaults": defaults} | kept, origin)

    def option(self, group: str, choice: str) -> tuple[str, dict[str, Any]]:
        """The name here of an option of a group, which is added to the plan, and what it holds."""
        if (group, choice) not in self.options:
            section = self.translation(self.configs.choose(group, choice)).section(group)
            here = SECTIONS[group]
            name = self.plan.free_option(here, choice.replace("/", "_"), self.name)
            if section:
                origin = f"{self.configs.folder}/{group}/{choice}.yaml"
                self.plan.add_option(here, name, section, origin)
            self.options[group, choice] = (name, section)
        return self.options[group, choice]

    def add_modules(self) -> None:
        """Adds the modules that a `_target_` names, and all that they import."""
        places = {target: self.modules.find(target) for target in sorted(self.targets)}
        folder = f"{self.plan.package}/{self.name}"
        copied = self.modules.needed({place[0] for place in places.values() if place})
        code = {"__init__.py": b""}
        for file in copied:
            code[new_place(file)], left = self.modules.moved(file)
            for line in left:
                self.plan.notes.ask(line)
        if copied:
            self.plan.add_code(folder, code)
        self.plan.notes.ask_for_packages(self.modules.missing_packages(copied))
        files_there, links = self.modules.repository.listed
        left_out = {name for name in files_there if name.endswith(".py")}.difference(copied)
        for names, why in ((left_out, "no _target_ needs them"), (links, "links are not followed")):
            if names:
                self.plan.notes.tell(f"not copied: {and_more(sorted(names), 4)} ({why})")


def adopt_hydra_template(project: Project, configs: Configs, name: str) -> AdoptionPlan:
    """The plan for a repository with configs."""
    root = configs.repository.root
    if re.search(r"'(class_path|seed_everything)':", str(configs.primary.values)):
        raise LabError(
            f"{configs.folder}/{configs.name}.yaml is for LightningCLI. Bring in the script that has it: lab "
            f"adopt {root}/SCRIPT.py   Then: lab train trial=NAME -- fit --config {root}/{configs.folder}/"
            f"{configs.name}.yaml"
        )
    plan = AdoptionPlan(project, root.name)
    return HydraTemplate(configs, Modules(configs.repository), plan, name).adopt()


def targets_in(values: Any) -> set[str]:
    """Every `_target_` below a section."""
    if isinstance(values, list):
        return {target for item in values for target in targets_in(item)}
    if not isinstance(values, dict):
        return set()
    own = {values["_target_"]} if isinstance(values.get("_target_"), str) else set()
    return own | {target for item in values.values() for target in targets_in(item)}


MISSING = "???"  # of Hydra: somebody must write it
WHOLE = re.compile(r"\$\{([^${}]+)\}")
KEPT = re.compile(r"\.|oc\.(env|select|decode):|(data|seed|model)(\.|$)")  # means the same here
NOTHING = "${nothing:}"  # a resolver that nobody has
LEAF = "lab adopt"  # a key that no configuration has
LIGHTNING = "lightning.pytorch."
# Arguments of Lightning's Trainer that are another setting here
ELSEWHERE = {
    "benchmark": "speed.cudnn_benchmark",
    "deterministic": "record.deterministic",
    "log_every_n_steps": "log.every_n_steps",
    "sync_batchnorm": "speed.sync_batchnorm",
}
# Those that the run directory, the job or the lines of a run decide
OF_THE_RUN = (
    *("_target_", "default_root_dir", "logger", "callbacks"),
    *("enable_progress_bar", "enable_model_summary", "enable_checkpointing"),
)
# What Lightning does where nothing is said, and this project would do something else
LIGHTNINGS_DEFAULTS = {"precision": "32-true", "matmul_precision": "highest"}
LIGHTNINGS_EPOCHS = 1000


@dataclass(frozen=True)
class Translation:
    """Translates one composed configuration."""

    modules: Modules
    composed: ForeignConfig
    package: str  # where the modules lie now, such as `${package}.mnist`
    notes: Notes

    def there(self, name: str) -> dict[str, Any]:
        """A section as it is there; {} where it is none."""
        values = self.composed.values.get(name)
        return values if isinstance(values, dict) else {}

    def section(self, name: str) -> dict[str, Any]:
        """A section in the words of here; {} where it is none."""
        return self.value(self.there(name), "task" if name == "model" else name)

    def value(self, value: Any, key: str, is_resolved: bool = False) -> Any:
        """A value with targets and references as they are here.

        Args:
            key: dotted, for what is asked.
        """
        if isinstance(value, dict):
            return {
                name: self.value(item, f"{key}.{name}", is_resolved) for name, item in value.items()
            }
        if isinstance(value, list):
            return [self.value(item, f"{key}.{n}", is_resolved) for n, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        if key.endswith("._target_"):
            return self.target(value, key)
        if value == MISSING:
            self.notes.ask(f"{key} is ??? there: write its value, or type it with each command")
        return value if is_resolved or "${" not in value else self.referred(value, key)

    def target(self, target: str, key: str) -> str:
        """The name of a class or function where it lies now."""
        if target.startswith(f"{OLD_LIGHTNING}."):
            return LIGHTNING + target.removeprefix(f"{OLD_LIGHTNING}.")
        found = self.modules.find(target)
        if found is None:
            if self.modules.file_of(target.partition(".")[0]):
                self.notes.ask(f"{key} is {target}, which the repository has not: correct it")
            return target
        file, name = found
        return ".".join([self.package, *dotted_parts(new_place(file)), name])

    @cached_property
    def known(self) -> Any:
        """The whole configuration; see `known_here`."""
        return OmegaConf.create(known_here(self.composed.values))

    def referred(self, text: str, key: str) -> Any:
        """A text with its references `${...}`; those to what does not move along become values."""
        try:
            self.known[LEAF] = known_here([text])
            list_of_one: Any = OmegaConf.to_container(self.known[LEAF], resolve=True)
        except (OmegaConfBaseException, RecursionError):
            self.notes.ask(f"{key} is {text} there, which means nothing here: write its value")
            return MISSING
        return self.value(list_of_one[0], key, is_resolved=True)

    def trainer(self) -> dict[str, Any]:
        """The sections that the section `trainer` there becomes."""
        there = self.there("trainer").items()
        raw = {name: x for name, x in there if name not in OF_THE_RUN and x is not None}
        here = self.value(raw, "trainer")
        here.pop("accelerator", None)
        n_devices, n_nodes = here.pop("devices", 1), here.pop("num_nodes", 1)
        if n_devices not in (1, "auto") or n_nodes != 1:
            self.notes.ask(
                f"trainer.devices is {n_devices} on {n_nodes} node(s) there. Here: trainer.devices=N, or "
                "job.gpus=N and job.nodes=N of lab submit"
            )
        if here.get("strategy") in ("auto", "ddp"):
            del here["strategy"]
        sections: dict[str, Any] = {"trainer": here}
        for name, place in ELSEWHERE.items():
            value = here.pop(name, False)
            if value is not False:  # which is what they are here, too
                section, _, key = place.partition(".")
                sections.setdefault(section, {})[key] = value
        for name, value in LIGHTNINGS_DEFAULTS.items():
            here.setdefault(name, value)
        if "max_epochs" not in here and "max_time" not in here:
            here["max_epochs"] = -1 if here.get("max_steps", -1) != -1 else LIGHTNINGS_EPOCHS
        if self.composed.values.get("test") is False:
            here["test_after_fit"] = False
        return sections

    def device(self) -> str | None:
        """The option of the group `trainer` that means the accelerator."""
        accelerator = self.there("trainer").get("accelerator")
        return {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu"}.get(str(accelerator))

    def callbacks(self) -> dict[str, Any]:
        """The section `callbacks`. A checkpoint callback writes into the directory of the run."""
        kept: dict[str, Any] = {}
        for name, node in self.there("callbacks").items():
            if target := target_of(node):  # without one it does nothing
                place = "dirpath" if target.endswith(".ModelCheckpoint") else None
                node = {key: item for key, item in node.items() if key != place}
                kept[name] = self.value(node, f"callbacks.{name}")
        return kept

    def monitor(self) -> dict[str, Any]:
        """The section `checkpoint`: the metric that chooses best.ckpt; null where nothing says it."""
        for ending in (".ModelCheckpoint", ".EarlyStopping"):
            for node in self.callbacks().values():
                if node["_target_"].endswith(ending) and node.get("monitor") not in (None, MISSING):
                    return {"monitor": node["monitor"], "mode": node.get("mode", "min")}
        self.notes.ask(
            "no metric chooses best.ckpt: write checkpoint.monitor and checkpoint.mode, as val/loss and min"
        )
        return {"monitor": None}

    def tell_of_the_rest(self) -> None:
        """What has no place here, or is another one."""
        values = self.composed.values
        for name, node in self.there("logger").items():
            if target := target_of(node):
                self.notes.ask(f"logger.{name} is {target}; here: logger=NAME (lab docs watching)")
        if values.get("seed") is None:
            self.notes.tell("seed: none there, so each run differed. Here it is 0: seed=N")
        if values.get("test") and "ModelCheckpoint" in str(self.callbacks()):
            self.notes.tell(
                "the test took the best checkpoint there, and takes the final weights here. "
                "Of the best: lab eval RUN --checkpoint best"
            )


def known_here(value: Any) -> Any:
    """A value in which a reference that means something here is text, and one that does not is an error."""
    if isinstance(value, dict):
        return {key: known_here(item) for key, item in value.items()}
    if isinstance(value, list):
        return [known_here(item) for item in value]
    if not isinstance(value, str):
        return value
    if "${" in WHOLE.sub("", value):  # a reference inside another
        return NOTHING
    return WHOLE.sub(reference_here, value)


def reference_here(match: re.Match[str]) -> str:
    name = match[1].strip()
    if name == "paths.data_dir":
        name = "paths.data.0"  # the first place of paths.data
    elif not KEPT.match(name):
        return NOTHING if name.startswith("paths.") or ":" in name else match[0]
    return "\\${" + re.sub(r"^model\b", "task", name) + "}"


def target_of(node: Any) -> str | None:
    """The `_target_` of a section; None where there is none."""
    target = node.get("_target_") if isinstance(node, dict) else None
    return target if isinstance(target, str) else None


def difference(base: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """What to merge into `base` to get `value`, which has all keys of `base`."""
    changed: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict) and isinstance(base.get(key), dict):
            inner = difference(base[key], item)
            if inner:
                changed[key] = inner
        elif key not in base or base[key] != item or type(base[key]) is not type(item):
            changed[key] = item
    return changed
