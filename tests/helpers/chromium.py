"""Chromium without a window, for the tests of pages."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, expect, sync_playwright
from programs import need

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
expect.set_options(timeout=60_000)  # on a loaded machine


@contextmanager
def started_chromium() -> Iterator[Browser]:
    """Debian's browser: none is fetched."""
    chromium = need("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()
