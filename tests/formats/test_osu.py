from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.core.call import UNKNOWN_WORLD_SIZE
from busbw.core.log_text import LogText
from busbw.core.measurement import Measurement
from busbw.errors import NoRows
from busbw.formats import read_results, read_text

GOLDEN = Path(__file__).parents[1] / "golden" / "osu"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "data" / "logs" / "osu"
INDEX = [json.loads(line) for line in (SAMPLES / "index.jsonl").read_text().splitlines()] if SAMPLES.exists() else []
NAMES = {
    **{"allreduce": "all_reduce", "alltoall": "all_to_all", "gatherv": "gather", "pt2pt latency": "send_recv_one_way"},
    **{"pt2pt bidirectional bandwidth": "send_recv", "rma get bandwidth": "send_recv_one_way"},
}
NOT_IN_THE_FILE = {"15-gatherv-tagged-full-cut.txt"}
"""Its N is known from the issue that it was attached to."""


def codes(row: Measurement) -> set[str]:
    return {mark.code for mark in row.marks}


def cells(row: Measurement, unit: str) -> list[float]:
    """The row as the index has it: size, value, and with -f minimum, maximum, iterations."""
    assert row.printed is not None
    value = row.time_s * 1e6 if unit == "us" else (row.printed.algbw_GBps or 0) * 1e3
    more = [row.printed.columns.get(name) for name in ("time_min_us", "time_max_us", "iterations")]
    return [int(row.printed.size), value, *(float(cell) for cell in more if cell is not None)]


@pytest.mark.skipif(not INDEX, reason="the samples do not lie beside this checkout (../shared/data/logs/osu)")
@pytest.mark.parametrize("sample", INDEX, ids=lambda sample: sample["file"])
def test_samples_are_read_exactly(sample: dict) -> None:
    results = read_results(str(SAMPLES / sample["file"]))
    assert len(results.runs) == len(sample["runs"])
    for part, expected in zip(results.runs, sample["runs"], strict=True):
        rows = [cells(row, sample["value_unit"]) for row in part.measurements]
        assert part.run.settings["title"] == expected["title"]
        assert part.run.version == expected["version"]
        assert part.run.collective == NAMES[sample["op"]]
        assert len(rows) == expected["n_rows"]
        assert rows[0] == pytest.approx(expected["first"])
        assert rows[-1] == pytest.approx(expected["last"])
        assert list(max((row[1], row[0]) for row in rows)) == pytest.approx(expected["max_value"])
        lowest = min(row[1] for row in rows)
        assert [lowest, next(row[0] for row in rows if row[1] == lowest)] == pytest.approx(expected["min_value"])
        if sample["nranks"] and sample["file"] not in NOT_IN_THE_FILE:
            assert part.run.world_size == sample["nranks"]
        for row in part.measurements:
            assert row.source is not None
            line = (SAMPLES / sample["file"]).read_text().split("\n")[row.source.line - 1]
            assert str(row.printed.size if row.printed else "") in line.split()


def test_full_output_with_validation_and_tails() -> None:
    rows = read_results(str(GOLDEN / "allreduce_full_validation_tails.txt")).measurements
    assert [(row.call.size_bytes, row.call.world_size, row.time_s) for row in rows] == [
        (1024, 8, 25e-6),
        (2048, 8, 32e-6),
        (4096, 8, 64e-6),
    ]
    assert rows[0].call.dtype == "float32"
    assert rows[0].busbw_GBps == pytest.approx(1024 / 25e-6 / 1e9 * 1.75)
    assert rows[0].printed is not None
    assert rows[0].printed.columns == {
        **{"time_min_us": "20.00", "time_max_us": "40.00", "iterations": "1000"},
        **{"time_p50_us": "24.10", "time_p90_us": "29.50", "time_p99_us": "61.00"},
    }
    assert [row.wrong for row in rows] == [0, 0, 1]
    assert codes(rows[2]) == {"validation_failed"}


def test_non_blocking_counts_the_call_alone_and_sizes_are_of_all_ranks() -> None:
    first, second = read_results(str(GOLDEN / "ialltoall_overlap.txt")).measurements
    assert (first.call.collective, first.call.world_size, first.call.size_bytes) == ("all_to_all", 4, 4 * 1024)
    assert (first.time_s, second.time_s) == (25e-6, 32e-6)
    assert codes(first) == {"overlapped"}
    assert first.labels["mode"] == "non_blocking"
    assert first.printed is not None
    assert first.printed.columns["overlap_percent"] == "20.00"


