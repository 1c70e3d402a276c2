# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Where compilers keep what they compiled for a program."""

from __future__ import annotations

import os

VARIABLES = {
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TRITON_CACHE_DIR": "triton",
    "NUMBA_CACHE_DIR": "numba",  # of functions with cache=True
}


def set_compile_caches(scratch: str | None) -> None:
    """Puts them on `paths.scratch`, instead of a small home or the directory of the code; before
    the compilers are imported. None leaves them where they are."""
    if scratch is None:
        return
    for variable, folder in VARIABLES.items():
        os.environ[variable] = f"{scratch}/compiled/{folder}"
