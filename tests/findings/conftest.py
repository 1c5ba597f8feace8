from __future__ import annotations

from pathlib import Path

import pytest

from busbw.core.finding import Finding
from busbw.findings import explain
from busbw.formats import read_results


@pytest.fixture(scope="session")
def seed_findings(seed_files: list[Path]) -> dict[str, Finding]:
    """What explaining says of the post's own results, by law."""
    found = explain([read_results(str(path)) for path in seed_files])
    return {finding.law: finding for finding in found}
