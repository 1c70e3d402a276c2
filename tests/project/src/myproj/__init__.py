"""The research code. `lab --help` tells what can be done with it."""
