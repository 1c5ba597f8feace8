from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.core.call import Call
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Measurement, Results, Run, Samples, Source
from busbw.errors import BusbwError, FileError
from busbw.formats import read_results
from busbw.formats.busbw_jsonl import FORMAT, FORMAT_VERSION, measurement_record, read, run_record

RUN = Run(version="0.1.0", started="2026-11-30T05:00:00Z", environment={"cpu": "x"}, settings={"iters": 3})
ROWS = (
    Measurement(Call("all_reduce", 4000, 2, "float32", "sum", None, False), 2e-6, wrong=0, labels={"backend": "fake"}),
    Measurement(
        Call("broadcast", 8, 4, "int8", None, 3),
        1e-6,
        samples=Samples(5, ((1e-6, 2e-6), (3e-6, 4e-6))),
        marks=(Mark("few", "2 samples"),),
        repeat=1,
    ),
)


def lines_of(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


TEXT = lines_of(run_record(RUN), *map(measurement_record, ROWS))


def test_what_is_written_reads_back_the_same_with_its_lines() -> None:
    results = read(TEXT, "a.jsonl")
    assert results.run == RUN
    assert [row.source for row in results.measurements] == [Source("a.jsonl", 2), Source("a.jsonl", 3)]
    assert [row.to_json() for row in results.measurements] == [row.to_json() for row in ROWS]


def test_a_file_of_version_1_keeps_loading(golden: Path) -> None:
    results = read_results(str(golden / "busbw_jsonl_v1.jsonl"))
    assert results.run.settings == {"backend": "fake", "iters": 3}
    assert results.run.environment == {"python": "3.11.7"}
    assert results.run.notes == ("4 GiB was skipped: it does not fit",)
    assert [launch["world_size"] for launch in results.run.launches] == [2]
    first, second = results.measurements
    assert first.call == Call("all_reduce", 4000, 2, "float32", "sum", None, False)
    assert (first.time_s, first.busbw_GBps, first.wrong) == (2e-6, pytest.approx(2.0), 0)
    assert first.samples == Samples(1, ((1.9e-6, 2e-6, 2.1e-6), (2e-6, 2e-6, 2e-6)))
    assert first.source is not None
    assert first.source.line == 3
    assert second.call == Call("barrier", 0, 2)
    assert second.marks == (Mark("few", "3 samples are too few for an interval"),)


@pytest.mark.parametrize("cut", [1, 2, 20, 100])
def test_a_last_line_that_was_cut_is_a_note_and_the_rest_is_read(cut: int) -> None:
    results = read(TEXT[:-cut], "a.jsonl")
    if cut == 1:  # only the newline is missing: the line is whole
        assert len(results.measurements) == 2
        assert results.run.notes == ()
    else:
        assert len(results.measurements) == 1
        assert results.run.notes == ("a.jsonl:3: the last line was cut and is not counted",)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        "7",
        '{"no": "type"}',
        '{"type": "measurement"}',
        '{"type": "measurement", "call": {"collective": "reduce", "size_bytes": 8, "world_size": 2}, "time_s": 1e999}',
        '{"type": "measurement", "call": {"collective": "warp", "size_bytes": 8, "world_size": 2}, "time_s": 1}',
        '{"type": "measurement", "call": {"collective": "reduce", "size_bytes": 1e99, "world_size": 2}, "time_s": 1}',
        '{"type": "note"}',
        '{"type": "run", "format": "x"}',
        '{"type": "run", "format": 0}',
        '{"type": "run", "format": 1, "settings": 5}',
        "[" * 100_000,
        "9" * 10_000,
    ],
)
def test_a_broken_line_in_the_middle_is_an_error_that_names_it(line: str) -> None:
    first, *rest = TEXT.splitlines()
    with pytest.raises(FileError) as caught:
        read("\n".join([first, line, *rest, ""]), "a.jsonl")
    assert str(caught.value).startswith("a.jsonl:2: ")
    assert len(str(caught.value)) < 500


def test_an_unknown_kind_of_line_is_passed_over() -> None:
    text = lines_of(run_record(RUN), {"type": "weather", "sun": True}, measurement_record(ROWS[0]))
    assert len(read(text, "a.jsonl").measurements) == 1


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_newer_format_is_refused_wherever_it_begins(place: int) -> None:
    lines = TEXT.splitlines()
    lines.insert(place, json.dumps({**run_record(RUN), "format": FORMAT_VERSION + 1}))
    with pytest.raises(FileError, match=rf"a\.jsonl:{place + 1}: results format 2 is newer than 1.*upgrade busbw"):
        read("\n".join(lines), "a.jsonl")


def test_a_resumed_file_keeps_the_first_runs_settings() -> None:
    again = Run(settings={"iters": 99})
    text = TEXT + lines_of(run_record(again), measurement_record(ROWS[0]))
    results = read(text, "a.jsonl")
    assert results.run.settings == {"iters": 3}
    assert len(results.measurements) == 3


@pytest.mark.parametrize("name", ["with a byte order mark", "with CRLF line ends", "with blank lines"])
def test_editors_leave_their_marks(name: str, tmp_path: Path) -> None:
    changed = {
        "with a byte order mark": "\ufeff" + TEXT,
        "with CRLF line ends": TEXT.replace("\n", "\r\n"),
        "with blank lines": TEXT.replace("\n", "\n\n"),
    }[name]
    path = tmp_path / "a.jsonl"
    path.write_bytes(changed.encode())
    assert [row.call for row in read_results(str(path)).measurements] == [row.call for row in ROWS]


# Random input: nothing but Results or a BusbwError may come out, and what comes out can be used.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def use(results: Results) -> None:
    for row in results.measurements:
        json.dumps(row.row())
        json.dumps(measurement_record(row))
        assert row.busbw_GBps is None or row.busbw_GBps >= 0
        assert row.call.count is None or row.call.count >= 0
        if row.summary is not None and row.summary.median_s:
            assert row.summary.half_width is None or isinstance(row.summary.half_width, float)
    json.dumps(run_record(results.run))


def read_and_use(text: str) -> None:
    try:
        results = read(text, "f.jsonl")
    except BusbwError as error:
        message = str(error)
    else:
        message = "f.jsonl"
        use(results)
    assert message.startswith("f.jsonl")


@pytest.mark.fuzz
@given(st.data())
def test_fuzz_one_value_of_a_record_is_replaced(data: st.DataObject) -> None:
    records = [run_record(RUN), *map(measurement_record, ROWS), {"type": "note", "text": "x"}]
    record: Any = records[data.draw(st.integers(0, len(records) - 1), label="record")]
    while True:
        keys = list(record) if isinstance(record, dict) else range(len(record))
        key = data.draw(st.sampled_from(list(keys)), label="key")
        inner = record[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans(), label="go deeper"):
            record = inner
            continue
        record[key] = data.draw(JSON, label="value")
        break
    read_and_use(lines_of(*records))


@pytest.mark.fuzz
@given(st.integers(0, len(TEXT)), st.integers(0, 40), st.text(max_size=40))
def test_fuzz_a_part_of_the_text_is_replaced(start: int, length: int, inserted: str) -> None:
    read_and_use(TEXT[:start] + inserted + TEXT[start + length :])


@pytest.mark.fuzz
@given(st.lists(JSON, max_size=5))
def test_fuzz_lines_of_any_json(values: list[Any]) -> None:
    read_and_use("\n".join(json.dumps(value) for value in values))


@pytest.mark.fuzz
@given(st.text(max_size=200))
def test_fuzz_recognising_never_fails(head: str) -> None:
    assert FORMAT.recognises(LogText(head.encode(), "f")) in (True, False)
