# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`make setup`, `make add` and `make kernel`: environment, packages, git repository, hooks. Fast when all is done.

Standard library only, and syntax that old system Pythons read: nothing is installed yet.
"""
