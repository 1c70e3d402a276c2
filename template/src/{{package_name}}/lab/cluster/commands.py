# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The commands of this folder."""

COMMANDS = [
    (
        "submit",
        "freeze the code and send it to a cluster: lab submit trial=wide site=slurm",
        "submit_command:submit_command",
    ),
    ("queue", "your jobs: run, state and why, age, GPU-hours", "jobs:queue_command"),
    ("logs", "what a run's job printed; -f follows it", "jobs:logs_command"),
    ("cancel", "end a run's job", "jobs:cancel_command"),
    ("shell", "an interactive shell on a node", "jobs:shell_command"),
    ("rank", "one process of a job (started by job scripts)", "rank:rank_command"),
    ("doctor", "what is wrong with this machine; --nodes: with the nodes of a short job", "doctor:doctor_command"),
    ("prefetch", "fetch what trial=NAME needs on nodes without internet", "prefetch:prefetch_command"),
    ("sync", "upload offline W&B runs", "prefetch:sync_command"),
    ("site show", "the profile of a cluster", "probe:show_command"),
    ("site init", "ask this cluster, and draft its profile", "probe:init_command"),
]
