# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of this folder."""

COMMANDS = [
    ("config", "the composed settings (--origin: which file set each)", "compose:config_command"),
]
