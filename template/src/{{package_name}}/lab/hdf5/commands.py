# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of this folder."""

COMMANDS = [
    ("data pack", "pack raw data into one .h5 file", "data_commands:pack_command"),
    ("data info", "what a data file holds, and where it fits", "data_commands:info_command"),
    ("data verify", "check every byte of a data file", "data_commands:verify_command"),
    ("data stage", "copy a data file to this node's memory or disk", "data_commands:stage_command"),
]
