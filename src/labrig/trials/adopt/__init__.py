"""`lab adopt`: brings code that was written elsewhere into this project, without running any of it."""
