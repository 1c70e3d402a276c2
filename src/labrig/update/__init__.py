"""What an update of the template needs to know of this project."""

COMMANDS = [
    (
        "update-branch",
        "the template's newest release on a branch, for a weekly job",
        "branch:update_branch_command",
    ),
]
