# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The check `large-files`: data belongs in data/, results in runs/, and not in git."""

from __future__ import annotations

MAX_KB = 1000


def main(names: list[str], max_kb: int = MAX_KB) -> int:
    """Prints which of the files `names` have more than `max_kb` kB (1024 bytes); 1 when one has."""
    from pre_commit_hooks.check_added_large_files import main as refuse_large_files

    refused = refuse_large_files(["--enforce-all", f"--maxkb={max_kb}", "--", *names])
    if refused:
        print(
            "Data belongs in data/, results in runs/; git ignores both.\n"
            "To raise the limit: args: [--max-kb=N] in .pre-commit-config.yaml"
        )
    return refused
