from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.units import format_decimal, format_rate, format_size, format_time, parse_rate, parse_size, parse_time


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("8", 8),
        ("0", 0),
        ("8b", 8),
        (" 64 KiB ", 65536),
        ("64K", 65536),
        ("64k", 65536),
        ("1G", 1073741824),
        ("1GiB", 1073741824),
        ("1GB", 1000000000),
        ("1kB", 1000),
        ("1.5M", 1572864),
        (".5K", 512),
        ("1e3", 1000),
        ("1.1kB", 1100),
        ("2T", 2199023255552),
        ("9007199254740993", 2**53 + 1),  # beyond what a float holds exactly
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_sizes_are_exact_and_suffixes_are_those_of_nccl_tests(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "0.1K", "1 parsec", "1e-1", "1e99", "1e999999999", "8 8", "٣"])
def test_what_is_no_size_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_size(text)
    assert repr(text) in str(caught.value)


def test_a_size_of_2_to_the_63_is_refused() -> None:
    with pytest.raises(UsageError, match=r"below 2\^63"):
        parse_size("9223372036854775808")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20ms", 0.02),
        ("5us", 5e-6),
        ("5µs", 5e-6),
        ("7ns", 7e-9),
        ("10s", 10.0),
        ("2min", 120.0),
        ("1h", 3600.0),
        ("3", 3),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("text", ["", "-1s", "5 fortnights", "10S", "s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="time"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "bytes_a_second"),
    [
        ("50GB/s", 50e9),
        ("400Gb/s", 50e9),
        ("400Gbps", 50e9),
        ("1GiB/s", 1073741824.0),
        ("100MB/s", 1e8),
        ("3B/s", 3.0),
        ("0.2Tb/s", 25e9),
    ],
)
def test_rates_tell_bits_from_bytes(text: str, bytes_a_second: float) -> None:
    assert parse_rate(text) == pytest.approx(bytes_a_second, rel=1e-15)


@pytest.mark.parametrize("text", ["50", "50GB", "fast", "50G/s", "50XB/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="rate"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (8, "8 B"),
        (1000, "1000 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (4096, "4 KiB"),
        (16 * 2**20, "16 MiB"),
        (2**30, "1 GiB"),
        (10**9, "953.7 MiB"),
        (3 * 2**40, "3 TiB"),
    ],
)
def test_sizes_print_in_binary_units(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0.0, "0 s"),
        (11.4e-6, "11.4 us"),
        (0.1053, "105 ms"),
        (1.5, "1.50 s"),
        (0.9996e-3, "1.00 ms"),  # not "1000 us"
        (0.9994e-3, "999 us"),
        (6.2e-7, "620 ns"),
        (-2e-3, "-2.00 ms"),
        (3600.0, "3600 s"),
    ],
)
def test_times_print_three_digits(time_s: float, text: str) -> None:
    assert format_time(time_s) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(17.84e9, "17.8 GB/s"), (50e9, "50.0 GB/s"), (480e9, "480 GB/s"), (9.5e7, "0.10 GB/s")]
)
def test_rates_print_in_decimal_gigabytes(rate: float, text: str) -> None:
    assert format_rate(rate) == text


@given(st.integers(0, 2**63 - 1))
def test_a_printed_size_reads_back_within_its_rounding(size_bytes: int) -> None:
    text = format_size(size_bytes)
    number, unit = text.split()
    if unit == "B":
        assert parse_size(text) == size_bytes
    elif "e" not in number:
        scale = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit]
        assert math.isclose(float(number) * scale, size_bytes, rel_tol=5.1e-4)


@given(st.text(max_size=30))
def test_any_text_is_a_size_or_a_usage_error(text: str) -> None:
    try:
        size_bytes = parse_size(text)
    except UsageError:
        return
    assert 0 <= size_bytes < 2**63


@given(st.floats(1e-9, 1e5))
def test_a_printed_time_reads_back_within_its_rounding(time_s: float) -> None:
    assert math.isclose(parse_time(format_time(time_s)), time_s, rel_tol=5.1e-3)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (871_078_656, "871.1 MB"), (1.5e9, "1.5 GB"), (2e12, "2 TB")],
)
def test_decimal_sizes(size_bytes: float, text: str) -> None:
    assert format_decimal(size_bytes) == text
