"""The section of the configuration that the record reads. hooks/settings_files.py writes it to conf/lab.yaml."""

from __future__ import annotations

from typing import Literal

from ..config.setting import setting, settings_class


@settings_class
class RecordSettings:
    dirty: Literal["snapshot", "refuse"] = setting(
        "snapshot",
        "snapshot: freezes uncommitted changes too | refuse: runs committed code only",
    )
    max_file_mb: int = setting(
        10,
        "; larger files that git does not track are left out of the snapshot, and named",
        unit="MB (10**6 bytes)",
        least=0,
    )
    code: Literal["refuse", "warn"] = setting(
        "refuse",
        "what to do when a run imports a file of the project that the frozen code lacks, "
        "such as one that git ignores",
    )
    unfrozen: Literal["warn", "refuse"] = setting(
        "warn",
        "what to do when a run reads another file of the project that the frozen code lacks; "
        "warn: its hash is recorded",
    )
    env: Literal["warn", "refuse"] = setting(
        "warn", "what to do when the environment differs from the recorded one"
    )
    env_vars: list[str] = setting(
        [], "names or patterns of environment variables whose values are recorded: [MY_*]"
    )
    package_files: bool = setting(
        False,
        "true: compares every installed file with the hash of its installation (seconds), "
        "so that edits are recorded",
    )
    deterministic: bool = setting(
        False,
        "true: only deterministic kernels (slower on a GPU; sets CUBLAS_WORKSPACE_CONFIG)",
    )
