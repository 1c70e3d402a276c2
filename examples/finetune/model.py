"""A model of transformers, frozen, with adapters (LoRA) that are trained."""

import torch
from labrig import Project
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM


def with_adapters(base: str, rank: int, alpha: float) -> nn.Module:
    """The network of `base`, a folder in the project or a name on the hub; `init_from` loads its weights."""
    folder = Project.find().root / base
    config = AutoConfig.from_pretrained(folder if folder.exists() else base)
    with torch.random.fork_rng():  # random numbers that init_from replaces
        network = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    adapters = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear")
    return get_peft_model(network, adapters)
