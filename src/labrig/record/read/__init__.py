"""Reads a record: a run, its attempts, its status, its settings, its metrics."""
