"""What probes say of hosts made of text (the fixture `machine` of tests/conftest.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from busbw.core.finding import Finding
from busbw.doctor import Host, Report, examine

Machine = Callable[..., Host]


@pytest.fixture
def report(machine: Machine) -> Callable[..., Report]:
    """What all probes say of the base host with the named changes."""
    return lambda *changes: examine(machine(*changes))


def of(report: Report, probe: str) -> list[Finding]:
    """One probe's findings."""
    return [finding for finding in report.findings if finding.law == probe]


def numbers(finding: Finding) -> dict[str, float]:
    return {number.name: number.value for number in finding.numbers}
