"""PARAM comms, gloo's benchmark, ucc_perftest and nccom-test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.core.call import UNKNOWN_WORLD_SIZE
from busbw.core.log_text import LogText
from busbw.core.measurement import Measurement
from busbw.errors import NoRows
from busbw.formats import read_results, read_text

GOLDEN = Path(__file__).parents[1] / "golden"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "data" / "logs" / "torch-bench"
INDEX = {}
if SAMPLES.exists():
    INDEX = {(one := json.loads(line))["file"]: one for line in (SAMPLES / "index.jsonl").read_text().splitlines()}
absent = pytest.mark.skipif(not INDEX, reason="the samples do not lie beside this checkout (../shared/data/logs)")


def codes(row: Measurement) -> set[str]:
    return {mark.code for mark in row.marks}


def calls(rows: tuple[Measurement, ...]) -> list[tuple[str, int, int]]:
    return [(row.call.collective, row.call.size_bytes, row.call.world_size) for row in rows]


@absent
def test_param_sample() -> None:
    values = INDEX["17-param-comms-res-line.txt"]["values"]
    rows = read_results(str(SAMPLES / "17-param-comms-res-line.txt")).measurements
    assert calls(rows) == [(values["op"], values["size_bytes"], values["nranks"])]
    (row,) = rows
    assert row.printed is not None
    assert (row.printed.algbw_GBps, row.printed.busbw_GBps) == (values["algbw"], values["busbw"])
    assert row.busbw_GBps == pytest.approx(values["busbw"], abs=5e-4)
    assert row.algbw_GBps == pytest.approx(values["algbw"], abs=5e-4)
    assert row.call.dtype == "float32"
    assert codes(row) == {"world_size_from_factor", "time_from_rate"}


def test_param_table() -> None:
    rows = read_results(str(GOLDEN / "param" / "all_gather.txt")).measurements
    assert calls(rows) == [("all_gather", 2**20, 8), ("all_gather", 2**22, 8)]
    assert [row.time_s for row in rows] == [100e-6, 200e-6]
    assert [row.busbw_GBps for row in rows] == pytest.approx([9.175, 18.35], abs=5e-4)
    assert rows[0].printed is not None
    assert rows[0].printed.columns == {
        **{"time_p75_us": "101.0", "time_p95_us": "105.0", "time_min_us": "99.0", "time_max_us": "107.0"}
    }
    assert codes(rows[0]) == {"percentile_over_ranks"}


def test_param_point_to_point_and_quantised() -> None:
    pair, quantised = read_results(str(GOLDEN / "param" / "pt2pt_and_quant.txt")).runs
    (row,) = pair.measurements
    assert calls((row,)) == [("send_recv_one_way", 2**20, 2)]
    assert row.time_s == 50e-6
    assert row.printed is not None
    assert (row.printed.algbw_GBps, row.printed.columns["bi_GBps"]) == (22.5, "40.100")
    assert (row.printed.columns["time_p75_us"], row.printed.columns["time_pong_p75_us"]) == ("51.0", "103.0")
    assert "quantised" in quantised.run.unreadable[0].reason


def test_gloo_table() -> None:
    results = read_results(str(GOLDEN / "gloo" / "allreduce.txt"))
    assert calls(results.measurements) == [("all_reduce", 400, 4), ("all_reduce", 4000, 4), ("all_reduce", 4000000, 4)]
    assert [row.time_s for row in results.measurements] == [80e-6, 100e-6, 2000e-6]
    last = results.measurements[-1]
    assert last.printed is not None
    assert last.printed.algbw_GBps == 1.863  # GiB/s, as it stands there
    assert last.algbw_GBps == pytest.approx(2.0)
    assert codes(last) == {"rank0_time", "rate_is_gib"}
    assert last.labels == {"backend": "gloo", "algorithm": "allreduce_ring_chunked"}


def test_gloo_old_round_trip() -> None:
    rows = read_results(str(GOLDEN / "gloo" / "old_roundtrip.txt")).measurements
    assert calls(rows) == [("send_recv_one_way", 400, 2), ("send_recv_one_way", 20_000_000, 2)]
    assert [row.time_s for row in rows] == [12e-6, 8625e-6]
    assert "round_trip" in codes(rows[0])


def test_gloo_without_its_heading() -> None:
    text = b"""   elements   min (us)   p50 (us)   p99 (us)   max (us)    samples
        100        205        265        351        414       3645
        200        197        264"""
    results = read_text(LogText(text, "x"))
    assert calls(results.measurements) == [("unknown", 400, UNKNOWN_WORLD_SIZE)]
    assert codes(results.measurements[0]) == {"rank0_time", "op_unknown", "world_size_unknown"}
    assert results.run.unreadable_count == 1


@absent
def test_ucc_sample() -> None:
    values = INDEX["19-ucc-perftest-alltoall-64ranks.txt"]["values"]
    rows = read_results(str(SAMPLES / "19-ucc-perftest-alltoall-64ranks.txt")).measurements
    assert len(rows) == values["rows"]
    assert {row.call.world_size for row in rows} == {values["nranks"]}
    assert {row.call.collective for row in rows} == {"all_to_all"}
    for row, (size, time_us, rate) in ((rows[0], values["first"]), (rows[-1], values["last"])):
        assert row.printed is not None
        assert (row.printed.size, row.time_s * 1e6, row.printed.busbw_GBps) == (str(size), pytest.approx(time_us), rate)
        assert row.call.size_bytes == size * 64
        assert row.busbw_GBps == pytest.approx(rate, abs=5e-3)
    assert "op_from_file_name" in codes(rows[0])


def test_ucc_the_operation_is_not_guessed() -> None:
    text = b"""       Count        Size                Time, us                           Bandwidth, GB/s
                                 avg         min         max         avg         max         min
      131072      524288     2561.92     2513.18     2619.78       12.89       13.14       12.61
