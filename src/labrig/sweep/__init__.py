"""Search for good settings: many workers, one journal of points, each point a run."""

COMMANDS = [
    (
        "sweep",
        "search for settings: lab sweep trial=wide optimizer.lr=1e-3,3e-4",
        "command:sweep_command",
    ),
    (
        "sweep show",
        "a sweep: how far, the best points, which settings matter",
        "show:show_command",
    ),
    (
        "sweep worker",
        "one worker of a sweep (started by lab sweep)",
        "command:worker_command",
    ),
]

PROVIDES = [("pruning", "pruning:Pruning")]
