"""A real browser: Debian's chromium, driven by playwright's Python package. Nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")  # no longer: its event loop runs as long as it does, and others may need their own
def browser() -> Iterator[Any]:
    """BUSBW_CHROMIUM names the program; without it the usual names are looked for. BUSBW_BROWSER=required: no skipping."""
    found = os.environ.get("BUSBW_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    required = os.environ.get("BUSBW_BROWSER") == "required"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "playwright is not installed: pip install 'busbw[test]'"
    else:
        missing = (
            "" if found else f"no browser ({', '.join(NAMES)} on PATH, or BUSBW_CHROMIUM): apt-get install chromium"
        )
    if missing:
        (pytest.fail if required else pytest.skip)(f"the page cannot be tested in a browser: {missing}")
    with sync_playwright() as playwright:
        # Its own sandbox needs rights that a container seldom gives; the pages here are our own.
        made = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()
