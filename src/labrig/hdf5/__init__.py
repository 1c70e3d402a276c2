"""One HDF5 file per data set. What projects may import of it is in labrig.data."""

COMMANDS = [
    ("data pack", "pack raw data into one .h5 file", "pack:pack_command"),
    ("data info", "what a data file holds, and where it fits", "info:info_command"),
    ("data verify", "check every byte of a data file", "checksum:verify_command"),
    ("data stage", "copy a data file to this node's memory or disk", "stage:stage_command"),
    ("data bench", "measure how fast each disk reads a data file", "disks:disks_command"),
]
