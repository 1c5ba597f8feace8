from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from busbw.bench.backends.base import tile
from busbw.bench.check import PERIOD, Expected, table
from busbw.core.collective import COLLECTIVES, Collective, Place
from busbw.core.dtype import DTYPES

REDUCE = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "avg": np.add}


def run_by_definition(
    collective: Collective, count: int, world: int, redop: str | None, dtype: str, seed: int
) -> list[Any]:
    """Every rank's output, element by element from the postcondition and the inputs: an oracle without periods."""
    places = [Place(count, world, rank, root=world - 1) for rank in range(world)]
    inputs = []
    for place in places:
        data = np.zeros(collective.send_count(place), np.float64)
        tile(data, table(DTYPES[dtype], redop, world, place.rank, seed))
        inputs.append(data)
    outputs = []
    for place in places:
        out = np.full(collective.recv_count(place), -1.0)
        for piece in collective.postcondition(place):
            parts = [inputs[rank][first : first + piece.length] for rank, first in piece.sources]
            total = parts[0]
            for part in parts[1:]:
                total = REDUCE[redop or "sum"](total, part)
            out[piece.start : piece.start + piece.length] = total / world if redop == "avg" else total
        outputs.append(out.astype(np.dtype(dtype)))
    return outputs


@pytest.mark.parametrize("name", [c.name for c in COLLECTIVES if c.moves_data])
@pytest.mark.parametrize("count", [24, 3 * PERIOD + 3])
def test_right_data_passes_and_each_changed_element_is_counted(name: str, count: int) -> None:
    collective, world, seed = COLLECTIVES.get(name), 3, 5
    redop = "sum" if collective.reduces else None
    outputs = run_by_definition(collective, count, world, redop, "float32", seed)
    for rank, output in enumerate(outputs):
        expected = Expected(collective, Place(count, world, rank, world - 1), "float32", redop, seed)
        assert expected.wrong(output, np.asarray) == 0
        if len(output):
            output[[0, len(output) // 2, -1]] += 1
            assert expected.wrong(output, np.asarray) == 3


@pytest.mark.parametrize("redop", ["sum", "prod", "min", "max", "avg"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int64"])
def test_every_reduction_is_exact_in_every_dtype(redop: str, dtype: str) -> None:
    collective = COLLECTIVES.get("all_reduce")
    outputs = run_by_definition(collective, 1000, 4, redop, dtype, 1)
    expected = Expected(collective, Place(1000, 4, 0), dtype, redop, 1)
    assert expected.wrong(outputs[0], np.asarray) == 0


def test_nan_is_wrong() -> None:
    collective = COLLECTIVES.get("broadcast")
    expected = Expected(collective, Place(100, 2, 1), "float32", None, 0)
    assert expected.wrong(np.full(100, np.nan, np.float32), np.asarray) == 100


def test_the_last_calls_output_is_wrong_for_the_next() -> None:
    collective = COLLECTIVES.get("all_reduce")
    stale = run_by_definition(collective, 1000, 2, "sum", "float32", seed=1)[0]
    wrong = Expected(collective, Place(1000, 2, 0), "float32", "sum", 2).wrong(stale, np.asarray)
    assert wrong > 990


def test_two_swapped_shards_are_wrong_whatever_their_size() -> None:
    collective = COLLECTIVES.get("all_gather")
    for shard in (1 << 10, 1 << 17):
        (output, *_) = run_by_definition(collective, 2 * shard, 2, None, "float32", 3)
        swapped = np.concatenate([output[shard:], output[:shard]])
        assert Expected(collective, Place(2 * shard, 2, 0), "float32", None, 3).wrong(swapped, np.asarray) > shard


@pytest.mark.parametrize("world", [2, 100, 1000])
@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("redop", ["sum", "prod"])
def test_reductions_stay_where_every_order_of_summation_is_exact(world: int, dtype: str, redop: str) -> None:
    tables = [table(DTYPES[dtype], redop, world, rank, 0) for rank in range(world)]
    total = tables[0].copy()
    for other in tables[1:]:
        total = REDUCE[redop](total, other)
    assert total.min() >= 0
    assert total.max() <= DTYPES[dtype].exact_limit


def test_an_average_may_differ_by_rounding_only() -> None:
    collective = COLLECTIVES.get("all_reduce")
    (output, *_) = run_by_definition(collective, 500, 3, "avg", "float32", 0)
    expected = Expected(collective, Place(500, 3, 0), "float32", "avg", 0)
    positive = output > 0
    assert expected.wrong(np.nextafter(output, np.float32(np.inf)) * positive, np.asarray) == 0
    assert expected.wrong(output * np.float32(1 + 1e-5), np.asarray) == np.count_nonzero(positive)
