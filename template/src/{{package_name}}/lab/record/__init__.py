# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The record of runs: which code, settings, data and environment made each number. Plain files and plain git.

`snapshot` freezes the code, `bundle` keeps it, `run` writes the record, `attempt` and `files.MetricsLog` complete it;
`rows`, `listing` and `verify` read it.
"""
