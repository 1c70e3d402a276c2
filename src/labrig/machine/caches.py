"""Where packages, models and compiled code are kept for the next time: on the disk of `paths.caches`.

`make setup`, every command and every job take their variables from here. It needs the standard
library only: the setup calls it before anything is installed.
"""

from __future__ import annotations

import os
from pathlib import Path

# variable -> its directory in paths.caches
CACHES = {
    "UV_CACHE_DIR": "uv",
    "UV_PYTHON_INSTALL_DIR": "python",  # the Pythons that uv fetches
    "PIP_CACHE_DIR": "pip",
    "PRE_COMMIT_HOME": "pre-commit",
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
    "NUMBA_CACHE_DIR": "numba",
    "MPLCONFIGDIR": "matplotlib",
    "WANDB_CACHE_DIR": "wandb",
    "WANDB_DATA_DIR": "wandb-data",
}
# the directory that these variables were last led to; named in labrig/env.py too
ROOT = "LAB_CACHES"


def cache_variables(caches: Path | str | None) -> dict[str, str]:
    """The variables that lead every cache below `caches`; {} for None.

    What a user has set is left out: that place wins.
    """
    if caches is None:
        return {}
    set_by_user = own_cache_variables()
    variables = {
        name: os.path.join(caches, folder)
        for name, folder in CACHES.items()
        if name not in set_by_user
    }
    return {ROOT: str(caches), **variables}


def own_cache_variables() -> dict[str, str]:
    """Those of the variables that were set by the user, and not by `cache_variables`."""
    former = os.environ.get(ROOT)
    return {
        name: os.environ[name]
        for name, folder in CACHES.items()
        if os.environ.get(name)
        and not (former and os.environ[name] == os.path.join(former, folder))
    }
