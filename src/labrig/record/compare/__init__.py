"""Compares runs: settings, code and results of two, and tables over many."""
