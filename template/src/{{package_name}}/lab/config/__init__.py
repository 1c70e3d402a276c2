# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Configuration: compose it, check every key and target before anything slow is imported, say where each key came from."""

COMMANDS = [
    ("config", "the composed settings (--origin: which file set each)", "show:config_command"),
]
