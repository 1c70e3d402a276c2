"""Trackers of others, when `logger=` names them: W&B and MLflow, and what uploads to them later."""

COMMANDS = [("sync", "upload to W&B and MLflow what runs could not send", "sync:sync_command")]

PROVIDES = [
    ("wandb_logger", "wandb_logger:build_wandb_logger"),
    ("mlflow_logger", "mlflow_logger:build_mlflow_logger"),
    ("has_wandb_key", "wandb_access:has_wandb_key"),
]
