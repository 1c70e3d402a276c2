"""`make site` in headless Chromium: every page asks nobody else and fits a phone; the search finds."""

import functools
import http.server
import subprocess
import sys
import threading

import pytest
from chromium import DESKTOP, PHONE, started_chromium
from playwright.sync_api import expect
from projects import ROOT

PAGES_WITH_PICTURES = (
    "cluster",
    "data-design",
    "own-data",
    "problems",
    "record",
    "report",
    "statistics",
    "trials",
    "watching",
)
pytestmark = pytest.mark.slow  # .ci/run installs the browser


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "hooks/site.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    with started_chromium() as browser:
        yield browser


@pytest.mark.release
def test_every_page_asks_nobody_else_and_fits_a_phone(site, address, browser):
    page = browser.new_page(viewport=PHONE)
    elsewhere = []
    page.on("request", lambda request: elsewhere.append(request.url))
    page.on("pageerror", lambda error: elsewhere.append(str(error)))
    wide = []
    pages = sorted(str(file.relative_to(site).parent) for file in site.rglob("index.html"))
    assert len(pages) > 40
    for folder in pages:
        page.goto(f"{address}{folder}/")
        if page.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
            wide.append(folder)
    page.close()
    assert [url for url in elsewhere if not url.startswith((address, "data:", "blob:"))] == []
    assert wide == []


@pytest.mark.release
def test_every_picture_is_shown(site, address, browser):
    """Each page that shows something has one, and the browser can draw it."""
    page = browser.new_page()
    shown = {}
    for name in ("index", *PAGES_WITH_PICTURES):
        page.goto(address if name == "index" else f"{address}{name}/")
        page.wait_for_load_state("load")
        widths = page.evaluate(
            "[...document.querySelectorAll('article img')].map(i => i.naturalWidth)"
        )
        shown[name] = bool(widths) and min(widths) > 300
    page.close()
    assert [name for name, is_shown in shown.items() if not is_shown] == []


def test_the_parts_of_the_site_are_tabs(address, browser):
    page = browser.new_page(viewport=DESKTOP)
    page.goto(address)
    tabs = [text.strip() for text in page.locator(".md-tabs__link").all_inner_texts()]
    assert {"Guide", "Reference", "Design", "Clusters"} <= set(tabs)
    page.locator(".md-tabs__link", has_text="Reference").click()
    page.wait_for_url(f"{address}command-line/")
    page.close()


def test_the_search_leads_to_a_page(address, browser):
    page = browser.new_page()
    page.goto(address)
    # Key by key: the search listens to keys, and not to what `fill` does on a loaded machine.
    page.locator("[data-md-component=search-query]").press_sequentially("preempted")
    # Not a list of all links: the search goes on replacing them while it is read.
    link = page.locator(f".md-search-result__link[href^='{address}cluster/']").first
    expect(link).to_be_attached()
    assert "preempted" in page.content()
    page.close()


def test_the_reference_has_shapes_and_errors(site):
    text = (site / "api/index.html").read_text(encoding="utf-8")
    assert "H5DataModule" in text
    assert "DataFileError" in text
    assert "Raises:" in text
