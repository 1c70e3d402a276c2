"""Settings as dataclasses: Hydra checks their types, also on the command line."""

from dataclasses import dataclass, field
from enum import Enum

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


class Activation(Enum):
    relu = 1
    tanh = 2


@dataclass
class NetConfig:
    _target_: str = "regressor.Net"
    widths: list[int] = field(default_factory=lambda: [16, 8])
    activation: Activation = Activation.tanh


@dataclass
class OptimConfig:
    _target_: str = "torch.optim.Adam"
    _partial_: bool = True
    lr: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)


@dataclass
class TaskConfig:
    _target_: str = "regressor.Regressor"
    net: NetConfig = field(default_factory=NetConfig)
    optimizer: OptimConfig = field(default_factory=OptimConfig)
    noise: float = MISSING
    clip: float | None = None


@dataclass
class DataConfig:
    _target_: str = "regressor.Sines"
    batch_size: int = 16
    shuffle: bool = False


ConfigStore.instance().store(group="task", name="regressor", node=TaskConfig)
ConfigStore.instance().store(group="data", name="sines", node=DataConfig)
