"""Training: settings, parts, Trainer, checkpoints, metrics; resuming, evaluating and loading a run."""

COMMANDS = [
    ("train", "train a trial here, now: lab train trial=baseline", "start.command:train_command"),
    (
        "resume",
        "continue a run; trainer.max_epochs=40 extends a finished one",
        "start.command:resume_command",
    ),
    ("eval", "evaluate a run's checkpoint on the test split", "trained.evaluate:eval_command"),
    (
        "predict",
        "write a run's predictions for a split, or for other data",
        "trained.predict:predict_command",
    ),
    (
        "runs compare",
        "the interval of a metric over one test set, and of two runs' difference",
        "trained.compare:compare_command",
    ),
    (
        "runs export-model",
        "a run's weights and model card, for others",
        "trained.export_model:export_command",
    ),
    ("check", "all that can be known to be wrong before training", "check:check_command"),
]

ROOMS = ["loggers", "notify"]
