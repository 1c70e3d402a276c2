"""The version: a constant, since a job may run frozen files next to another installed version."""

__version__ = "0.1.0.dev0"
