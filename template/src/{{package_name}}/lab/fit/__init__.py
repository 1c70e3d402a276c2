# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Training: settings, parts, Trainer, checkpoints, metrics; continuing, evaluating and loading a run."""
