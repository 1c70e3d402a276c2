"""Starts trainings: `lab train`, `lab resume`, `-m`, and trials that are programs."""
