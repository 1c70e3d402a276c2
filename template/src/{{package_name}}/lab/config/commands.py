# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of this folder."""

COMMANDS = [
    ("config", "print the composed configuration (--origin: which file set each key)", "compose:config_command"),
]
