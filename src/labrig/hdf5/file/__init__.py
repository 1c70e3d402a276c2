"""The data file: its layout, reading and writing it whole, its hashes."""
