"""Lists runs: rows, columns, filters, `lab runs list`, `show` and `cost`, and curves."""
