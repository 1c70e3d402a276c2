# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The machine under the program: processors, memory, file systems, ranks. Standard library only."""
