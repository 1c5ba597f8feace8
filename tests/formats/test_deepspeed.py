from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.core.measurement import Measurement
from busbw.formats import read_results

GOLDEN = Path(__file__).parents[1] / "golden" / "deepspeed"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "data" / "logs" / "torch-bench"
INDEX = [json.loads(line) for line in (SAMPLES / "index.jsonl").read_text().splitlines()] if SAMPLES.exists() else []
LOGS = [sample for sample in INDEX if sample["values"]["tool"] == "DeepSpeed comms logger"]
BENCHES = [sample for sample in INDEX if sample["values"]["tool"] == "DeepSpeed ds_bench"]
absent = pytest.mark.skipif(not INDEX, reason="the samples do not lie beside this checkout (../shared/data/logs)")


def codes(row: Measurement) -> set[str]:
    return {mark.code for mark in row.marks}


@absent
@pytest.mark.parametrize("sample", LOGS, ids=lambda sample: sample["file"])
def test_comms_log_samples(sample: dict) -> None:
    values = sample["values"]
    rows = read_results(str(SAMPLES / sample["file"])).measurements
    assert len(rows) == values["rows"]
    ops = [row.labels["op"] for row in rows]
    assert (ops if len(values["ops"]) == len(rows) else list(dict.fromkeys(ops))) == values["ops"]
    assert {row.call.world_size for row in rows} == {values["nranks"]}
    assert all("rank0_time" in codes(row) for row in rows)


@absent
def test_comms_log_oddities() -> None:
    rows = read_results(str(SAMPLES / "12-deepspeed-summary-long.txt")).measurements
    by_line = {row.source.line: row for row in rows if row.source}
    lines = (SAMPLES / "12-deepspeed-summary-long.txt").read_text().split("\n")
    for at, row in by_line.items():
        size, count, total, average, tput, busbw = lines[at - 1].replace(" B", "B").replace("B ", "B ").split()[-6:]
        assert row.printed is not None
        assert row.printed.columns == {"count": count, "total_ms": total, "average_ms": average}
        assert row.printed.algbw_GBps == pytest.approx(float(tput) / 8)
        assert row.printed.busbw_GBps == pytest.approx(float(busbw) / 8)
        if float(average) > 0:
            assert row.time_s == pytest.approx(float(average) / 1e3)
        assert size[-1] == "B"
    rounded_to_zero = next(row for row in rows if row.printed and row.printed.size == "128.12 KB")
    assert rounded_to_zero.time_s == pytest.approx(0.24e-3 / 24)
    first_call = next(row for row in rows if row.printed and row.printed.size == "98.25 MB")
    assert "one_call" in codes(first_call)
    impossible = next(row for row in rows if row.printed and row.printed.size == "6.25 MB")
    assert "rate_contradicts_time" in codes(impossible)
    sizes = {(row.labels["op"], row.printed.size if row.printed else ""): row.call.size_bytes for row in rows}
    assert sizes["all_gather", "128.0 B"] == 2048  # one rank's shard of the 2 KB that broadcast has
    assert sizes["broadcast", "2.0 KB"] == 2048
    assert sizes["broadcast", "0B"] == 0


def test_comms_log_callers_stragglers_and_cut_lines() -> None:
    verbose, summary, straggler = read_results(str(GOLDEN / "summary_with_stragglers.txt")).runs
    (row,) = verbose.measurements
    assert (row.call.collective, row.call.size_bytes, row.call.world_size) == ("all_reduce", 2**26, 8)
    assert row.labels == {"op": "all_reduce", "caller": "average_tensor"}
    assert "rate_contradicts_time" not in codes(row)
    assert verbose.run.unreadable_count == 1
    assert [(row.call.collective, row.call.size_bytes, row.call.world_size) for row in summary.measurements] == [
        ("all_gather", 8 * 2**20, 8),
        ("reduce_scatter", 8 * 2**20, 8),
        ("send_recv_one_way", 2**20, 2),
    ]
    (row,) = straggler.measurements
    assert (row.time_s, row.labels["rank_time"], row.call.world_size) == (0.8e-3, "min", 8)


@absent
@pytest.mark.parametrize("sample", BENCHES, ids=lambda sample: sample["file"])
def test_bench_samples(sample: dict) -> None:
    values = sample["values"]
    rows = read_results(str(SAMPLES / sample["file"])).measurements
    assert len(rows) == values["rows"]
    row = rows[0]
    assert (row.call.collective, row.call.world_size, row.call.size_bytes) == (
        values["op"],
        values["nranks"],
        values["size_bytes"],
    )
    assert row.time_s * 1e6 == pytest.approx(values["time_us"])
    assert row.printed is not None
    assert row.printed.algbw_GBps == pytest.approx(values["tput_gbps"] / 8)
    assert row.printed.busbw_GBps == pytest.approx(values["busbw_gbps"] / 8)
    assert row.algbw_GBps == pytest.approx(values["algbw_GBs"], abs=5e-5)
    assert row.busbw_GBps == pytest.approx(values["busbw_GBs"], abs=5e-5)
    assert codes(row) == {"rank0_time"}


def test_bench_raw_scan_and_cut() -> None:
    gather, pair = read_results(str(GOLDEN / "bench_raw_scan.txt")).runs
    assert [(row.call.collective, row.call.size_bytes, row.time_s) for row in gather.measurements] == [
        ("all_gather", 4 * 2**20, 1e-4),
        ("all_gather", 4 * 2**21, 2e-4),
    ]
    assert gather.measurements[0].busbw_GBps == pytest.approx(31.457, abs=5e-4)
    (row,) = pair.measurements
    assert (row.call.collective, row.call.world_size, row.time_s) == ("send_recv_one_way", 2, 1e-4)
    assert pair.run.unreadable[0].reason == "the row is cut before the end of its duration"
    assert pair.run.complete is False
