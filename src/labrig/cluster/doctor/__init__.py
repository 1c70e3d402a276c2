"""`lab doctor`: what is wrong with this machine, or with nodes, and what to do about it."""
