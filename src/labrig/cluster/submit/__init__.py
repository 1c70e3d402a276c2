"""Submits: from the command line to the job script and the scheduler's answer."""
