"""Watches a training: lines, means, health, profilers, messages to people."""
