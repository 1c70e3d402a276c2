import hydra
from omegaconf import DictConfig


def instantiate_all(section: DictConfig | None) -> list:
    """An object for each entry with a `_target_`."""
    parts = (section or {}).values()
    return [hydra.utils.instantiate(part) for part in parts if part and "_target_" in part]
