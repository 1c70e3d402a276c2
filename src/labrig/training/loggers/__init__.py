"""Loggers: metrics.jsonl always; CSV, TensorBoard, W&B and MLflow when asked."""
