"""Watches jobs: their states and ends, queue, logs, GPUs; stops them, and syncs what they could not send."""
