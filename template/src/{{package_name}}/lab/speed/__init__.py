# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Time: none that a step does not need."""
