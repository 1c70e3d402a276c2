"""Warnings that are left out: each is one that Lightning or torch still words so, and others are shown."""

import ast
import inspect
import re
import warnings
from importlib import import_module

import pytest
from labrig.training.parts.trainer import IGNORED_WARNINGS, silence_lightning

MODULES = (
    "lightning.fabric.plugins.environments.slurm",
    "lightning.pytorch.callbacks.model_checkpoint",
    "lightning.pytorch.loops.fit_loop",
    "lightning.pytorch.loops.prediction_loop",
    "lightning.pytorch.trainer.connectors.data_connector",
    "torch.utils._pytree",
)
OWN = "srun: my loader has many workers, and writes to a checkpoint directory"


def texts_of(module):
    """Every text in a module, with 1 in place of each {value}."""
    for node in ast.walk(ast.parse(inspect.getsource(import_module(module)))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "1" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("beginning", IGNORED_WARNINGS)
def test_a_warning_that_is_left_out_still_exists(beginning):
    texts = [text for module in MODULES for text in texts_of(module)]
    message = max((text for text in texts if re.match(beginning, text)), key=len)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        silence_lightning()
        warnings.warn(message, stacklevel=1)
        warnings.warn(OWN, stacklevel=1)
    assert [str(warning.message) for warning in shown] == [OWN]
