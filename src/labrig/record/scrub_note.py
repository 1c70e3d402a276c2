"""What a record says of values that were taken out of it."""

from __future__ import annotations

from ..machine.counted import counted
from .schema import RunRecord


def format_scrubs(record: RunRecord) -> list[str]:
    """A line for each time that a leaked value was taken out."""
    lines = []
    for scrub in record.get("scrubbed", []):
        n_code = len({path for paths in scrub["code"].values() for path in paths})
        what = f"{counted(len(scrub['files']), 'file')} of the record"
        if scrub["code"]:
            what += f", {counted(n_code, 'file')} of the code, whose history was left out"
        lines.append(f"scrubbed {scrub['time']} by {scrub['who']}: {what}")
    return lines
