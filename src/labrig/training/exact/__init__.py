"""Resumes exactly: random states, orders of batches, stops at a batch boundary."""