"""
    results = read_text(LogText(text, "log.txt"))
    (row,) = results.measurements
    assert row.call.collective == "unknown"
    assert row.call.world_size == 64
    assert "all_gather, all_to_all, gather, reduce_scatter, scatter" in results.run.notes[0]
    (row,) = read_text(LogText(text, "log.txt"), op="all_gather").measurements
    assert calls((row,)) == [("all_gather", 64 * 524288, 64)]


def test_ucc_full_and_whole_sizes() -> None:
    results = read_results(str(GOLDEN / "ucc" / "allreduce_full.txt"))
    assert calls(results.measurements) == [("all_reduce", 2**19, 8), ("all_reduce", 2**22, 8)]
    assert results.run.complete is True
    call = results.measurements[0].call
    assert (call.dtype, call.redop, call.in_place) == ("float32", "sum", False)
    (row,) = read_results(str(GOLDEN / "ucc" / "alltoall_whole.txt")).measurements
    assert calls((row,)) == [("all_to_all", 2**20, 8)]


def test_ucc_without_rates_and_cut() -> None:
    results = read_results(str(GOLDEN / "ucc" / "gather_no_rates.txt"))
    assert calls(results.measurements) == [("gather", 16, 4), ("gather", 32, 4)]
    assert results.run.complete is False
    assert codes(results.measurements[1]) == {"mean_over_ranks", "row_cut"}
    assert results.measurements[1].printed is not None
    assert results.measurements[1].printed.columns == {}


@absent
def test_nccom_sample() -> None:
    """The index gives no operation; a factor of nearly 2 is all_reduce's alone. Its 51 to 111 ranks become 64 or 65."""
    values = INDEX["16-nccom-neuron.txt"]["values"]
    results = read_results(str(SAMPLES / "16-nccom-neuron.txt"))
    rows = results.measurements
    assert len(rows) == values["rows"]
    assert rows[0].printed is not None
    assert rows[-1].printed is not None
    assert [int(rows[0].printed.size), rows[0].time_s * 1e6] == pytest.approx(values["first"])
    last = [int(rows[-1].printed.size), rows[-1].time_s * 1e6, rows[-1].printed.algbw_GBps, rows[-1].printed.busbw_GBps]
    assert last == pytest.approx(values["last"])
    assert results.run.average is not None
    assert results.run.average.reported_GBps == values["avg_busbw_reported"]
    best = max(rows, key=lambda row: (row.printed.busbw_GBps if row.printed else 0) or 0)
    assert best.printed is not None
    assert (best.printed.busbw_GBps, best.call.size_bytes) == (values["max_busbw"], values["max_busbw_at"])
    assert results.run.world_size is values["nranks"] is None
    least, most = results.run.settings["world_size_possible"]
    low, high = values["nranks_possible"]
    assert low <= least <= most <= high
    assert codes(rows[0]) == {"rate_is_gib", "op_from_factor", "world_size_unknown"}


def test_nccom_statistics_in_gb() -> None:
    results = read_results(str(GOLDEN / "nccom" / "all_gather_stats.txt"))
    assert calls(results.measurements)[-1] == ("all_gather", 2**19, 8)
    last = results.measurements[-1]
    assert last.time_s == 16e-6
    assert last.printed is not None
    assert last.printed.columns == {"time_p50_us": "15", "time_p99_us": "17"}
    assert codes(last) == set()
    assert results.run.average is not None
    assert (results.run.average.reported_GBps, results.run.average.rows) == (9.8268, 3)
    assert results.run.complete is True


def test_nccom_report_and_failure() -> None:
    results = read_results(str(GOLDEN / "nccom" / "report.json"))
    assert calls(results.measurements) == [("all_reduce", 2**20, 8), ("all_reduce", 2**21, 8)]
    assert [row.source.line for row in results.measurements if row.source] == [4, 12]
    with pytest.raises(NoRows, match="all_reduce on 2 ranks has no row: Failure running neuron-bench"):
        read_results(str(GOLDEN / "nccom" / "failure.txt"))


def test_a_rate_beside_no_bytes_tells_no_factor() -> None:
    text = (
        "    size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)\n"
        "          0               0    fp32           10.00           0.00           0.49\n"
        "    1048576          262144    fp32         4000.00           0.26           0.49\n"
    )
    rows = read_text(LogText(text.encode(), "x")).measurements
    assert [(row.call.size_bytes, row.time_s) for row in rows] == [
        (0, pytest.approx(1e-5)),
        (2**20, pytest.approx(4e-3)),
    ]
