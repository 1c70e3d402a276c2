"""Lists runs: columns, `lab runs list`, `show` and `cost`, and curves."""
