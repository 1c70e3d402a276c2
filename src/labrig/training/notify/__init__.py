"""A message when a run ends, or when its GPUs do nothing."""

PROVIDES = [
    ("check_notify", "notify:check_notify"),
    ("notify_end", "notify:notify_end"),
    ("notify_idle", "notify:notify_idle"),
]
