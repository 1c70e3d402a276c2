# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The record of runs: which code, settings, data and environment made each number. Plain files and plain git.

`run.Run` writes it, `attempt.Attempt` and `metrics.MetricsLog` complete it, `find.find` and `state.status`
read it.
"""
