"""Builds the parts of a training: settings, task, data, weights, processes."""
