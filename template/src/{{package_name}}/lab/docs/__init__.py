# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The pages for users of a project, docs/lab/*.md: they match its version and need no network."""

COMMANDS = [("docs", "the documentation of this version: lab docs training", "pages:docs_command")]
