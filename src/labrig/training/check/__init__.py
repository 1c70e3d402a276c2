"""`lab check`: what can be known to be wrong before a training."""
