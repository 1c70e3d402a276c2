# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The hooks of .pre-commit-config.yaml that no library has. Each repairs what it can, and says the rest."""
