# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of the record."""

COMMANDS = [
    ("snapshot", "freeze the working tree, print the commit", "snapshot:snapshot_command"),
    ("runs list", "list runs, newest first", "listing:list_command"),
    ("runs show", "one run: what ran, how it went, where it is", "listing:show_command"),
    ("runs diff", "what two runs have different", "verify:diff_command"),
    ("runs code", "write the frozen code of a run", "verify:code_command"),
    ("runs reproduce", "run a run again, from its frozen code", "verify:reproduce_command"),
    ("runs verify", "is a run as recorded, or two runs the same?", "verify:verify_command"),
    ("runs note", "add a note to a run", "run:note_command"),
    ("runs tag", "tag a run", "run:tag_command"),
    ("", "what finished, failed or continued since you last looked", "listing:news_command"),
]
