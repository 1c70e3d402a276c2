# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The tree of ideas: trials, where each came from, and what came of it."""
