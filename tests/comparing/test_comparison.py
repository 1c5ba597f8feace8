from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.comparing import check, compare
from busbw.comparing.comparison import Ratio, change_text
from busbw.core.call import Call
from busbw.core.measurement import Results

Make = Callable[..., Results]


@pytest.mark.parametrize(
    ("log_ratio", "half_width", "p", "verdict"),
    [
        (0.10, 0.02, 0.01, "slower"),
        (-0.10, 0.02, 0.01, "faster"),
        (0.10, 0.02, 0.06, "cannot tell"),
        (0.005, 0.001, 0.01, "same"),  # real, but below min_change
        (0.01, 0.03, 1.0, "same"),
        (0.01, 0.05, 1.0, "cannot tell"),
        (-0.03, 0.03, 1.0, "cannot tell"),
    ],
)
def test_the_verdict_of_a_ratio(log_ratio: float, half_width: float, p: float, verdict: str) -> None:
    ratio = Ratio.of(log_ratio, half_width, p, 0.05, min_change=0.01, resolution=0.05)
    assert ratio.verdict == verdict
    assert ratio.ratio == pytest.approx(math.exp(log_ratio))
    assert ratio.reach == pytest.approx(math.exp(0.05) - 1)
    assert ratio.to_json()["busbw_ratio_low"] == pytest.approx(1 / ratio.high)


def test_changes_above_double_are_factors() -> None:
    assert (change_text(0.032), change_text(4.8)) == ("3.2%", "x 5.8")


def keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for name, inner in value.items() if name != "settings" for key in keys(inner)}
    return {key for inner in value for key in keys(inner)} if isinstance(value, list) else set()


def test_every_key_of_the_json_is_documented(results: Make, root: Path) -> None:
    calls = [Call("all_reduce", size, 2, "float32") for size in (4096, 8192)]
    a = results({calls[0]: [1.0, 1.1], calls[1]: [1.0, 1.1], Call("barrier", 0, 2): [1.0]})
    b = results({calls[0]: [1.0, 1.1], calls[1]: [1.0, 1.1], Call("all_gather", 64, 2): [1.0]})
    page = (root / "docs" / "comparing.md").read_text()
    data = compare(a, b).to_json()
    assert [data[name] for name in ("verdict", "launches_a", "method")] == ["cannot tell", 2, "moderated-t"]
    assert len(data["rows"]) == 2
    assert len(data["unmatched"]) == 2
    found = keys(data) | keys(check(a, ["1GB/s"], baseline=b).to_json())
    documented = {
        key for line in re.findall(r"^\|.*\|$|^A call.*$", page, re.MULTILINE) for key in re.findall(r"`(\w+)`", line)
    }
    assert found - documented == set()
