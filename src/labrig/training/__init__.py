"""Training: settings, parts, Trainer, checkpoints, metrics; resuming, evaluating and loading a run."""

COMMANDS = [
    ("train", "train a trial here, now: lab train trial=baseline", "start:train_command"),
    (
        "resume",
        "continue a run; trainer.max_epochs=40 extends a finished one",
        "start:resume_command",
    ),
    ("eval", "evaluate a run's checkpoint on the test split", "evaluate:eval_command"),
    (
        "predict",
        "write a run's predictions for a split, or for other data",
        "predict:predict_command",
    ),
    ("check", "all that can be known to be wrong before training", "check:check_command"),
]
