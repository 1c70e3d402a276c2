"""What runs in a job on its node: the script, its ranks, Python and packages."""
