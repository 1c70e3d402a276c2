"""Adopts a repository of the lightning-hydra-template family: configs/ in groups, `_target_`s, src/."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...errors import LabError
from ...project import Project
from .composed import Configs, ForeignConfig
from .modules import Modules, new_place
from .plan import AdoptionPlan, shortened, trial_name
from .settings import Translation, difference

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
                self.plan.notes.tell(f"not copied: {shortened(names, 4)} ({why})")


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
