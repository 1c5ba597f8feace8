"""Broken nccl-tests logs: whatever happens to one, it ends in Results or in a BusbwError, and soon."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nccl_printer import LAYOUTS, Job, lines, torn_lines

from busbw.core.log_text import LogText, clean_line
from busbw.core.measurement import Results
from busbw.errors import BusbwError
from busbw.formats import read_text

GOLDEN = Path(__file__).parents[1] / "golden" / "nccl_tests"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "data" / "logs" / "nccl-tests"
SMALL = 20_000


def texts() -> list[bytes]:
    found = [path.read_bytes() for folder in (GOLDEN, SAMPLES) if folder.exists() for path in sorted(folder.iterdir())]
    printed = ["\n".join(lines(Job("all_gather", 4, layout))[0]).encode() for layout in LAYOUTS]
    torn = ["\n".join(torn_lines(Job("all_reduce", 4, layout), True)[0]).encode() for layout in ("2.0", "2.19-I")]
    return [text for text in (*found, *printed, *torn) if len(text) < SMALL]


TEXTS = texts()
HUGE = [
    b"9" * 30,
    b"1e999",
    b"-1e400",
    b"nan",
    b"inf",
    b"0",
    b"-0.0",
    b"1e-320",
    b"9" * 5000,
    b"0x10",
    b"1_000",
    "²".encode(),
]


def use(results: Results) -> None:
    """What comes out can be used."""
    for part in results.runs:
        for row in part.measurements:
            assert row.time_s > 0
            assert row.call.size_bytes >= 0
            assert row.algbw_GBps is None or row.algbw_GBps >= 0
            assert row.busbw_GBps is None or row.busbw_GBps >= 0
            json.dumps(row.row())
        assert len(part.run.unreadable) <= 100
        assert part.run.unreadable_count >= len(part.run.unreadable)


def read_and_use(data: bytes) -> None:
    start = time.process_time()
    try:
        use(read_text(LogText(data, "f.log")))
    except BusbwError as error:
        assert str(error)
        assert len(str(error)) < 4000
    assert time.process_time() - start < 10


pieces = st.integers(0, len(TEXTS) - 1).map(TEXTS.__getitem__)


@pytest.mark.fuzz
@given(pieces, st.integers(0, SMALL), st.integers(0, SMALL))
def test_fuzz_cut(text: bytes, start: int, end: int) -> None:
    read_and_use(text[start % (len(text) + 1) :][: end + 1])


@pytest.mark.fuzz
@given(pieces, pieces, st.data())
def test_fuzz_interleaved_and_duplicated_lines(first: bytes, second: bytes, data: st.DataObject) -> None:
    left, right = first.split(b"\n"), second.split(b"\n")
    order = data.draw(st.lists(st.booleans(), min_size=1, max_size=60))
    mixed = []
    for is_left in order:
        side = left if is_left else right
        if side:
            mixed.append(side.pop(0))
            if len(mixed) % 7 == 0:
                mixed.append(mixed[-1])
    read_and_use(b"\n".join([*mixed, *left, *right]))


@pytest.mark.fuzz
@given(pieces, st.binary(max_size=200), st.integers(0, SMALL))
def test_fuzz_binary_in_the_middle(text: bytes, garbage: bytes, place: int) -> None:
    place %= len(text) + 1
    read_and_use(text[:place] + garbage + text[place:])


@pytest.mark.fuzz
@given(pieces, st.sampled_from(HUGE), st.lists(st.integers(0, SMALL), min_size=1, max_size=5))
def test_fuzz_huge_and_odd_numbers(text: bytes, number: bytes, places: list[int]) -> None:
    words = text.split(b" ")
    for place in places:
        words[place % len(words)] = number
    read_and_use(b" ".join(words))


@pytest.mark.fuzz
@given(st.text(alphabet="0123456789.-+e NA/|#\t\n[]:<>,floatsum", max_size=400))
def test_fuzz_rows_of_nothing(text: str) -> None:
    header = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    read_and_use((header + text).encode())


@pytest.mark.fuzz
@given(st.text(max_size=300))
def test_fuzz_cleaning_a_line_never_fails_and_settles(text: str) -> None:
    who, cleaned = clean_line(text.replace("\n", " "))
    assert isinstance(who, str)
    assert len(cleaned) <= len(text)


@pytest.mark.parametrize(
    "character", [b"9", b" ", b"[", b"#", b"\x1b[", b"1,", b"a.", b'{"', b"0 ", b"=", b"-1:1:1 [0] "]
)
def test_a_long_line_of_one_thing_takes_no_longer_than_any_other(character: bytes) -> None:
    header = b"# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    read_and_use(header + character * (2_000_000 // len(character)))


def test_no_text_takes_long_because_of_its_length() -> None:
    row = b"     1048576        262144     float     sum      -1    50.00   20.97   31.46      0\n"
    read_and_use(b"# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n" + row * 5000)
