# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The checks of a commit, which one hook of .pre-commit-config.yaml runs. Each repairs what it can."""
