"""Debian's Chromium, headless, through Playwright."""

import shutil
from contextlib import contextmanager
from importlib.util import find_spec

# Without most of them Chromium talks to its maker at every start.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def unavailable():
    """Why there is no browser to test with; None where there is one."""
    if find_spec("playwright") is None:
        return "playwright is not installed"
    return None if shutil.which("chromium") else "there is no command 'chromium'"


@contextmanager
def chromium():
    """A browser, closed afterwards."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        yield browser
        browser.close()
