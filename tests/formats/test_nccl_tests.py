from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from busbw.core.call import Call
from busbw.core.dtype import find_dtype
from busbw.core.log_text import LogText
from busbw.core.measurement import Measurement, Results
from busbw.errors import FileError, NoRows
from busbw.formats import read_results, read_text

GOLDEN = Path(__file__).parents[1] / "golden" / "nccl_tests"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "data" / "logs" / "nccl-tests"
INDEX = [json.loads(line) for line in (SAMPLES / "index.jsonl").read_text().splitlines()] if SAMPLES.exists() else []
NAMES = {"alltoall": "all_to_all", "sendrecv": "send_recv"}


def by_line(rows: tuple[Measurement, ...]) -> dict[int, list[Measurement]]:
    found: dict[int, list[Measurement]] = {}
    for row in rows:
        assert row.source is not None
        found.setdefault(row.source.line, []).append(row)
    return found


def printed_busbw(row: Measurement) -> float:
    assert row.printed is not None
    assert row.printed.busbw_GBps is not None
    return row.printed.busbw_GBps


def summary(part: Results, like: dict[str, Any]) -> dict[str, Any]:
    """One run in the words of the index; only the keys that it has for this run."""
    run, rows = part.run, by_line(part.measurements)
    sizes = sorted({row.call.size_bytes for row in part.measurements})
    # Of equal peaks the index names the largest size, out of place.
    best = max(
        part.measurements,
        key=lambda row: (printed_busbw(row), row.call.size_bytes, not row.call.in_place),
        default=None,
    )
    average = run.average.of_rows_GBps if run.average else None
    found = {
        "op": run.collective,
        "nranks": run.world_size,
        "rows": len(rows),
        "dtype": sorted({row.call.dtype for row in part.measurements if row.call.dtype}),
        "sizes": {"n": len(sizes), "min": sizes[0], "max": sizes[-1]} if isinstance(like.get("sizes"), dict) else sizes,
        "zero_size_rows": sum(halves[0].call.size_bytes == 0 for halves in rows.values()),
        "avg_busbw_reported": run.average.reported_GBps if run.average else None,
        "avg_busbw_of_rows": None if average is None else pytest.approx(average, abs=6e-7),
        "max_busbw": None if best is None else printed_busbw(best),
        "max_busbw_at": None
        if best is None
        else {"size": best.call.size_bytes, "place": "in-place" if best.call.in_place else "out-of-place"},
        "wrong_rows": sum(any(row.wrong for row in halves) for halves in rows.values()),
        "out_of_bounds": None if run.out_of_bounds is None else list(run.out_of_bounds),
        "complete": run.complete,
    }
    return {key: value for key, value in found.items() if key in like}


@pytest.mark.skipif(not INDEX, reason="the samples do not lie beside this checkout (../shared/data/logs/nccl-tests)")
@pytest.mark.parametrize("sample", INDEX, ids=lambda sample: sample["file"])
def test_samples_are_read_exactly(sample: dict[str, Any]) -> None:
    try:
        results = read_results(str(SAMPLES / sample["file"]))
    except NoRows as error:
        assert not any(run["rows"] for run in sample["runs"])
        assert isinstance(error.results, Results)
        results = error.results
    wanted = [
        {**run, "op": NAMES.get(run["op"], run["op"]), "dtype": sorted(find_dtype(name).name for name in run["dtype"])}
        for run in sample["runs"]
    ]
    found = [summary(part, like) for part, like in zip(results.runs, wanted, strict=True)]
    assert found == [{key: run[key] for key in each} for each, run in zip(found, wanted, strict=True)]
    assert results.run.unreadable_count == 0
    for part, run in zip(results.runs, wanted, strict=True):
        check_values(part, run)


def check_values(part: Results, run: dict[str, Any]) -> None:
    """The last row's numbers, redop and root, and our own rates against the printed ones."""
    for row in part.measurements:
        words = {row.call.redop or word for word in run.get("redop", [row.call.redop]) if word in ("", "none")}
        assert row.call.redop is None or row.call.redop in {*run["redop"], *words}
        assert row.call.root is None or row.call.root in run.get("root", [row.call.root])
        if row.busbw_GBps is not None and printed_busbw(row) > 1 and "time_unit" not in run:
            assert row.busbw_GBps == pytest.approx(printed_busbw(row), rel=0.01)
    last = run.get("last_row") or {}
    if "time" not in last:
        return
    halves = list(by_line(part.measurements).values())[-1]
    unit = 1e-3 if run.get("time_unit") == "ms" else 1e-6
    assert [row.time_s for row in halves] == pytest.approx([time * unit for time in last["time"] if time is not None])
    for name in ("algbw", "busbw"):
        rates = [getattr(row.printed, f"{name}_GBps") for row in halves]
        assert rates == [rate for rate in last[name] if rate is not None]
    assert {row.call.size_bytes for row in halves} == {last["size"]}


