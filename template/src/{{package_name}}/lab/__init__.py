# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The template's machinery, one folder per capability. For notebooks: `from <package>.lab import load`."""