def test_point_to_point_and_one_sided() -> None:
    results = read_results(str(GOLDEN / "point_to_point.txt"))
    small, pairs, multi, put, one_way = results.measurements
    assert (pairs.call.collective, pairs.call.world_size) == ("send_recv_one_way", 8)
    assert pairs.algbw_GBps == pytest.approx(10)  # 40 GB/s over 4 pairs
    assert small.time_s == pytest.approx(0.5e-6)
    assert (multi.call.size_bytes, multi.time_s) == (8, 2e-6)
    assert (put.call.collective, put.algbw_GBps) == ("send_recv", pytest.approx(10))  # 20 GB/s both ways together
    assert codes(put) == {"time_from_rate", "both_directions", "one_sided"}
    assert one_way.algbw_GBps == pytest.approx(10)
    assert one_way.printed is not None
    assert one_way.printed.columns == {"p99_bw_MBps": "9000.00"}
    assert one_way.wrong == 0


def test_barrier_other_libraries_and_what_is_no_collective_here() -> None:
    results = read_results(str(GOLDEN / "barrier_and_more.txt"))
    assert [(part.run.collective, len(part.measurements)) for part in results.runs] == [
        *[("barrier", 1), (None, 0), ("reduce_scatter", 1), ("all_gather", 1), ("broadcast", 1)]
    ]
    barrier, reduce_scatter, all_gather, broadcast = results.measurements
    assert (barrier.call.size_bytes, barrier.algbw_GBps) == (0, None)
    assert reduce_scatter.call.size_bytes == 4096
    assert all_gather.call.size_bytes == 8 * 4096
    assert codes(broadcast) == {"mean_over_ranks"}
    assert results.runs[1].run.unreadable_count == 1
    assert "none of the collectives" in results.runs[1].run.unreadable[0].reason


def test_without_n_a_size_per_rank_stays_as_printed_and_says_so() -> None:
    text = b"# OSU MPI Allgather Latency Test v7.4\n# Size       Avg Latency(us)\n1024                    25.00\n"
    (row,) = read_text(LogText(text, "x")).measurements
    assert (row.call.size_bytes, row.call.world_size) == (1024, UNKNOWN_WORLD_SIZE)
    assert codes(row) == {"size_per_rank_unknown_n", "world_size_unknown"}
    assert row.busbw_GBps is None
    (row,) = read_text(LogText(text, "x"), world_size=4).measurements
    assert (row.call.size_bytes, row.call.world_size) == (4096, 4)


def test_hash_stripped_tagged_and_indented() -> None:
    text = b"    [1,0]<stdout>: OSU MPI Reduce Latency Test v7.4\n".lstrip() + (
        b"[1,0]<stdout>: Size       Avg Latency(us)\n[1,0]<stdout>: 1024                    25.00\n"
    )
    (row,) = read_text(LogText(text, "x")).measurements
    assert (row.call.collective, row.time_s) == ("reduce", 25e-6)


@pytest.mark.parametrize("name", ["cut_inside_a_number.txt", "barrier_and_more.txt"])
def test_a_row_that_ends_inside_a_number_is_not_read(name: str) -> None:
    run = read_results(str(GOLDEN / name)).runs[-1]
    assert len(run.measurements) == 1
    assert run.run.complete is False
    assert run.run.unreadable[0].reason == "the row ends inside a number"


def test_a_crash_before_the_first_row_is_told() -> None:
    with pytest.raises(NoRows, match=r"all_reduce on 4 ranks has no row: a process crashed \(line 9"):
        read_results(str(GOLDEN / "crashed_before_the_first_row.txt"))


def test_a_lost_title_is_taken_from_the_program() -> None:
    text = b"$ srun -n 4 osu_ibcast -m 8\n# Size       Avg Latency(us)\n1024                    25.00\n"
    (row,) = read_text(LogText(text, "x")).measurements
    assert (row.call.collective, row.call.world_size) == ("broadcast", 4)
