"""A short form of benchmarks/compare_power.py: the fake backend's launches, and what `compare` makes of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def power(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare_power", root / "benchmarks" / "compare_power.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compare_power"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("noise", ["launches 2 %", "rows 2 %", "launches of two speeds"])
def test_at_most_5_per_cent_of_100_pairs_of_equal_runs_are_false_alarms(power: ModuleType, noise: str) -> None:
    alarms = 0
    for pair in range(100):
        a, b = (power.run(power.NOISE[noise], 5, 2 * pair + side, power.CALLS[:8]) for side in (0, 1))
        alarms += power.compare(a, b).verdict not in ("same", "cannot tell")
    assert alarms <= 5


@pytest.mark.parametrize(
    ("noise", "repeats"), [("launches 1 %", 5), ("rows 2 %", 5), ("launches 2 %", 7), ("launches 1.4 %, rows 1.4 %", 7)]
)
def test_at_least_90_per_cent_of_changes_of_5_per_cent_are_found(power: ModuleType, noise: str, repeats: int) -> None:
    tally = power.campaign(power.NOISE[noise], repeats, 40, seed=1)
    assert tally.found_all >= 0.9 * tally.trials
    assert tally.found_curve >= 0.9 * tally.trials


def test_a_change_of_one_row_of_16_is_found_with_10_launches(power: ModuleType) -> None:
    tally = power.campaign(power.NOISE["rows 2 %"], 10, 40, seed=2)
    assert tally.found_row >= 0.9 * tally.trials
