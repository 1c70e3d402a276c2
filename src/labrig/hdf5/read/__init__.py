"""Reads a data file in a training: stage, order, load."""
