"""The page of findings names every law, fact and machine as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.core.finding import FACT_KINDS
from busbw.findings import LAWS
from busbw.findings.machines import MACHINES


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    return (root / "docs" / "findings.md").read_text()


@pytest.mark.parametrize("name", LAWS.names())
def test_every_law_with_its_rule(name: str, text: str) -> None:
    law = LAWS.get(name)
    assert f"| `{name}` | {law.claim} | {law.rule} |" in text, "run python benchmarks/explain/docs.py"


def test_every_fact_and_machine(text: str) -> None:
    missing = [name for name in (*FACT_KINDS, *(machine.name for machine in MACHINES)) if f"| `{name}` |" not in text]
    assert missing == []
