# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Configuration: compose it, check every key and target before torch is imported, name the file of each key."""

COMMANDS = [
    ("config", "the composed settings (--origin: which file set each)", "show:config_command"),
]
