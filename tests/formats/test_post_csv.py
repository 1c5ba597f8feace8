from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.core.call import Call
from busbw.core.log_text import LogText
from busbw.core.measurement import Measurement, Source
from busbw.errors import BusbwError, FileError
from busbw.formats import read_results
from busbw.formats.post_csv import FORMAT, read, write

HEAD = "op,world_size,bytes,time_ms,algbw_GBps,busbw_GBps\n"


def test_the_golden_file(golden: Path) -> None:
    name = str(golden / "post.csv")
    rows = read_results(name).measurements
    assert [row.call for row in rows] == [
        Call("broadcast", 4096, 2),
        Call("scatter", 16777216, 4),
        Call("all_reduce", 1073741824, 8),
    ]
    assert [row.time_s for row in rows] == pytest.approx([1e-5, 5e-4, 0.1053])
    assert rows[2].algbw_GBps == pytest.approx(10.197, abs=5e-4)
    assert rows[2].busbw_GBps == pytest.approx(17.845, abs=5e-4)
    assert [row.source for row in rows] == [Source(name, 2), Source(name, 3), Source(name, 4)]
    assert {row.origin for row in rows} == {"read"}


def test_what_is_written_is_exactly_the_posts_layout() -> None:
    rows = [
        Measurement(Call("all_reduce", 2**30, 8, "bfloat16", "sum"), 0.1053),
        Measurement(Call("broadcast", 4096, 1), 1.04e-5),
        Measurement(Call("barrier", 0, 2), 1e-3),
    ]
    assert write(rows) == (
        HEAD + "all_reduce,8,1073741824,105.3,10.2,17.84\nbroadcast,1,4096,0.0104,0.39,\nbarrier,2,0,1.0,,\n"
    )


def test_the_posts_own_files_read_with_their_own_numbers(seed_files: list[Path]) -> None:
    for path in seed_files:
        results = read_results(str(path))
        assert len(results.measurements) == 36
        for line, row in zip(path.read_text().splitlines()[1:], results.measurements, strict=True):
            op, world_size, size_bytes, time_ms, algbw, busbw = line.split(",")
            call = row.call
            assert (call.collective, call.world_size, call.size_bytes) == (op, int(world_size), int(size_bytes))
            assert row.time_s * 1e3 == pytest.approx(float(time_ms), rel=1e-12)
            # the post rounded times to 4 decimals of a millisecond, after it had derived the rates
            slack = 0.0051 + float(algbw) * 0.00006 / float(time_ms)
            assert row.algbw_GBps == pytest.approx(float(algbw), abs=slack)
            assert row.busbw_GBps == pytest.approx(float(busbw), abs=2 * slack)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("all_reduce,8,4096", "a column is empty"),
        ("all_reduce,8,,0.1,0.04,0.07", "a column is empty"),
        ("warp,8,4096,0.1,0.04,0.07", "unknown collective 'warp'"),
        ("all_reduce,8,x,0.1,0.04,0.07", "invalid literal"),
        ("all_reduce,0,4096,0.1,0.04,0.07", "must be positive"),
        ("all_reduce,8,-4096,0.1,0.04,0.07", "at least 0"),
        ("all_reduce,8,4096,0,0.04,0.07", "must be positive"),
        ("all_reduce,8,4096,nan,0.04,0.07", "must be positive"),
        ("all_reduce,8,4096,inf,0.04,0.07", "must be positive"),
        (f"all_reduce,8,{10**400},0.1,0.04,0.07", "bytes 1000"),
        ("all_reduce,8,4096,1e-310,,", "must be positive"),
        ("all_reduce,8,4096,0.1,9.99,0.07", "contradicts"),
        ("all_reduce,8,4096,0.1,nan,0.07", "contradicts"),
        ("all_reduce,8,4096,0.1,0.04,0.04", "busbw 0.04 GB/s contradicts 4096 B in 0.1 ms, which is 0.07 GB/s"),
        ('all_reduce,8,4096,"' + "1" * 200_000 + '"', "field limit"),
    ],
)
def test_a_broken_row_is_an_error_that_names_line_and_rule(line: str, rule: str) -> None:
    with pytest.raises(FileError, match=rule) as caught:
        read(HEAD + "broadcast,2,4096,0.0100,0.41,0.41\n" + line + "\n", "a.csv")
    assert str(caught.value).startswith("a.csv:3: ")


def test_a_header_without_rows_is_an_error() -> None:
    with pytest.raises(FileError, match=r"a\.csv: has the header of the post's CSV and no row under it"):
        read(HEAD, "a.csv")


def test_columns_behind_the_six_are_allowed() -> None:
    results = read(HEAD.rstrip() + ",dtype\nbroadcast,2,4096,0.0100,0.41,0.41,bfloat16\n", "a.csv")
    assert results.measurements[0].call == Call("broadcast", 4096, 2, "bfloat16")


