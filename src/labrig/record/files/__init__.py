"""The files of a record: how they are written, listed and read, and what they hold."""
