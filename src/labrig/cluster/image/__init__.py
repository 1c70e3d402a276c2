"""The image of a job: all packages in one file, built once."""

COMMANDS = [
    ("image build", "the one file that jobs take their packages from", "build:build_command")
]

PROVIDES = [("image_of", "packed:image_of")]