def codes(results: Results) -> set[str]:
    return {mark.code for row in results.measurements for mark in row.marks}


def test_nccl_1_printed_one_ranks_part() -> None:
    results = read_results(str(GOLDEN / "nccl1_all_gather.txt"))
    assert [row.call for row in results.measurements] == [
        Call("all_gather", 40_000_000, 4, "int8", in_place=False),
        Call("all_gather", 40_000_000, 4, "int32", in_place=False),
    ]
    assert [row.time_s for row in results.measurements] == [3e-3, 2.5e-3]
    assert [row.busbw_GBps for row in results.measurements] == pytest.approx([10, 12])
    assert results.measurements[0].printed is not None
    assert results.measurements[0].printed.size == "10000000"
    scatter = read_results(str(GOLDEN / "nccl1_reduce_scatter.txt"))
    assert [(row.call.collective, row.call.size_bytes) for row in scatter.measurements] == [
        ("reduce_scatter", 40_000_000)
    ] * 2
    assert [row.busbw_GBps for row in scatter.measurements] == pytest.approx([10, 12])
    broadcast = read_results(str(GOLDEN / "nccl1_broadcast.txt"))
    assert [(row.call.collective, row.call.root, row.call.in_place) for row in broadcast.measurements] == [
        ("broadcast", 0, False),
        ("broadcast", 1, False),
    ]
    assert not codes(results) | codes(scatter) | codes(broadcast)


def test_rccls_columns() -> None:
    results = read_results(str(GOLDEN / "rccl_in_place_hipevt.txt"))
    first, second = results.measurements
    assert first.call == Call("reduce_scatter", 2**20, 8, "float8_e4m3", "sum", None, True)
    assert second.call == Call("reduce_scatter", 2**21, 8, "bfloat16", "avg", None, True)
    assert dict(first.labels) == {
        "backend": "rccl",
        "mode": "blocking",
        "algorithm": "Ring",
        "protocol": "LL128",
        "channels": "56",
    }
    assert first.printed is not None
    assert dict(first.printed.columns) == {"hip_event_us": "48.10"}
    assert (results.run.tool, results.run.version) == ("rccl-tests", "2.17.6-develop:a52452e")
    assert results.run.environment == {"hosts": 1, "device": "AMD Instinct MI300X"}


def test_a_row_torn_twice_between_tagged_lines() -> None:
    results = read_results(str(GOLDEN / "torn_tagged.txt"))
    assert [(row.call.size_bytes, row.call.in_place, row.time_s) for row in results.measurements] == [
        (2**20, False, pytest.approx(50e-6)),
        (2**20, True, pytest.approx(40e-6)),
        (2**23, False, pytest.approx(400e-6)),
        (2**23, True, pytest.approx(400e-6)),
    ]
    assert (results.run.collective, results.run.world_size) == ("all_reduce", 4)
    labels = results.measurements[0].labels
    assert (labels["algorithm"], labels["protocol"], labels["channels"]) == ("Ring", "Simple", "16")
    assert labels["transport"] == "P2P+SHM/direct"
    assert "algorithm" not in results.measurements[2].labels


def test_damaged_rows_are_counted_and_kept_with_their_lines() -> None:
    results = read_results(str(GOLDEN / "damaged.txt"))
    assert sorted(by_line(results.measurements)) == [7, 10, 11]
    assert [(line.source.line, line.reason) for line in results.run.unreadable] == [
        (8, "the time 'lorem' is not a number"),
        (9, "its time is printed as 0, so no rate follows from it"),
        (12, "it does not begin with size, count and type"),
    ]
    assert results.run.unreadable_count == 3
    assert any("damaged.txt:10: only the first half of this row could be read" in note for note in results.run.notes)
    assert [row.wrong for row in results.measurements] == [0, 0, 0, 3, None]
    assert results.run.complete is False


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("launch_failed.txt", ":3: nccl-tests of all_reduce has no row: the launch failed (line 3: "),
        ("crashed_first.txt", ':1: nccl-tests on 2 ranks has no row: CUDA failed (line 10: "Test CUDA failure'),
    ],
)
def test_a_file_without_rows_says_what_it_is_and_why(name: str, said: str) -> None:
    with pytest.raises(NoRows) as caught:
        read_results(str(GOLDEN / name))
    assert str(caught.value).startswith(f"{GOLDEN / name}{said}")


