# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""What an update of the template needs to know of this project, and the name of its package."""

COMMANDS = [
    ("rename", "give the package another name, everywhere", "rename:rename_command"),
]
