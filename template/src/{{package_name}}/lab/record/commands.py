# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of the record."""

COMMANDS = [
    ("snapshot", "freeze the working tree, print the commit", "plumbing:snapshot_command"),
    ("runs list", "list runs, newest first", "listing:list_command"),
    ("runs show", "one run: what ran, how it went, where it is", "show:show_command"),
    ("", "what finished, failed or continued since you last looked", "news:news_command"),
]
