# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The tree of trials: each is a directory."""

COMMANDS = [
    ("trials tree", "the trials, where each came from, and its best number", "tree:tree_command"),
    (
        "trials new",
        "start a trial from another: lab trials new wide --from baseline",
        "new:new_command",
    ),
]
