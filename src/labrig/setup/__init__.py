"""`make setup`, `make add` and `make kernel`: environment, packages, git repository, hooks.

tools/bootstrap.py of the project has made an environment with the light half of labrig before, and
calls `lab setup` in it. Fast when all is done.
"""

COMMANDS = [
    ("setup", "what `make setup` does in the environment", "setup:setup_command"),
    (
        "vendor",
        "keep the wheel of labrig, or all wheels, with the project",
        "vendor:vendor_command",
    ),
]
