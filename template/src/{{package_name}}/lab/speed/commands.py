# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of this folder."""

COMMANDS = [
    ("bench", "where the time of a step goes, and what the whole training will take", "bench:bench_command"),
]
