"""From a laptop: submit over ssh, and see, follow, cancel and fetch what was sent."""

COMMANDS = [
    (
        "submit",
        "freeze the code, send it: lab submit trial=wide site=slurm",
        "submit:submit_command",
    ),
    ("queue", "your jobs: state, why they wait, for how long, GPU-hours", "queue:queue_command"),
    ("logs", "what a run's job printed; -f follows it", "logs:logs_command"),
    ("cancel", "end a run's job", "cancel:cancel_command"),
    ("runs pull", "fetch the records of runs that were sent with on=HOST", "pull:pull_command"),
]
