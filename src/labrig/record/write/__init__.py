"""Writes a record: a run is created, an attempt begins, trains and ends."""
