from __future__ import annotations

import pytest

import busbw
from busbw.bench.run import Launch, parse_sweep, plan_launches
from busbw.errors import UsageError


def test_a_sweep_is_every_combination() -> None:
    assert parse_sweep("NCCL_ALGO=Ring,Tree,NCCL_PROTO=LL,Simple") == [
        {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"},
        {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"},
        {"NCCL_ALGO": "Tree", "NCCL_PROTO": "LL"},
        {"NCCL_ALGO": "Tree", "NCCL_PROTO": "Simple"},
    ]
    assert parse_sweep(None) == []


@pytest.mark.parametrize("text", ["Ring,Tree", "A=1,A=2", "A B=1"])
def test_a_sweep_without_names_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--sweep"):
        parse_sweep(text)


def test_repeats_are_outermost() -> None:
    assert [(x.repeat, x.world_size) for x in plan_launches([2, 4], 2, [])] == [(0, 2), (0, 4), (1, 2), (1, 4)]
    assert plan_launches([2], 1, [{"A": "1"}]) == [Launch(2, 0, {"A": "1"})]


def test_measure_returns_rows_with_the_time_that_the_model_of_the_fake_machine_gives() -> None:
    """alpha 5 us + 2 (4-1)/4 x 1 MiB / 20 GB/s = 5 + 78.64 us at N = 4."""
    results = busbw.measure(["all_reduce"], [1 << 20], [4], backend="fake", row_budget_s=0.2)
    (row,) = results.measurements
    assert row.time_s == pytest.approx(83.643e-6, rel=1e-4)
    assert row.busbw_GBps == pytest.approx(1.5 * 2**20 / 83.643e-6 / 1e9, rel=1e-4)
    assert row.wrong == 0
    assert [rank["rank"] for rank in results.run.launches[0]["ranks"]] == [0, 1, 2, 3]


def test_measure_names_an_unknown_setting() -> None:
    with pytest.raises(UsageError, match="unknown setting 'size'"):
        busbw.measure(size=3)
