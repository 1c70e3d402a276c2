"""The image of a job: all packages in one file, built once."""
