"""Runs the frozen code of a run again, with its data and weights found again."""