def test_rows_without_any_header() -> None:
    text = """
   1048576        262144     float     sum      -1    50.00   20.97   31.46      0    50.00   20.97   31.46      0
   8388608       2097152     float     sum      -1    400.0   20.97   31.46      0    400.0   20.97   31.46      0
    """
    results = read_text(LogText(text.encode(), "x"))
    assert (results.run.collective, results.run.world_size) == ("all_reduce", 4)
    in_ms = text.replace("50.00", "0.0500").replace("400.0", "0.4000")
    assert [row.time_s for row in read_text(LogText(in_ms.encode(), "x")).measurements] == pytest.approx(
        [row.time_s for row in results.measurements]
    )


@pytest.mark.parametrize(
    "text",
    [
        "2024 100 step 3 loss 0.1 0.2 0.3\n",
        "12 34 int main 5 6 7 8\n",
        "1048576 262144 float sum -1 50.00 9999.00 31.46 0 50.00 20.97 31.46 0\n",
        "the all_reduce_perf of my machine is good\n",
        "# nccl: 8 float\n",
    ],
)
def test_what_only_looks_like_it_is_no_row(text: str) -> None:
    with pytest.raises(FileError):
        read_text(LogText(text.encode(), "x"))


def test_the_average_is_explained() -> None:
    text = (
        "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "0 0 float sum -1 20.00 0.00 0.00 0 20.00 0.00 0.00 0\n"
        "8388608 2097152 float sum -1 400.0 20.97 31.46 0 400.0 20.97 31.46 0\n"
        "# Avg bus bandwidth    : 15.73\n"
    )
    note = "its average bus bandwidth, 15.73 GB/s, is the plain mean of all 4 printed, 2 of them of 0 bytes; the largest is 31.46"
    assert note in read_text(LogText(text.encode(), "x")).run.notes
    more = read_text(LogText(text.replace("15.73", "9.00").encode(), "x"))
    assert any(
        "the rows here give 15.73, so it covers rows that are not in the file" in each for each in more.run.notes
    )


JSON_LABELS = {"backend": "nccl", "NCCL_ALGO": "Ring"}


def test_json_with_misspelt_keys_strings_for_numbers_and_secrets() -> None:
    results = read_results(str(GOLDEN / "json_v1_misspelt.json"))
    assert [(row.call, row.wrong) for row in results.measurements] == [
        (Call("all_to_all", 2**20, 8, "float32", in_place=False), 0),
        (Call("all_to_all", 2**20, 8, "float32", in_place=True), None),
        (Call("all_to_all", 2**21, 8, "float32", in_place=False), 2),
    ]
    assert [line.reason for line in results.run.unreadable] == ["its time is not a number"]
    assert [row.source.line for row in results.measurements if row.source] == [1, 1, 2]
    assert results.run.average is not None
    assert results.run.average.reported_GBps == 8.563371
    assert results.run.out_of_bounds == (1, "FAILED")
    assert results.run.started == "2025-11-01T10:00:00"
    assert dict(results.measurements[0].labels) == JSON_LABELS
    assert "hunter2" not in repr(results)


def test_json_of_an_aborted_run() -> None:
    results = read_results(str(GOLDEN / "json_cut.json"))
    assert [row.call.size_bytes for row in results.measurements] == [2**20, 2**20, 2**21]
    assert results.run.complete is False
    assert results.run.failure == "the file ends in the middle: the run was aborted, or is still going on"
    whole = (GOLDEN / "json_v1_misspelt.json").read_text()
    rows = 0
    for end in range(len(whole)):
        try:
            cut = read_text(LogText(whole[:end].encode(), "x.json"))
        except FileError:
            assert rows == 0
            continue
        assert rows <= len(cut.measurements) <= 3
        assert cut.run.world_size == 8
        rows = len(cut.measurements)


def test_several_json_documents_in_one_file() -> None:
    whole = (GOLDEN / "json_v1_misspelt.json").read_text()
    for joined in (whole + whole, f"[{whole},\n{whole}]"):
        results = read_text(LogText(joined.encode(), "x.json"))
        assert len(results.runs) == 2
        assert [row.repeat for row in results.measurements] == [0, 0, 0, 1, 1, 1]


@pytest.mark.skipif(not INDEX, reason="the samples do not lie beside this checkout (../shared/data/logs/nccl-tests)")
def test_json_keeps_the_times_of_single_calls() -> None:
    results = read_results(str(SAMPLES / "51-t4-json-v3.json"))
    samples = results.measurements[0].samples
    assert samples is not None
    assert (samples.calls_per_sample, len(samples.per_rank_s), len(samples.per_rank_s[0])) == (1, 1, 50)
    assert samples.per_rank_s[0][0] == pytest.approx(23677.312851e-6)
