from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.core.call import UNKNOWN_WORLD_SIZE
from busbw.core.log_text import LogText
from busbw.core.measurement import Measurement
from busbw.errors import FileError
from busbw.formats import read_results, read_text

GOLDEN = Path(__file__).parents[1] / "golden" / "csv_table"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "data" / "logs" / "torch-bench"
INDEX = {}
if SAMPLES.exists():
    INDEX = {(one := json.loads(line))["file"]: one for line in (SAMPLES / "index.jsonl").read_text().splitlines()}
absent = pytest.mark.skipif(not INDEX, reason="the samples do not lie beside this checkout (../shared/data/logs)")


def codes(row: Measurement) -> set[str]:
    return {mark.code for mark in row.marks}


def rows_of(text: str, name: str = "table.txt") -> tuple[Measurement, ...]:
    return read_text(LogText(text.encode(), name)).measurements


@absent
def test_two_libraries_in_one_table() -> None:
    """Neither the operation nor N stands in the file: the index knows both from the issue."""
    values = INDEX["21-nccl-vs-gloo-ms-tabs.tsv"]["values"]
    path = SAMPLES / "21-nccl-vs-gloo-ms-tabs.tsv"
    rows = read_results(str(path)).measurements
    assert len({row.source.line for row in rows if row.source}) == values["rows"]
    expected = [line.split("\t") for line in path.read_text().split("\n")[1:] if line]
    for library, column in (("NCCL", 1), ("gloo", 2)):
        mine = [row for row in rows if row.labels["series"] == library]
        assert [row.time_s * 1e3 for row in mine] == pytest.approx([float(cells[column][:-2]) for cells in expected])
        assert [row.call.size_bytes for row in mine] == [1024 * 2**power for power in range(9)]
    assert {"op_unknown", "world_size_unknown", "size_unit_assumed"} <= codes(rows[0])
    (first, *_) = read_results(str(path), "all_reduce", values["nranks"]).measurements
    assert (first.call.collective, first.call.world_size) == (values["op"], values["nranks"])
    assert first.busbw_GBps == pytest.approx(1024 / 0.16e-3 / 1e9)


@absent
def test_scatter_on_four_paths() -> None:
    values = INDEX["26-scatter-md-four-paths.md"]["values"]
    rows = read_results(str(SAMPLES / "26-scatter-md-four-paths.md")).measurements
    assert len(rows) == values["rows"]
    for row, expected in zip(rows, values["runs"], strict=True):
        assert row.printed is not None
        assert {
            **{"path": row.labels["Path"], "nranks": row.call.world_size, "size_bytes": row.call.size_bytes},
            **{"time_us": round(row.time_s * 1e6, 9)},
            **{"algbw": row.printed.algbw_GBps, "busbw": row.printed.busbw_GBps},
        } == expected
        assert row.call.collective == values["op"]
        assert codes(row) == {"op_from_file_name"}
    text = (SAMPLES / "26-scatter-md-four-paths.md").read_text()
    results = read_text(LogText(text.encode(), "paths.md"))
    assert {row.call.collective for row in results.measurements} == {"unknown"}
    assert "busbw/algbw is that of" in results.run.notes[0]


@absent
def test_a_bandwidth_that_is_a_busbw() -> None:
    values = INDEX["27-ibm-torch-allreduce-mb.txt"]["values"]
    results = read_results(str(SAMPLES / "27-ibm-torch-allreduce-mb.txt"))
    rows = results.measurements
    assert len(rows) == values["rows"]
    assert (results.run.collective, results.run.world_size) == (values["op"], values["nranks"])
    for row, (size, time_us, rate) in ((rows[0], values["first"]), (rows[-1], values["last"])):
        assert row.printed is not None
        assert (row.call.size_bytes, row.time_s * 1e6) == (size * 1e6, pytest.approx(time_us))
        assert row.printed.busbw_GBps == rate
    assert {"op_from_factor", "world_size_from_factor"} <= codes(rows[0])
    assert "row_cut" in codes(rows[-1])


