"""Saved captures: whole, cut, killed, merged, and anything at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import BusbwError, FileError
from busbw.traces.reader import parse_traces, read_file, read_traces

HEADER = {"type": "capture", "format": 1, "rank": 0, "world_size": 2, "host": "a", "started_unix_s": 5.0}
GROUP = {"type": "group", "id": 0, "name": "world", "ranks": [0, 1], "backend": "gloo"}
KIND = {
    "type": "kind", "id": 0, "group_id": 0, "op": "allreduce_", "collective": "all_reduce", "size_bytes": 400, "world_size": 2,
    "dtype": "float32", "sent_bytes": 400, "phase": "backward", "module": "bucket 0", "call_site": "a.py:1 f",
}  # fmt: skip
END = {"type": "end", "calls": 2, "lost": 0, "why": "exit"}


def text(*lines: object) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_whole_file() -> None:
    mark = {"type": "mark", "what": "optimizer", "sequence": 2, "segment": 0, "at_ns": 9_000_000_000, "optimizer": 0}
    clock = {"type": "clock", "at_ns": 1_000_000_000, "offset_ns": 500, "uncertainty_ns": 20}
    lines = (HEADER, GROUP, KIND, [0, 0, 0, 1_000_000_000, None], clock, [1, 0, 0, 3_000_000_000, 4_000_000_000])
    (trace,) = parse_traces(text(*lines, [0, 2_000_000_000], mark, END), "x")
    assert (trace.rank, trace.world_size, trace.complete, trace.lost, trace.notes) == (0, 2, True, 0, ())
    assert [(call.start_s, call.end_s) for call in trace.calls] == [(1.0, 2.0), (3.0, 4.0)]
    kind = trace.calls[0].kind
    assert (kind.call.collective, kind.call.size_bytes, kind.group.ranks, kind.module) == (
        "all_reduce",
        400,
        (0, 1),
        "bucket 0",
    )
    assert [(mark.what, mark.at_s) for mark in trace.marks] == [("optimizer", 9.0)]
    assert trace.on_rank_0(3.0) == pytest.approx(3.0 + 5e-7)
    assert trace.facts["host"] == "a"


def test_a_start_on_a_gpu_is_known_later() -> None:
    (trace,) = parse_traces(text(HEADER, GROUP, KIND, [0, 0, 0, 1_000, None], [0, 9_000, 5_000], END), "x")
    assert (trace.calls[0].start_s, trace.calls[0].end_s) == (5e-6, 9e-6)


def test_a_call_of_another_size_than_its_kind() -> None:
    (trace,) = parse_traces(text(HEADER, GROUP, KIND, [0, 0, 0, 1, None], [1, 0, 0, 2, None, 8, 6], END), "x")
    assert [(call.kind.call.size_bytes, call.kind.sent_bytes) for call in trace.calls] == [(400, 400), (8, 6)]


def test_a_killed_job_says_what_may_be_missing() -> None:
    (trace,) = parse_traces(text(HEADER, GROUP, KIND, [0, 0, 0, 1, None]) + "[1, 0, 0, 12", "x")
    assert not trace.complete
    assert len(trace.calls) == 1
    assert trace.notes == (
        "x:5: the last line was cut and is not counted",
        "rank 0 was killed or still runs: calls of its last second may be missing (at most 512)",
    )


def test_merged_ranks_also_where_one_was_cut() -> None:
    first = text(HEADER, GROUP, KIND) + "[0, 0, 0\n"
    other = json.dumps({**HEADER, "rank": 1}, separators=(",", ":")) + "\n" + text(GROUP, KIND, [0, 0, 0, 7, 8], END)
    traces = parse_traces(first + other, "x")
    assert [(trace.rank, len(trace.calls), trace.complete) for trace in traces] == [(0, 0, False), (1, 1, True)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "not a line of a capture"),
        ((GROUP,), "the first line must be"),
        (({**HEADER, "format": 2},), "format 2 is not known"),
        (({**HEADER, "rank": 2},), "rank 2 is not below the world size 2"),
        ((HEADER, KIND), "KeyError"),
        ((HEADER, GROUP, {**KIND, "phase": "lunch"}), "phase 'lunch' is not one of"),
        ((HEADER, GROUP, {**KIND, "sent_bytes": -1}), "sent_bytes -1"),
        ((HEADER, GROUP, {**KIND, "collective": "all_redcue"}), "all_redcue"),
        ((HEADER, GROUP, KIND, [0, 7, 0, 1, None]), "KeyError"),
        ((HEADER, GROUP, KIND, [0, 0, 0, 1.5, None]), "must be whole"),
        ((HEADER, GROUP, KIND, [3, 99]), "KeyError"),
        ((HEADER, GROUP, KIND, [0, 0, 0, 1, None, -8, 0]), "must be whole numbers"),
    ],
)
def test_a_line_that_breaks_the_format_is_named(lines: tuple[object, ...], message: str) -> None:
    with pytest.raises(FileError, match=r"^x:\d") as raised:
        parse_traces(text(*lines, END), "x")
    assert message in str(raised.value)


def test_folders_and_restarts(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no capture"):
        read_traces([tmp_path])
    (tmp_path / "rank-00000.jsonl").write_text(text(HEADER, GROUP, KIND, [0, 0, 0, 1, 2], END))
    (tmp_path / "rank-00000.restart-1.jsonl").write_text(text({**HEADER, "started_unix_s": 9.0}, END))
    (trace,) = read_traces([tmp_path])
    assert trace.calls == ()
    assert trace.notes == ("rank 0 was captured 2 times: only its last start counts",)
    with pytest.raises(FileError, match="cannot be read"):
        read_file(tmp_path / "nothing")


def test_what_is_read_of_a_live_capture_is_what_was_seen(job: Path, tmp_path: Path) -> None:
    """Merging by hand: the four files of a job in one."""
    merged = tmp_path / "all.jsonl"
    with merged.open("wb") as out:
        for part in sorted((job / "ddp").glob("rank-*.jsonl")):
            with part.open("rb") as source:
                shutil.copyfileobj(source, out)
    assert read_traces([merged]) == read_traces([job / "ddp"])


@given(
    st.lists(
        st.one_of(
            st.text(max_size=30),
            st.sampled_from([text(x) for x in (HEADER, GROUP, KIND, [0, 0, 0, 1, None], [0, 5], END)]),
        ),
        max_size=12,
    )
)
def test_any_text_is_a_capture_or_an_error(parts: list[str]) -> None:
    try:
        parse_traces("".join(parts), "x")
    except BusbwError as error:
        assert str(error).startswith("x")
