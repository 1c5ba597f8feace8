"""Whatever happens to a log on its way, reading ends in rows that make sense or in an error that a user can act on."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from busbw.core.file_format import FORMATS, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Results
from busbw.errors import BusbwError
from busbw.formats import read_text

TESTS = Path(__file__).parents[1]
SAMPLES = TESTS.parents[1] / "shared" / "data" / "logs"
CASES = int(os.environ.get("BUSBW_FUZZ_CASES", "0")) or 300
FILES = sorted(
    path
    for folder in (
        *(TESTS / "golden" / name for name in ("osu", "deepspeed", "all_reduce_bench", "csv_table", "inspector")),
        *(TESTS / "golden" / name for name in ("gloo", "ucc", "param", "nccom")),
        *(SAMPLES / name for name in ("osu", "torch-bench")),
    )
    for path in folder.glob("*")
    if path.name != "index.jsonl"
)
TEXTS = [path.read_bytes() for path in FILES]
MINE = (
    *("all_reduce_bench", "csv_table", "deepspeed_bench", "deepspeed_comms_log", "gloo_benchmark", "nccl_inspector"),
    *("nccom", "osu", "param", "ucc_perftest"),
)
HUGE = (
    b"9" * 400,
    b"1e999",
    b"-1",
    b"0e400",
    b"nan",
    b"inf",
    b"0",
    b"0.0",
    b"18446744073709551616",
    b"\xd9\xa3",
    b"1_0",
)
JUNK = (
    *(b"\x00\xff\xfe", b"\x1b[31m", b"\r", b"|" * 50, b"{" * 2000, b"[" * 2000, b'"', b",,,,", b"\n# Size\n"),
    b"host:1:2 [0] NCCL INFO x ",
)


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A file that was cut, doubled, interleaved with another, or had bytes, numbers and lines replaced."""
    data = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        lines = data.split(b"\n")
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 8)):
            case 0:
                data = data[:at]
            case 1:
                data = data[at:]
            case 2:
                data = data + data[: at + 1]
            case 3:
                other = draw(st.sampled_from(TEXTS)).split(b"\n")
                data = b"\n".join(line for pair in zip(lines, other, strict=False) for line in pair)
            case 4:
                data = data[:at] + draw(st.sampled_from(JUNK)) + data[at:]
            case 5:
                numbers = [word for word in data.split() if word[:1].isdigit()]
                if numbers:
                    data = data.replace(draw(st.sampled_from(numbers)), draw(st.sampled_from(HUGE)), 3)
            case 6:
                first, second = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
                lines[first], lines[second] = lines[second], lines[first]
                data = b"\n".join(lines)
            case 7:
                del lines[draw(st.integers(0, len(lines) - 1))]
                data = b"\n".join(lines)
            case _:
                data = data[:at] + draw(st.binary(max_size=6)) + data[at + draw(st.integers(0, 8)) :]
        if len(data) > 60_000:
            data = data[:60_000]
    return data


def check(results: Results) -> None:
    for row in results.measurements:
        assert 0 < row.time_s < math.inf
        assert 0 <= row.call.size_bytes < 2**63
        assert 0 <= row.call.world_size <= 2**24
        assert row.source is not None
        assert row.source.line >= 1
        row.row()
        if row.busbw_GBps is not None:
            assert math.isfinite(row.busbw_GBps)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_prefix_that_ends_at_a_line(path: Path) -> None:
    """A log that stops early has the rows of its whole lines, each read as before."""
    data = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    for end in ends[:: max(1, len(ends) // 12)]:
        with suppress(BusbwError):
            check(read_text(LogText(data[:end], path.name)))


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), deadline=None)
@given(broken())
def test_rows_or_a_clear_error(data: bytes) -> None:
    with suppress(BusbwError):
        check(read_text(LogText(data, "log")))


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), deadline=None)
@given(broken(), st.sampled_from(MINE), st.sampled_from([None, "all_gather"]), st.sampled_from([None, 8]))
def test_each_reader_on_any_file(data: bytes, name: str, op: str | None, world_size: int | None) -> None:
    """A reader that takes a file for its own by mistake does no harm either."""
    with suppress(BusbwError):
        results = FORMATS.get(name).read(LogText(data, "log"), ReadOptions(op, world_size))
        for part in () if results is None else results.runs:
            check(part)
