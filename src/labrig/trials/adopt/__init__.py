"""`lab adopt`: brings code that was written elsewhere into this project, without running any of it."""

COMMANDS = [("adopt", "bring in code that was written elsewhere", "command:adopt_command")]
