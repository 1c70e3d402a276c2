"""The checks of a commit, which one hook of .pre-commit-config.yaml runs. Each repairs what it can."""

COMMANDS = [("hooks", "the checks of a commit, on all files", "checks:hooks_command")]
