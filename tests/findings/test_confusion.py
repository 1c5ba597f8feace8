"""A short, seeded form of benchmarks/explain/confusion.py: known machines, explained."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)


def test_known_faults_are_named_and_others_are_not_blamed(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("confusion", root / "benchmarks" / "explain" / "confusion.py")
    assert spec is not None
    assert spec.loader is not None
    confusion = sys.modules["confusion"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(confusion)
    score = confusion.score(seed=2024, count=6)
    wrong = [(world.name, what) for world, what in score.wrong]
    assert score.right_share >= 0.9, wrong
    assert score.false_share <= 0.02, wrong
    for world in score.count:
        assert score.right[world] >= 4, (world, wrong)