def test_rows_that_differ_in_a_column_behind_the_six_are_not_one_row_twice() -> None:
    head = HEAD.rstrip() + ",dtype,redop,root,place,wrong,repeat,algorithm,labels,marks,mean\n"
    text = (
        head
        + "all_reduce,8,4096,0.1,0.04,0.07,half,sum,,in,0,0,Ring,NCCL_NTHREADS=64 backend=nccl,few,1.5\n"
        + "broadcast,8,4096,0.1,0.04,0.04,,none,3,out-of-place,N/A,2,,,,\n"
    )
    first, second = read(text, "a.csv").measurements
    assert first.call == Call("all_reduce", 4096, 8, "float16", "sum", None, True)
    assert (first.wrong, first.repeat) == (0, 0)
    assert first.labels == {"algorithm": "Ring", "NCCL_NTHREADS": "64", "backend": "nccl"}
    assert second.call == Call("broadcast", 4096, 8, None, None, 3, False)
    assert (second.wrong, second.repeat, second.labels) == (None, 2, {})


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ('broadcast,2,4096,0.01,0.41,0.41,"<img>\nbroadcast,2,8192,0.01,0.82,0.82,x\n', "unexpected end of data"),
        ('broadcast,2,4096,0.01,0.41,0.41,"a\nbroadcast,2,8192,0.01,0.82,0.82,b"\n', "quote that opens in the rows"),
        ('broadcast,2,4096,0.01,0.41,0.41,"a"b\n', "expected after"),
        ("broadcast,2,4096,0.01,0.41,0.41,a,b\n", "more cells than the header"),
        ("broadcast,2,4,096,0.01,0.41,0.41,a\n", "more cells than the header"),
    ],
)
def test_no_row_is_lost_behind_a_quote_or_a_comma(rows: str, rule: str) -> None:
    with pytest.raises(FileError, match=rule):
        read(HEAD.rstrip() + ",note\n" + rows, "a.csv")


def test_a_quoted_text_may_have_lines() -> None:
    row = 'broadcast,2,4096,0.01,0.41,0.41,"two\nlines"\nbroadcast,2,8192,0.01,0.82,0.82,x\n'
    assert len(read(HEAD.rstrip() + ",what\n" + row, "a.csv").measurements) == 2


def test_a_column_that_is_there_twice_is_refused() -> None:
    with pytest.raises(FileError, match="the column bytes is there twice"):
        read(HEAD.rstrip() + ",bytes\nbroadcast,2,4096,0.01,0.41,0.41,8192\n", "a.csv")


@pytest.mark.parametrize("name", ["with a byte order mark", "with CRLF line ends", "with spaces"])
def test_editors_leave_their_marks(name: str, tmp_path: Path, golden: Path) -> None:
    text = (golden / "post.csv").read_text()
    changed = {
        "with a byte order mark": "\ufeff" + text,
        "with CRLF line ends": text.replace("\n", "\r\n"),
        "with spaces": text.replace(",", ", "),
    }[name]
    path = tmp_path / "a.csv"
    path.write_bytes(changed.encode())
    assert [row.call.size_bytes for row in read_results(str(path)).measurements] == [4096, 16777216, 1073741824]


def test_standard_input_is_a_dash(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((golden / "post.csv").read_bytes())))
    assert read_results("-").measurements[0].source == Source("<stdin>", 2)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "is empty"),
        (b"  \n\n", "is empty"),
        (b"hello\n", "not a results file"),
        (b"\xff\xfe\x00", "not a results"),
        (b"\x1f\x8b\x08\x00\x01\x02", r"packed with gzip: gzip -dc .* \| busbw"),
        (b"<system version='1'>\n</system>\n", "describes a machine: busbw topo FILE"),
        (b"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-7\n", "describes a machine: busbw topo FILE"),
        (b'{"schemaVersion": 1, "traceEvents": []}', "it is a trace: busbw capture FILE"),
        (b"a:1:1 [0] NCCL INFO Channel 00/02 : 0 1\n", "busbw explain --nccl-log FILE"),
    ],
)
def test_what_is_no_results_file_is_named(content: bytes, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(FileError, match=rule) as caught:
        read_results(str(path))
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(("name", "rule"), [("missing.csv", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_named(name: str, rule: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=rule):
        read_results(str(tmp_path / name))


@given(
    st.sampled_from(["broadcast", "scatter", "all_reduce"]),
    st.integers(1, 64),
    st.integers(0, 2**40),
    st.floats(1e-6, 1e3),
)
def test_what_is_written_reads_back_within_its_rounding(op: str, world_size: int, size: int, time_s: float) -> None:
    row = Measurement(Call(op, size, world_size), time_s)
    again = read(write([row]), "a.csv").measurements[0]
    assert again.call == row.call
    assert again.time_s == pytest.approx(time_s, abs=0.51e-7)


FIELD = st.one_of(
    st.sampled_from(["all_reduce", "gather", "8", "4096", "0.0104", "1e309", "-1", "", '"', "\0", "nan", "1_0"]),
    st.text(max_size=12),
)


@pytest.mark.fuzz
@given(st.lists(st.lists(FIELD, max_size=8).map(",".join), max_size=4).map("\n".join))
def test_fuzz_any_rows_under_the_header(body: str) -> None:
    try:
        results = read(HEAD + body, "f.csv")
    except BusbwError as error:
        message = str(error)
    else:
        message = "f.csv"
        assert len(write(results.measurements).splitlines()) == 1 + len(results.measurements)
    assert message.startswith("f.csv")


@pytest.mark.fuzz
@given(st.text(max_size=200))
def test_fuzz_recognising_never_fails(head: str) -> None:
    assert FORMAT.recognises(LogText(head.encode(), "f")) in (True, False)
    assert not FORMAT.recognises(LogText(("x" + HEAD + head).encode(), "f"))
    assert FORMAT.recognises(LogText((HEAD + head).encode(), "f"))
