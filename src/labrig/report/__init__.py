"""One page of trials, runs and curves, that opens anywhere without a network."""

COMMANDS = [
    (
        "report",
        "one page of trials, runs, curves and cost, to open or mail",
        "report:report_command",
    ),
]
