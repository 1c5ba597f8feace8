from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.core.collective import COLLECTIVES
from busbw.formats._rows import (
    FLAT_OPS,
    RING_OPS,
    Rate,
    find_op,
    implied,
    op_in_file_name,
    ranks_of_command,
    ratio_of,
    read_rate,
    read_size,
)


@given(
    st.sampled_from(("all_reduce", *RING_OPS)), st.integers(2, 64), st.lists(st.floats(5, 500), min_size=1, max_size=8)
)
def test_the_true_op_and_n_always_fit_rounded_rates(op: str, ranks: int, rates: list[float]) -> None:
    factor = COLLECTIVES.get(op).bus_factor(ranks)
    ratios = [ratio_of(Rate(round(rate * factor, 2) * 1e9, 5e6), Rate(round(rate, 2) * 1e9, 5e6)) for rate in rates]
    known = implied(ratios)
    assert op in known.ops
    alone = implied(ratios, (op,))
    assert alone.least <= ranks <= alone.most


def test_a_factor_of_one_is_ambiguous() -> None:
    known = implied([ratio_of(Rate(100e9, 5e6), Rate(100e9, 5e6))])
    assert set(known.ops) >= {*FLAT_OPS, "all_reduce"}
    assert known.world_size == 0


def test_ratios_that_exclude_each_other_imply_nothing() -> None:
    assert implied([ratio_of(Rate(150e9, 1), Rate(100e9, 1)), ratio_of(Rate(175e9, 1), Rate(100e9, 1))]).ops == ()
    assert implied([None]).ops == ()


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("mpirun -np 8 -x LD_LIBRARY_PATH ./osu_allreduce -i 100", 8),
        ("$ srun -N2 --ntasks-per-node=4 --mpi=pmix ./collective/osu_alltoall --validation", 8),
        ("$SUBMIT -n 4 osu_allreduce -m 16777216:16777216", 4),
        ("mpiexec -n 16 -ppn 8 osu_bcast", 16),
        ("torchrun --nproc_per_node 8 --nnodes 2 all_reduce_bench.py", 16),
        ("mpirun -npernode 1 ./osu_get_bw", None),
        ("nccom-test -r 64 -N 2 -b 8 -e 1GB -f 2 -n 50 -w 5 -d fp32 allr", 64),
        ("head -n 4 file", None),
        ("osu_latency 5.6.2", None),
    ],
)
def test_ranks_of_command(line: str, ranks: int | None) -> None:
    assert ranks_of_command(line) == ranks


def test_spellings() -> None:
    assert find_op("AllReduce") == "all_reduce"
    assert find_op("all_gather_into_tensor") == "all_gather"
    assert find_op("redsct") == find_op("Reduce_scatter") == "reduce_scatter"
    assert find_op("alltoallv") == "all_to_all_v"
    assert find_op("frobnicate") is None
    assert op_in_file_name("logs/all_gather/19-alltoall-64ranks.txt") == "all_to_all"
    assert op_in_file_name("all_reduce_vs_broadcast.csv") is None
    assert op_in_file_name("gathered.csv") is None


def test_sizes_and_rates() -> None:
    size = read_size("678.86 MB")
    assert size is not None
    assert (size.size_bytes, size.is_exact) == (round(678.86 * 2**20), False)
    assert read_size("4096").is_exact  # type: ignore[union-attr]
    assert read_size("4.0GB", 1000).size_bytes == 4_000_000_000  # type: ignore[union-attr]
    assert read_size("1,048,576").size_bytes == 2**20  # type: ignore[union-attr]
    assert [read_size(text) for text in ("", "MB", "-1", "9" * 30, "1 parsec")] == [None] * 5
    rate = read_rate("171.272 Gbps")
    assert rate is not None
    assert rate.rate_GBps == pytest.approx(21.409)
    assert read_rate("98.34GBps").rate_GBps == pytest.approx(98.34)  # type: ignore[union-attr]
    assert [read_rate(text, "GB/s") for text in ("", "x", "nan", "1e999", "5 apples/s")] == [None] * 5
