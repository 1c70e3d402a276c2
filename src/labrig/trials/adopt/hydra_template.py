"""Adopts a repository of the lightning-hydra-template family: configs/ in groups, `_target_`s, src/."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...errors import LabError
from ...project import Project
from .composed import Configs, ForeignConfig
from .copied import add_modules, ask_for_packages
from .modules import Modules
from .plan import AdoptionPlan, trial_name
from .settings import Translation, difference

EXPERIMENT = "experiment"
# Groups of the family that have their own place here
KNOWN_GROUPS = (
    *("callbacks", "data", "debug", EXPERIMENT, "extras", "hparams_search", "hydra", "local"),
    *("logger", "model", "paths", "trainer"),
)
NEEDS_RICH = (".RichProgressBar", ".RichModelSummary")
DEBUG = "debug/: here it is +debug=overfit, +debug=limit, or lab check (lab docs debugging)"
SEARCH = (
    "hparams_search/: here it is lab sweep, with the ranges as they are typed (lab docs sweeps)"
)


@dataclass
class HydraTemplate:
    """What is known while a repository of the family is read.

    Args:
        name: of the new directory in the package, and of the trial of the primary file.
    """

    configs: Configs
    modules: Modules
    plan: AdoptionPlan
    name: str
    targets: set[str] = field(default_factory=set)
    options: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def adopt(self) -> None:
        """Fills the plan.

        Raises:
            LabError: the primary file cannot be composed, or a module cannot be read.
        """
        primary = f"{self.configs.folder}/{self.configs.primary}.yaml"
        self.add_trial(self.name, self.configs.compose(), primary)
        for option in self.configs.groups.get(EXPERIMENT, []):
            origin = f"{self.configs.folder}/{EXPERIMENT}/{option}.yaml"
            try:
                composed = self.configs.compose(self.configs.choose(EXPERIMENT, option))
            except LabError as error:
                self.plan.notes.ask(f"{origin} was left out. {error}")
                continue
            self.add_trial(self.free_trial(option), composed, origin)
        for group in ("data", "model"):
            for option in self.configs.groups.get(group, []):
                try:
                    self.option(group, option)
                except LabError as error:
                    self.plan.notes.ask(f"{group}/{option}.yaml was left out. {error}")
        self.add_modules()
        self.tell_of_groups()

    def translation(self, composed: ForeignConfig) -> Translation:
        package = f"${{package}}.{self.name}"
        is_task = self.kind_of(composed.values.get("model")) != "network"
        return Translation(self.modules, composed, package, is_task, self.plan.notes)

    def kind_of(self, node: Any) -> str:
        """What the class of a section is: task, network, data; "" where that is not known."""
        if not isinstance(node, dict) or not isinstance(node.get("_target_"), str):
            return ""
        found = self.modules.find(node["_target_"])
        return self.modules.kind(*found) if found else ""

    def add_trial(self, name: str, composed: ForeignConfig, origin: str) -> None:
        """Adds a trial, and the options that it chooses."""
        there = self.translation(composed)
        self.targets |= targets_in(composed.values)
        chosen: list[Any] = []  # options of groups that the project has not chosen before
        overrides: list[Any] = []  # Hydra wants them last
        sections: dict[str, Any] = {}
        if device := there.device():
            overrides.append({"override /trainer": device})
        if loggers := there.loggers():
            overrides.append({"override /logger": loggers if len(loggers) > 1 else loggers[0]})
        for group in ("data", "model", "callbacks"):
            section = there.callbacks() if group == "callbacks" else there.section(group)
            choice = composed.choices.get(group)
            here = group_here(group, there)
            if not section:
                continue
            if isinstance(choice, str) and choice in self.configs.groups.get(group, []):
                option, base = self.option(group, choice)
                if here in ("task", "model"):
                    chosen.append({f"/{here}": option})
                else:
                    overrides.append({f"override /{here}": option})
                section = difference(base, section)
            if section:
                sections[here] = section
        if there.composed.values.get("seed") is not None:
            sections["seed"] = there.composed.values["seed"]
        sections |= there.trainer()
        sections |= checkpoint_section(there.monitor())
        there.tell_of_the_rest()
        self.plan.add_trial(name, {"defaults": chosen + overrides} | sections, origin)

    def option(self, group: str, choice: str) -> tuple[str, dict[str, Any]]:
        """The name here of an option of a group, which is added to the plan, and what it holds.

        Raises:
            LabError: it cannot be composed.
        """
        if (group, choice) not in self.options:
            composed = self.configs.compose(self.configs.choose(group, choice))
            there = self.translation(composed)
            self.targets |= targets_in(composed.values.get(group))
            section = there.callbacks() if group == "callbacks" else there.section(group)
            here = group_here(group, there)
            name = self.plan.free_option(here, choice.replace("/", "_"), self.name)
            if section:
                origin = f"{self.configs.folder}/{group}/{choice}.yaml"
                self.plan.add_option(here, name, section, origin)
            self.options[group, choice] = (name, section)
        return self.options[group, choice]

    def free_trial(self, option: str) -> str:
        """The name of a trial for an experiment."""
        name = trial_name(option)
        is_taken = name in self.plan.trials or (self.plan.project.source / "trials" / name).exists()
        return f"{self.name}_{name}" if is_taken else name

    def add_modules(self) -> None:
        """Adds the modules that a `_target_` names, and all that they import."""
        found = [self.modules.find(target) for target in sorted(self.targets)]
        files = {place[0] for place in found if place}
        folder = f"{self.plan.package}/{self.name}"
        copied = add_modules(self.plan, self.modules, files, folder)
        packages = {
            target.partition(".")[0]: f"_target_: {target}"
            for target in sorted(self.targets)
            if "." in target and not self.modules.find(target)
        }
        rich = [target for target in self.targets if target.endswith(NEEDS_RICH)]
        if rich:
            packages["rich"] = rich[0]
        ask_for_packages(self.plan.notes, packages)
        left_out = [name for name in self.modules.files if name not in copied]
        if left_out:
            self.plan.notes.tell(f"not copied, since no _target_ needs them: {shortened(left_out)}")

    def tell_of_groups(self) -> None:
        notes = self.plan.notes
        groups = self.configs.groups
        if "debug" in groups:
            notes.tell(DEBUG)
        if "hparams_search" in groups:
            notes.ask(SEARCH)
        for group in sorted(groups.keys() - {*KNOWN_GROUPS}):
            notes.ask(
                f"{group}/ is a group of your own with {len(groups[group])} option(s). Its values are "
                f"written where something reads them. To choose between them: copy it to conf/{group}/"
            )
        if self.modules.repository.links:
            notes.tell(f"links are not followed: {shortened(list(self.modules.repository.links))}")


def adopt_hydra_template(
    project: Project, configs: Configs, modules: Modules, name: str
) -> AdoptionPlan:
    """The plan for a repository with configs.

    Raises:
        LabError: it cannot be read or composed.
    """
    plan = AdoptionPlan(project, configs.repository.name)
    HydraTemplate(configs, modules, plan, name).adopt()
    return plan


def group_here(group: str, there: Translation) -> str:
    return "task" if group == "model" and there.is_task else group


def checkpoint_section(values: dict[str, Any]) -> dict[str, Any]:
    return {"checkpoint": values} if values else {}


def targets_in(values: Any) -> set[str]:
    """Every `_target_` below a section."""
    if isinstance(values, list):
        return {target for item in values for target in targets_in(item)}
    if not isinstance(values, dict):
        return set()
    own = {values["_target_"]} if isinstance(values.get("_target_"), str) else set()
    return own | {target for item in values.values() for target in targets_in(item)}


def shortened(names: list[str], n_shown: int = 4) -> str:
    shown = ", ".join(sorted(names)[:n_shown])
    return shown if len(names) <= n_shown else f"{shown} and {len(names) - n_shown} more"
