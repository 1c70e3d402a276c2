"""The page: one file of HTML, style, program and data. page/ holds its parts as plain files.

Nothing that a record says becomes HTML: all of it is data in base64, and the program shows it as
text. A content security policy lets the page run this program only, and load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from ..machine.known_secrets import hide_secrets
from .gather import Report
from .packing import pack

PARTS = Path(__file__).parent / "page"
LIBRARY = ("uplot/uPlot.iife.min.js",)
# In this order they are one program.
PROGRAM = (
    "dom.js",
    "data.js",
    "state.js",
    "filter.js",
    "columns.js",
    "table.js",
    "series.js",
    "chart.js",
    "curves.js",
    "scatter.js",
    "parallel.js",
    "sweep.js",
    "pictures.js",
    "differences.js",
    "trials.js",
    "cost.js",
    "leaderboard.js",
    "details.js",
    "main.js",
)
STYLES = ("uplot/uPlot.min.css", "style.css")


def format_page(report: Report, watch_s: float | None) -> str:
    """The whole page.

    Args:
        watch_s: seconds after which it loads itself again; None: never.
    """
    program = read_parts([*LIBRARY, *PROGRAM])
    table = json.dumps(report.table | {"watch_s": watch_s}, separators=(",", ":"))
    blocks = [data_block("table", pack(hide_secrets(table).encode("ascii")))]
    blocks += [data_block(f"curves-{n}", each.packed) for n, each in enumerate(report.curves)]
    blocks += [
        data_block(f"picture-{n}", picture.content)
        for n, picture in enumerate(report.pictures)
        if picture.content
    ]
    page = read_parts(["page.html"])
    replacements = {
        "<!-- policy -->": policy(program),
        "/* style */": read_parts(STYLES),
        "<!-- data -->": "\n".join(blocks),
        "/* program */": program,
    }
    for place, text in replacements.items():
        page = page.replace(place, text)
    return page


def read_parts(names: list[str] | tuple[str, ...]) -> str:
    return "\n".join((PARTS / name).read_text(encoding="utf-8") for name in names)


def data_block(name: str, packed: str) -> str:
    return f'<script type="text/plain" id="{name}">{packed}</script>'


def policy(program: str) -> str:
    """Lets the browser run this program only, and fetch nothing from anywhere."""
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode("ascii")
    rules = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'
