"""What all tests share: how long random testing runs, and where other people's files lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
