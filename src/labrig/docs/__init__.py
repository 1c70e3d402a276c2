"""The pages, docs/*.md: they match the version that is installed, and need no network."""

COMMANDS = [("docs", "the documentation of this version: lab docs training", "pages:docs_command")]
