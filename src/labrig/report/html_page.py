"""The page: one file of HTML, style, program and data. page/ holds its parts as plain files."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from ..machine.secrets import hide_secrets
from ..machine.text_formats import counted
from .figures import pack
from .gather import PageReport

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


def format_page(report: PageReport, watch_s: float | None) -> str:
    """The whole page.

    Args:
        watch_s: seconds after which it loads itself again; None: never.
    """
    program = read_parts([*LIBRARY, *PROGRAM])
    page = read_parts(["page.html"])
    table = json.dumps(report.table | {"watch_s": watch_s}, separators=(",", ":"))
    data = {"table": pack(hide_secrets(table).encode("ascii"))}
    data |= {f"curves-{n}": each.packed for n, each in enumerate(report.curves)}
    data |= {f"picture-{n}": each.content for n, each in enumerate(report.pictures) if each.content}
    replacements = {
        "<!-- policy -->": policy(program),
        "/* style */": read_parts(STYLES),
        "<!-- data -->": "\n".join(data_block(name, packed) for name, packed in data.items()),
        "/* program */": program,
    }
    for place, text in replacements.items():
        page = page.replace(place, text)
    return page


def read_parts(names: list[str] | tuple[str, ...]) -> str:
    return "\n".join((PARTS / name).read_text(encoding="utf-8") for name in names)


def data_block(name: str, packed: str) -> str:
    return f'<script type="text/plain" id="{name}">{packed}</script>'


def is_page(content: bytes) -> bool:
    """Whether a file is a page of this or an earlier version: it has the block of the table."""
    begins_so = content.startswith(b"<!doctype html>")
    return begins_so and data_block("table", "").partition("</")[0].encode() in content


def policy(program: str) -> str:
    """Lets the browser run this program only, and fetch nothing from anywhere."""
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode("ascii")
    rules = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def no_runs(n_all: int) -> str:
    """Why there is nothing to show."""
    if n_all:
        return f"none of {counted(n_all, 'run')}, so no page was written"
    return "no runs yet. Make one with: lab train trial=baseline"