def test_quoted_csv_with_units_in_the_header() -> None:
    results = read_results(str(GOLDEN / "torch_profile.csv"))
    assert [(row.call.collective, row.call.size_bytes, row.time_s) for row in results.measurements] == [
        ("all_reduce", 2**20, 1e-4),
        ("all_gather", 2**20, 1e-4),
        ("all_reduce", 2**21, pytest.approx(2**21 * 1.75 / 36.70e9, rel=1e-3)),
        ("unknown", 2**21, 1e-4),
    ]
    assert {row.call.world_size for row in results.measurements} == {8}
    assert {row.call.dtype for row in results.measurements} == {"bfloat16"}
    assert codes(results.measurements[2]) == {"time_from_rate"}
    assert results.run.unreadable[0].reason == "a size without a time or a rate"


def test_key_value_lines() -> None:
    rows = read_results(str(GOLDEN / "all_to_all_key_value.txt")).measurements
    assert [row.time_s for row in rows] == [1e-4, 2e-4]
    assert {row.call.collective for row in rows} == {"all_to_all"}
    assert {row.call.world_size for row in rows} == {UNKNOWN_WORLD_SIZE}


def test_kilobytes_that_the_rate_tells() -> None:
    rows = read_results(str(GOLDEN / "blanks.txt")).measurements
    assert [row.call.size_bytes for row in rows] == [512 * 1024, 2**20]
    assert all("size_unit_assumed" not in codes(row) for row in rows)


def test_kilobytes_that_double_across_a_unit() -> None:
    rows = rows_of("size,time_us\n256KB,10.00\n512KB,20.00\n1MB,40.00\n")
    assert [row.call.size_bytes for row in rows] == [2**18, 2**19, 2**20]
    assert all("size_unit_assumed" not in codes(row) for row in rows)


def test_time_without_a_unit_is_told_by_the_rate() -> None:
    rows = rows_of("size,count,type,redop,root,time,algbw,busbw\n1048576,262144,float,sum,-1,100.0,10.49,18.35\n")
    assert rows[0].time_s == pytest.approx(1e-4)
    assert (rows[0].call.collective, rows[0].call.world_size) == ("all_reduce", 8)
    with pytest.raises(FileError, match="could not be read"):
        rows_of("size,time\n1048576,100.0\n")


def test_sizes_of_one_rank() -> None:
    text = "op,ranks,bytes per rank,time (ms)\nall_gather,4,1024,1.000\nall_reduce,4,1024,1.000\n"
    gather, reduce = rows_of(text)
    assert gather.call.size_bytes == 4096
    assert reduce.call.size_bytes == 1024
    (row,) = rows_of("op,bytes per rank,time (ms)\nall_gather,1024,1.000\n")
    assert (row.call.size_bytes, codes(row)) == (1024, {"size_per_rank_unknown_n", "world_size_unknown"})


def test_rates_in_bits_and_columns_beside() -> None:
    (row,) = rows_of("op;ranks;size;time_ms;min_ms;max_ms;busbw (Gbps);iters\nall_reduce;2;1MiB;1.00;0.9;2.0;8.39;20\n")
    assert row.printed is not None
    assert row.printed.busbw_GBps == pytest.approx(8.39 / 8)
    assert row.printed.columns == {"min_ms": "0.9", "max_ms": "2.0", "iters": "20"}
    assert codes(row) == set()


def test_a_rate_that_contradicts_its_time() -> None:
    (row,) = rows_of("op,ranks,bytes,time_us,algbw_GBps\nall_reduce,8,1048576,100.0,99.0\n")
    assert codes(row) == {"rate_contradicts_time"}


def test_prose_about_sizes_is_no_table() -> None:
    with pytest.raises(FileError, match="not a results file of a format"):
        rows_of("The message size, in bytes, is given by -b.\nsize matters, time too\n1, 2\n" * 3)
