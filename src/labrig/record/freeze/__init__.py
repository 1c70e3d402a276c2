"""Freezes code: the work tree, the library and the environment of a run, kept and written out again."""
