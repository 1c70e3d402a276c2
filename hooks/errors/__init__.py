"""The messages of lab's errors, read from its code: see ../error_catalogue.py."""
