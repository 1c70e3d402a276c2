"""Replaces an attribute of somebody else's object, and puts it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def replaced(owner: object, name: str, new: object) -> Iterator[None]:
    """`owner.name` is `new` within the block. Afterwards it is what it was, its own or
    inherited."""
    is_own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
