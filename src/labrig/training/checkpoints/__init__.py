"""Checkpoints: written whole, found again."""
