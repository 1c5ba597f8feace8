"""Max-min fair rates, worked by hand, and the two forms against each other."""

from __future__ import annotations

import numpy as np
import pytest

from busbw.sim import fairness
from busbw.sim.compiled import has_numba
from busbw.sim.fairness import max_min


def table(*flows: list[int]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, flows)])
    return offsets, np.array([resource for flow in flows for resource in flow], np.int64)


def no_caps(count: int) -> np.ndarray:
    return np.full(count, np.inf)


def test_the_example_of_every_text_book() -> None:
    """Flows 0, 1 on wire 0 of 10; flows 1, 2, 3 on wire 1 of 12: 4 each on wire 1, so 6 are left for flow 0."""
    rates = max_min(*table([0], [0, 1], [1], [1]), np.array([10.0, 12.0]), no_caps(4))
    assert rates.tolist() == pytest.approx([6, 4, 4, 4])


def test_a_flow_that_passes_a_wire_twice_takes_twice_of_it() -> None:
    rates = max_min(*table([0, 0], [0]), np.array([9.0]), no_caps(2))
    assert rates.tolist() == pytest.approx([3, 3])


def test_a_cap_leaves_the_rest_to_others() -> None:
    rates = max_min(*table([0], [0], [0]), np.array([12.0]), np.array([2.0, np.inf, np.inf]))
    assert rates.tolist() == pytest.approx([2, 5, 5])


def test_a_flow_that_loads_nothing_is_not_bounded() -> None:
    assert max_min(*table([], [0]), np.array([3.0]), no_caps(2)).tolist() == [np.inf, 3.0]


@pytest.mark.parametrize("seed", range(12))
def test_compiled_and_numpy_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_numba():
        pytest.skip("numba is not installed")
    rng = np.random.default_rng(seed)
    flows, wires = int(rng.integers(2, 300)), int(rng.integers(1, 60))
    lengths = rng.integers(0, 6, flows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    resources = rng.integers(0, wires, offsets[-1])
    capacities = 10.0 ** rng.uniform(8, 11, wires)
    caps = np.where(rng.random(flows) < 0.3, 10.0 ** rng.uniform(8, 10, flows), np.inf)
    in_numpy = max_min(offsets, resources, capacities, caps)
    monkeypatch.setattr(fairness, "SMALL", -1)
    compiled = max_min(offsets, resources, capacities, caps)
    assert compiled == pytest.approx(in_numpy, rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_no_flow_can_be_raised_without_lowering_one_that_has_no_more(seed: int) -> None:
    """The definition: each flow has a full wire on which nobody has more than it (or its cap)."""
    rng = np.random.default_rng(seed)
    flows, wires = 30, 12
    ways = [rng.choice(wires, rng.integers(1, 5), replace=False).tolist() for _ in range(flows)]
    offsets, resources = table(*ways)
    capacities = rng.uniform(1, 100, wires)
    rates = max_min(offsets, resources, capacities, no_caps(flows))
    load = np.zeros(wires)
    for way, rate in zip(ways, rates, strict=True):
        load[way] += rate
    assert (load <= capacities * (1 + 1e-9)).all()
    for way, rate in zip(ways, rates, strict=True):
        full = [wire for wire in way if load[wire] >= capacities[wire] * (1 - 1e-9)]
        highest = [max(rates[i] for i, other in enumerate(ways) if wire in other) for wire in full]
        assert any(rate >= high * (1 - 1e-9) for high in highest)
