from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.core.log_text import LogText
from busbw.formats import read_results, read_text

GOLDEN = Path(__file__).parents[1] / "golden" / "all_reduce_bench"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "data" / "logs" / "torch-bench"
TOOLS = ("all_reduce_bench.py", "torch-dist-bench.py")
INDEX = [json.loads(line) for line in (SAMPLES / "index.jsonl").read_text().splitlines()] if SAMPLES.exists() else []
INDEX = [sample for sample in INDEX if sample["values"]["tool"].split()[0] in TOOLS]


@pytest.mark.skipif(not INDEX, reason="the samples do not lie beside this checkout (../shared/data/logs/torch-bench)")
@pytest.mark.parametrize("sample", INDEX, ids=lambda sample: sample["file"])
def test_samples_are_read_exactly(sample: dict) -> None:
    values = sample["values"]
    results = read_results(str(SAMPLES / sample["file"]))
    rows = results.measurements
    assert len(rows) == values["rows"]
    assert {row.call.collective for row in rows} == {values["op"]}
    printed = [row.printed for row in rows if row.printed is not None]
    found = [(one.size, one.busbw_GBps, one.algbw_GBps) for one in printed]
    if "first" in values:
        assert list(found[0]) == values["first"]
        assert list(found[-1]) == values["last"]
        best = max(found, key=lambda one: one[1] or 0)
        assert best[:2] == (values["max_busbw_at"], values["max_busbw"])
    expected = values.get("runs", [values])
    assert [row.call.world_size for row in rows] == [one["nranks"] for one in expected] * (len(rows) // len(expected))
    if "payload" in values:
        assert (printed[0].size, results.run.settings["trials"]) == (values["payload"], values["trials"])
    for one, run in zip(printed, expected, strict=False):
        if "algbw" in run:
            assert (one.algbw_GBps, one.busbw_GBps) == (run["algbw"], run["busbw"])
            assert one.columns.get("std") == (str(run["std"]) if "std" in run else None)
    for row in rows:  # what is worked out agrees with both printed numbers
        assert row.printed is not None
        digits = 2 if "first" in values else 3
        assert round(row.algbw_GBps or 0, digits) == pytest.approx(row.printed.algbw_GBps, abs=1.01 * 10**-digits)
        assert row.busbw_GBps == pytest.approx(row.printed.busbw_GBps, abs=0.5001 * 10**-digits)
        assert "mean_of_rates" in {mark.code for mark in row.marks}


def test_interrupted_profiled_and_cut() -> None:
    results = read_results(str(GOLDEN / "interrupted.txt"))
    sweep, profile, cut, empty = results.runs
    assert [(row.call.size_bytes, row.call.world_size) for row in sweep.measurements] == [(2**15, 2), (2**16, 2)]
    assert sweep.run.unreadable_count == 1
    assert [(row.call.size_bytes, row.algbw_GBps) for row in profile.measurements] == [
        (2**29, pytest.approx(200)),
        (2**29, pytest.approx(100)),
    ]
    (row,) = cut.measurements
    assert "row_cut" in {mark.code for mark in row.marks}
    assert row.busbw_GBps == pytest.approx(75)
    assert (len(empty.measurements), empty.run.unreadable[0].reason) == (0, "no rate follows")


def test_the_sentence_and_the_factor_disagree() -> None:
    text = b"""The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):

| payload | busbw | algbw |
| ---: | ---: | ---: |
| 1GiB | 150.00GBps | 100.00GBps |
"""
    results = read_text(LogText(text, "x"))
    assert results.measurements[0].call.world_size == 8
    assert "8 ranks, but busbw/algbw is that of 4 ranks" in results.run.notes[0]


def test_the_older_script() -> None:
    results = read_results(str(GOLDEN / "older_script.txt"))
    assert [(row.call.collective, row.call.size_bytes, row.call.world_size) for row in results.measurements] == [
        ("all_reduce", 4_000_000_000, 8)
    ] * 2
    assert [row.time_s for row in results.measurements] == [0.9555, 0.96]
    assert results.measurements[1].busbw_GBps == pytest.approx(58.3333 / 8, rel=1e-5)
    assert {"rate_is_twice", "size_from_rate"} <= {mark.code for mark in results.measurements[0].marks}
