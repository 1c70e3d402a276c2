"""`lab report --serve`: the page on this machine, which follows its runs.

Only this machine can connect, and only who knows the token in the address gets an answer: other
people of a login node do not. A page of another site that a browser sends here has another Host.
"""

from __future__ import annotations

import getpass
import hmac
import json
import platform
import secrets
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ..cluster.watch.job_states import job_state_of
from ..errors import LabError
from ..project import Project
from ..record.read.filters import Filter
from ..record.read.row_cache import file_stamp
from ..record.read.rows import run_directories
from ..record.read.status import UNENDED
from .figures import MEDIA, TABLE, CurveReader
from .gather import PageReport, RunsSource, gather_report
from .html_page import format_page, no_runs, packed_blocks

HOSTS = ("127.0.0.1", "localhost")
LOOKED_AT = ("", "metrics.jsonl", "notes.jsonl", "summary.json", "attempts", "pictures")  # of a run
RESTS = 4  # times what gathering took, before it is done again: others need the login node, too
ASK_AGAIN_S = 30  # the scheduler, while a run has not ended: no file tells that its job has died
TEXTS = (".yaml", ".json", ".jsonl", ".txt", TABLE)
TEXT = "text/plain; charset=utf-8"
PAGE = "text/html; charset=utf-8"
OF_ALL = {  # headers of each answer
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# For a file of a run: a picture may hold a program, which must not run here.
OF_FILES = {"Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'"}


@dataclass
class LivePage:
    """The report of some runs, which is gathered again when one of them has changed."""

    project: Project
    sources: list[RunsSource]
    filters: list[Filter]
    report: PageReport | None = None
    reader: CurveReader = field(default_factory=CurveReader)
    lock: Lock = field(default_factory=Lock)
    seen: Any = None  # what `look` gave for it
    rests_until_s: float = 0  # by time.monotonic

    def newest(self) -> PageReport:
        """The report of now. Its `version` is another one after each change."""
        with self.lock:
            seen = self.look()
            begin_s = time.monotonic()
            if self.report is None or (seen != self.seen and begin_s >= self.rests_until_s):
                self.seen = seen
                self.report = gather_report(
                    self.project, self.sources, self.filters, Path("/"), self.reader, job_state_of()
                )
                self.report.table["version"] = secrets.token_hex(4)
                end_s = time.monotonic()
                self.rests_until_s = end_s + RESTS * (end_s - begin_s)
            return self.report

    def look(self) -> tuple:
        """When each run last changed, and a number that changes while one has not ended."""
        directories = [each for source in self.sources for each in run_directories(*source.roots)]
        places = [f"{directory}/{name}" for directory in directories for name in LOOKED_AT]
        stamps = [(place, file_stamp(place)) for place in places]
        statuses = self.report.statuses if self.report else []
        is_open = any(status in UNENDED for status in statuses)
        return stamps, int(time.monotonic() / ASK_AGAIN_S) if is_open else 0

    def read_file(self, path: str) -> tuple[bytes, str] | None:
        """A file of a run to which the page links, and its media type; None for any other."""
        file = Path("/", path).resolve()
        roots = [root.resolve() for source in self.sources for root in source.roots]
        is_inside = any(file.is_relative_to(root) for root in roots)
        media = MEDIA | dict.fromkeys(TEXTS, TEXT)
        if not is_inside or file.suffix.lower() not in media or not file.is_file():
            return None
        return file.read_bytes(), media[file.suffix.lower()]


class Answers(BaseHTTPRequestHandler):
    """Answers one request; `server.page` is the LivePage, `server.token` what the address must have."""

    server: PageServer

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        _, token, place = [*address.path.split("/", 2), "", ""][:3]
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in HOSTS or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        page = self.server.page
        try:
            if place == "":
                self.answer(format_page(page.newest(), None, is_served=True).encode(), PAGE)
            elif place == "news":
                self.answer_news(parse_qs(address.query).get("after"))
            elif file := page.read_file(unquote(place)):
                content, media = file
                self.answer(content, media, is_file=True)
            else:
                self.send_error(HTTPStatus.NOT_FOUND)
        except LabError as error:  # such as a filter by a metric that no run has any more
            self.answer(str(error).encode(), TEXT, HTTPStatus.CONFLICT)
        except ConnectionError:
            return  # the browser was closed meanwhile

    def answer_news(self, after: list[str] | None) -> None:
        """The blocks of the page, unless it has them."""
        report = self.server.page.newest()
        if after == [report.table["version"]]:
            self.answer(b"", PAGE, HTTPStatus.NO_CONTENT)
        else:
            self.answer(json.dumps(packed_blocks(report)).encode(), "application/json")

    def answer(
        self, content: bytes, media: str, status: HTTPStatus = HTTPStatus.OK, is_file: bool = False
    ) -> None:
        self.send_response(status)
        of_content = {"Content-Type": media, "Content-Length": str(len(content))}
        for name, text in (OF_ALL | of_content | (OF_FILES if is_file else {})).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing: a log would hold the token."""


class PageServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, page: LivePage) -> None:
        super().__init__((HOSTS[0], 0), Answers)
        self.page = page
        self.token = secrets.token_urlsafe(24)


def serve_report(project: Project, sources: list[RunsSource], filters: list[Filter]) -> None:
    """Serves the page until Ctrl-C."""
    page = LivePage(project, sources, filters)
    report = page.newest()
    if not report.statuses:
        print(no_runs(report.table["n_all"]))
        return
    with PageServer(page) as server:
        port = server.server_address[1]
        tunnel = f"ssh -N -L {port}:localhost:{port} {getpass.getuser()}@{platform.node()}"
        try:
            print(f"http://localhost:{port}/{server.token}/")
            print("Keep this address to yourself; Ctrl-C ends it. On your laptop, first type:")
            print(f"  {tunnel}", flush=True)
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nno longer served")
