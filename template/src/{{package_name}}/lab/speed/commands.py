# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of this folder."""

COMMANDS = [
    ("data bench", "measure how fast each disk gives the data", "storage:bench_command"),
]
