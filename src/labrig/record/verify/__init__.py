"""Verifies a record: every file, the code and the results are as they were written."""
