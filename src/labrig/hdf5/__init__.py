"""One HDF5 file per data set. What projects may import of it is in labrig.data."""

COMMANDS = [
    ("data pack", "pack raw data into one .h5 file", "pack.command:pack_command"),
    ("data append", "pack raw data into one more file of a data set", "pack.append:append_command"),
    ("data info", "what a data file holds, and where it fits", "file.info:info_command"),
    ("data verify", "check every byte of a data file", "file.info:verify_command"),
    ("data stage", "copy a data file to this node's memory or disk", "read.stage:stage_command"),
    ("data bench", "measure how fast each disk reads a data file", "read.disks:disks_command"),
]

PROVIDES = [("fact_of_data", "file.info:fact_of")]
