# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of this folder."""

COMMANDS = [
    ("bench", "where a step's time goes, and what a training will take", "bench:bench_command"),
    ("trials tree", "the trials, where each came from, and its best number", "trials:tree_command"),
    ("trials new", "start a trial from another: lab trials new wide --from baseline", "trials:new_command"),
    ("runs prune", "delete runs that nobody needs", "runs:prune_command"),
    ("runs cost", "hours, GPU-hours and energy of all runs", "runs:cost_command"),
]
