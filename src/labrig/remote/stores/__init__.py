"""Places where a group shares data files by their content: a folder, a host, or storage like S3."""
