"""From a laptop: submit over ssh, and see, follow, cancel and fetch what was sent."""

COMMANDS = [
    (
        "submit",
        "freeze the code, send it: lab submit trial=wide site=slurm",
        "submit:submit_command",
    ),
    ("queue", "your jobs: state, why they wait, for how long, GPU-hours", "watch:queue_command"),
    ("logs", "what a run's job printed; -f follows it", "watch:logs_command"),
    ("cancel", "end a run's job", "watch:cancel_command"),
    ("runs pull", "fetch the records of runs that were sent with on=HOST", "pull:pull_command"),
    ("data push", "share a data file with a group, by its content", "stores.command:push_command"),
    ("data pull", "fetch a data file that was pushed", "stores.command:pull_command"),
    ("data list", "data sets here, or what a place of a group has", "stores.command:list_command"),
]
