# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of the record."""

COMMANDS = [
    ("snapshot", "freeze the working tree, print the commit", "snapshot:snapshot_command"),
    ("runs diff", "what two runs have different", "verify:diff_command"),
    ("runs code", "write the frozen code of a run", "verify:code_command"),
    ("runs verify", "is a run as recorded, or two runs the same?", "verify:verify_command"),
    ("runs note", "add a note to a run", "run:note_command"),
    ("runs tag", "tag a run", "run:tag_command"),
]
