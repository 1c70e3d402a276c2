"""A number with its noun, as a message says it."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """`1 run`, `2 runs`; `1 process`, `2 processes`; `1 batch`, `2 batches`."""
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun}es" if noun.endswith(("s", "ch")) else f"{n} {noun}s"
