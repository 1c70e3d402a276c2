"""Reads a record: runs, attempts, rows, filters and which run is meant."""
