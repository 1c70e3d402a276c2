"""Reads a data file in a training: find, stage, order, load."""
