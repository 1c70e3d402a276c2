# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""From one command to many nodes: sites, job scripts, submit, queue, logs, and what is wrong with a machine."""
