# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""One page of trials, runs and curves, that opens anywhere without a network."""

COMMANDS = [
    (
        "report",
        "one page of trials, runs, curves and cost, to open or mail",
        "report:report_command",
    ),
]
