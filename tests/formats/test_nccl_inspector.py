from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.core.log_text import LogText
from busbw.errors import NoRows
from busbw.formats import read_results, read_text

GOLDEN = Path(__file__).parents[1] / "golden" / "inspector"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "data" / "logs" / "torch-bench"
INDEX = {}
if SAMPLES.exists():
    INDEX = {(one := json.loads(line))["file"]: one for line in (SAMPLES / "index.jsonl").read_text().splitlines()}
absent = pytest.mark.skipif(not INDEX, reason="the samples do not lie beside this checkout (../shared/data/logs)")


@absent
def test_json_sample() -> None:
    values = INDEX["22-inspector-allreduce.json"]["values"]
    rows = read_results(str(SAMPLES / "22-inspector-allreduce.json")).measurements
    assert len(rows) == values["rows"]
    (row,) = rows
    assert (row.labels["op"], row.call.world_size, row.call.size_bytes) == (
        values["op"],
        values["nranks"],
        values["size_bytes"],
    )
    assert row.time_s * 1e6 == pytest.approx(values["time_us"])
    assert row.printed is not None
    assert (row.printed.algbw_GBps, row.printed.busbw_GBps) == (values["algbw"], values["busbw"])
    assert row.algbw_GBps == pytest.approx(values["algbw"], abs=5e-7)
    assert row.busbw_GBps == pytest.approx(values["busbw"], abs=5e-7)


@absent
def test_prometheus_sample() -> None:
    """Four metric lines: the time and the rate of two sets of labels, so two rows."""
    values = INDEX["24-inspector-prometheus.prom"]["values"]
    results = read_results(str(SAMPLES / "24-inspector-prometheus.prom"))
    coll, pair = results.measurements
    assert 2 * len(results.measurements) == values["rows"]
    assert results.run.world_size == values["nranks"]
    assert coll.labels["op"] == values["op"]
    assert coll.printed is not None
    assert pair.printed is not None
    assert coll.printed.size == values["message_size"]
    assert values["metrics"] == {
        "nccl_bus_bandwidth_gbs": coll.printed.busbw_GBps,
        "nccl_collective_exec_time_microseconds": pytest.approx(coll.time_s * 1e6),
        "nccl_p2p_bus_bandwidth_gbs": pair.printed.busbw_GBps,
        "nccl_p2p_exec_time_microseconds": pytest.approx(pair.time_s * 1e6),
    }
    assert coll.call.size_bytes == 4 * 2**30
    assert 512 * 2**20 <= pair.call.size_bytes <= 513 * 2**20
    assert "size_range" in {mark.code for mark in coll.marks}
    assert (coll.labels["algorithm"], coll.labels["protocol"]) == ("Ring", "ll")


def test_reduce_scatter_size_is_of_one_rank() -> None:
    (row,) = read_results(str(GOLDEN / "reduce_scatter_verbose.json")).measurements
    assert (row.call.collective, row.call.size_bytes, row.call.world_size) == ("reduce_scatter", 8 * 2147483648, 8)
    assert row.algbw_GBps == pytest.approx(418.439467, abs=5e-7)
    assert row.busbw_GBps == pytest.approx(366.134533, abs=5e-7)
    assert row.labels["timing"] == "kernel_gpu"


def test_several_ranks_and_a_cut_record() -> None:
    results = read_results(str(GOLDEN / "four_ranks.jsonl"))
    assert [(row.call.collective, row.call.size_bytes, row.labels["rank"]) for row in results.measurements] == [
        ("all_reduce", 2**20, "0"),
        ("all_reduce", 2**20, "1"),
        ("all_gather", 4 * 2**20, "2"),
        ("send_recv_one_way", 2**21, "3"),
    ]
    assert [row.source.line for row in results.measurements if row.source] == [1, 2, 3, 4]
    for row in results.measurements:
        assert row.printed is not None
        assert row.busbw_GBps == pytest.approx(row.printed.busbw_GBps)
        assert {mark.code for mark in row.marks} == {"time_includes_waiting"}
    assert results.measurements[0].printed is not None
    assert results.measurements[0].printed.columns == {"sn": "7"}
    assert (results.run.unreadable_count, results.run.complete) == (1, False)


def test_records_behind_each_other_and_a_pretty_one_that_is_cut() -> None:
    one = (GOLDEN / "four_ranks.jsonl").read_text().split("\n")[0]
    pretty = (GOLDEN / "reduce_scatter_verbose.json").read_text()
    text = f"{one}{one}\n{pretty[:200]}\n{pretty}"
    results = read_text(LogText(text.encode(), "x"))
    assert [row.call.collective for row in results.measurements] == ["all_reduce", "all_reduce", "reduce_scatter"]
    assert results.run.unreadable_count == 1


def test_nothing_but_broken_records() -> None:
    with pytest.raises(NoRows, match="nccl_inspector has no row"):
        read_text(LogText(b'{"header": {"n_ranks": 8}, "coll_perf": {"coll": "AllReduce"', "x"))
