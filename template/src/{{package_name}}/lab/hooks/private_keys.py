# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The check `private-keys`: no private key is committed."""

from __future__ import annotations


def main(names: list[str]) -> int:
    """Prints which of the files `names` hold a private key; 1 when one does."""
    from pre_commit_hooks.detect_private_key import main as refuse_private_keys

    return refuse_private_keys(["--", *names])
