"""Keeps and removes runs: notes, tags, archives, pruning, and taking out a leaked value."""
