"""The rules of hooks/check_release.py: one file for each thing that a release can break."""
