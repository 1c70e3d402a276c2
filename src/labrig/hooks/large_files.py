"""The check `large-files`: data belongs in data/, results in runs/, and not in git."""

from __future__ import annotations

import os
import subprocess

MAX_KB = 1000
KEPT = "vendor/labrig-"  # the wheel of `lab vendor`


def main(names: list[str], max_kb: int = MAX_KB) -> int:
    """Prints which of the files `names` have more than `max_kb` kB (1024 bytes); 1 when one has."""
    sizes_kb = {name: -(-os.path.getsize(name) // 1024) for name in names}
    large = [name for name, size_kb in sizes_kb.items() if size_kb > max_kb]
    refused = [name for name in large if not (name.startswith(KEPT) or is_in_lfs(name))]
    for name in refused:
        print(f"{name} ({sizes_kb[name]} KB) exceeds {max_kb} KB.")
    if refused:
        print(
            "Data belongs in data/, results in runs/; git ignores both.\n"
            "To raise the limit: args: [--max-kb=N] in .pre-commit-config.yaml"
        )
    return int(bool(refused))


def is_in_lfs(name: str) -> bool:
    """Whether git keeps only a pointer of a file, by its attributes."""
    command = ["git", "check-attr", "filter", "--", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.rstrip().endswith(": filter: lfs")
