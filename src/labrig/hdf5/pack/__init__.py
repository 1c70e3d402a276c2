"""`lab data pack`: raw data into one data file."""
