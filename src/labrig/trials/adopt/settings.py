"""The settings of lightning-hydra-template in the words of this project."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .composed import ForeignConfig
from .modules import Modules, dotted_parts, new_place
from .plan import Notes

WHOLE = re.compile(r"\$\{([^${}]+)\}")
MISSING = "???"  # of Hydra: somebody must write it
KEPT_RESOLVERS = ("oc.env:", "oc.select:", "oc.decode:")
DATA_FOLDER = "${paths.data.0}"  # the first place of paths.data
MAX_REFERENCES = 20  # a value is followed through so many others
LIGHTNING = "lightning.pytorch."
OLD_LIGHTNING = "pytorch_lightning."
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
KNOWN_KEYS = (
    *("callbacks", "ckpt_path", "data", "extras", "logger", "model", "paths", "seed"),
    *("tags", "task_name", "test", "train", "trainer", "optimized_metric"),
)


@dataclass(frozen=True)
class Translation:
    """Translates one composed configuration.

    Args:
        package: where the modules lie now, such as `${package}.mnist`.
    """

    modules: Modules
    composed: ForeignConfig
    package: str
    notes: Notes

    def there(self, name: str) -> dict[str, Any]:
        """A section as it is there; {} where it is none."""
        values = self.composed.values.get(name)
        return values if isinstance(values, dict) else {}

    def section(self, name: str) -> dict[str, Any]:
        """A section in the words of here; {} where it is none."""
        return self.value(self.there(name), "task" if name == "model" else name)

    def value(self, value: Any, key: str) -> Any:
        """A value with targets and references as they are here.

        Args:
            key: dotted, for what is asked.
        """
        if isinstance(value, dict):
            return {name: self.value(item, f"{key}.{name}") for name, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, f"{key}.{n}") for n, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        if key.endswith("._target_"):
            return self.target(value, key)
        if value == MISSING:
            self.notes.ask(f"{key} is ??? there: write its value, or type it with each command")
            return value
        return self.referred(value, key, 0)

    def target(self, target: str, key: str) -> str:
        """The name of a class or function where it lies now."""
        if target.startswith(OLD_LIGHTNING):
            return LIGHTNING + target.removeprefix(OLD_LIGHTNING)
        found = self.modules.find(target)
        if found is None:
            if self.modules.file_of(target.partition(".")[0]):
                self.notes.ask(f"{key} is {target}, which the repository has not: correct it")
            return target
        file, name = found
        return ".".join([self.package, *dotted_parts(new_place(file)), name])

    def referred(self, text: str, key: str, depth: int) -> Any:
        """A text with its references `${...}`; those to what does not move along become values."""
        if "${" in WHOLE.sub("", text):
            self.notes.ask(f"{key} is {text} there, a reference inside another: write its value")
            return MISSING
        whole = WHOLE.fullmatch(text)
        if whole:
            return self.reference(whole[1].strip(), key, depth)
        values = [self.reference(one[1].strip(), key, depth) for one in WHOLE.finditer(text)]
        if any(value == MISSING or isinstance(value, dict | list) for value in values):
            return MISSING
        return WHOLE.sub(lambda _: str(values.pop(0)), text)

    def reference(self, name: str, key: str, depth: int) -> Any:
        """What `${name}` is here: a reference, or its value."""
        first = name.partition(".")[0]
        if name.startswith((".", *KEPT_RESOLVERS)) or first in ("data", "seed"):
            return f"${{{name}}}"
        if first == "model":
            return f"${{task{name[5:]}}}"
        if name == "paths.data_dir":
            return DATA_FOLDER
        value = self.raw(name)
        if first == "paths" or ":" in name or value is MISSING or depth > MAX_REFERENCES:
            self.notes.ask(f"{key} is ${{{name}}} there, which means nothing here: write its value")
            return MISSING
        if isinstance(value, str):
            return self.referred(value, key, depth + 1)
        return self.value(value, key)

    def raw(self, name: str) -> Any:
        """The value of a dotted key as it was written; MISSING where there is none."""
        value: Any = self.composed.values
        for part in name.split("."):
            if isinstance(value, list) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            elif isinstance(value, dict) and part in value:
                value = value[part]
            else:
                return MISSING
        return value

    def trainer(self) -> dict[str, Any]:
        """The sections that the section `trainer` there becomes."""
        raw = self.there("trainer")
        raw = {name: value for name, value in raw.items() if name not in OF_THE_RUN}
        here = {
            name: value for name, value in self.value(raw, "trainer").items() if value is not None
        }
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
            target = target_of(node)
            if target:
                place = "dirpath" if target.endswith(".ModelCheckpoint") else None
                node = {key: item for key, item in node.items() if key != place}
                kept[name] = self.value(node, f"callbacks.{name}")
            elif node is not None:
                self.notes.tell(f"callbacks.{name} has no _target_, and does nothing: left out")
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
        if values.get("ckpt_path") not in (None, MISSING):
            self.notes.ask(f"ckpt_path is {values['ckpt_path']} there; here: init_from=FILE")
        if values.get("train") is False:
            self.notes.ask("train is false there; here: lab eval RUN")
        if values.get("test") and "ModelCheckpoint" in str(self.callbacks()):
            self.notes.tell(
                "the test took the best checkpoint there, and takes the final weights here. "
                "Of the best: lab eval RUN --checkpoint best"
            )
        own = [key for key in values if key not in KNOWN_KEYS]
        if own:
            self.notes.tell(
                f"keys of your own: {', '.join(own)}. Where a section reads one, its value is written"
            )


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
