"""Places where a group shares data files by their content: a folder, a host, or storage like S3."""

COMMANDS = [
    ("data push", "share a data file with a group, by its content", "command:push_command"),
    ("data pull", "fetch a data file that was pushed", "command:pull_command"),
    ("data list", "data sets here, or what a place of a group has", "command:list_command"),
]
