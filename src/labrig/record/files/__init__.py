"""The files of a record: how they are written, sealed and read, and what they hold."""
