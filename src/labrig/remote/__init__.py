"""From a laptop: submit over ssh, and see, follow, cancel and fetch what was sent."""

COMMANDS = [
    ("runs pull", "fetch the records of runs that were sent with on=HOST", "pull:pull_command"),
]

PROVIDES = [
    ("submit_to_hosts", "submit_to_hosts:submit_to_hosts"),
    ("jobs_elsewhere", "watch:jobs_elsewhere"),
    ("logs_elsewhere", "watch:logs_elsewhere"),
    ("cancel_elsewhere", "watch:cancel_elsewhere"),
]

ROOMS = ["stores"]
