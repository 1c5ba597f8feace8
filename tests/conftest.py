"""What all tests share: how long random testing runs, where other people's files lie, a host of files, a browser."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from busbw.host import Host

FUZZ_CASES = int(os.environ.get("BUSBW_FUZZ_CASES", "0"))

settings.register_profile("short", max_examples=200, deadline=None, derandomize=True)
settings.register_profile(
    "campaign", max_examples=max(FUZZ_CASES, 1), deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("campaign" if FUZZ_CASES else "short")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def golden() -> Path:
    """Small files in the real layouts."""
    return ROOT / "tests" / "golden"


@pytest.fixture(scope="session")
def seed_files() -> list[Path]:
    """The post's own results; they lie beside some checkouts and are not part of the repository."""
    found = sorted((ROOT.parent / "shared" / "data" / "seed").glob("*.csv"))
    if not found:
        pytest.skip("the post's CSV files do not lie beside this checkout (../shared/data/seed)")
    return found


# --- hosts made of text: `base.host`, and files laid over it with one thing changed ---


def entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Of `=== PATH [-> TARGET | absent | hex LENGTH]` and the lines below it: path, what it is, text."""
    for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        match = re.fullmatch(r"(/\S+)(?: (-> .+|absent|hex \d+))?", head)
        assert match is not None, head
        yield match[1], match[2] or "", body


def write(root: Path, text: str) -> None:
    for path, kind, body in entries(text):
        place = root / path[1:]
        if place.is_symlink() or place.is_file():
            place.unlink()
        elif place.is_dir():
            shutil.rmtree(place)
        if kind == "absent":
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind.startswith("-> "):
            place.symlink_to(kind[3:])
        elif kind.startswith("hex "):
            data = bytearray(int(kind[4:]))
            for line in body.splitlines():
                offset, _, digits = line.partition(": ")
                new = bytes.fromhex(digits)
                data[int(offset, 16) : int(offset, 16) + len(new)] = new
            place.write_bytes(data)
        else:
            place.write_text(body)


@pytest.fixture
def machine(tmp_path: Path, golden: Path) -> Callable[..., Host]:
    """The base host with the named changes."""

    def build(*changes: str) -> Host:
        root = tmp_path / "-".join(("host", *changes))
        root.mkdir()
        for name in ("base", *changes):
            write(root, (golden / "doctor" / f"{name}.host").read_text())
        return Host(root)

    return build


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")  # no longer: its event loop runs as long as it does, and others may need their own
def browser() -> Iterator[Any]:
    """BUSBW_CHROMIUM names the program; without it the usual names are looked for. BUSBW_BROWSER=required: no skipping."""
    found = os.environ.get("BUSBW_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    required = os.environ.get("BUSBW_BROWSER") == "required"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "playwright is not installed: pip install 'busbw[test]'"
    else:
        missing = (
            "" if found else f"no browser ({', '.join(BROWSERS)} on PATH, or BUSBW_CHROMIUM): apt-get install chromium"
        )
    if missing:
        (pytest.fail if required else pytest.skip)(f"the page cannot be tested in a browser: {missing}")
    with sync_playwright() as playwright:
        # Its own sandbox needs rights that a container seldom gives; the pages here are our own.
        made = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()
