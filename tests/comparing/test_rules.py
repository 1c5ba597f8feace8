from __future__ import annotations

import pytest

from busbw.comparing.rules import EXAMPLE, Rule
from busbw.core.call import Call
from busbw.errors import UsageError

MIB = 2**20


def test_the_example_of_the_help() -> None:
    rule = Rule.parse(EXAMPLE)
    assert (rule.busbw_Bps, rule.collective, rule.world_size) == (40e9, "all_reduce", 8)
    assert rule.covers(Call("all_reduce", 256 * MIB, 8, "bfloat16"))
    assert not rule.covers(Call("all_reduce", 256 * MIB - 1, 8))
    assert not rule.covers(Call("all_reduce", 256 * MIB, 4))
    assert not rule.covers(Call("all_gather", 256 * MIB, 8))


@pytest.mark.parametrize(
    ("sizes", "least", "most"),
    [
        (">=1MiB", MIB, 2**63 - 1),
        (">1MiB", MIB + 1, 2**63 - 1),
        ("<=1M", 0, MIB),
        ("< 1MiB", 0, MIB - 1),
        ("=1MiB", MIB, MIB),
        ("1MiB", MIB, MIB),
        ("64KiB-1MiB", 65536, MIB),
        ("64KiB - 1MiB", 65536, MIB),
    ],
)
def test_ranges(sizes: str, least: int, most: int) -> None:
    rule = Rule.parse(f"400Gb/s@all_gather:{sizes}")
    assert (rule.least_bytes, rule.most_bytes, rule.busbw_Bps) == (least, most, 50e9)


@pytest.mark.parametrize("text", ["1GB/s", "1GB/s@all", "1GB/s@*", "1GB/s:>=0B", "1GB/s@:>=0"])
def test_without_a_collective_it_covers_all(text: str) -> None:
    assert Rule.parse(text).covers(Call("broadcast", 8, 2))


def test_filters() -> None:
    rule = Rule.parse("1GB/s@AllReduce, N=4, dtype=bf16:>=1K")
    assert (rule.collective, rule.world_size, rule.dtype) == ("all_reduce", 4, "bfloat16")
    assert Rule.parse("1GB/s@N=2").world_size == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("40@all_reduce:>=1MiB", "rule '40@all_reduce:>=1MiB': unknown unit '' in rate"),
        ("0GB/s@all_reduce", "the rate 0GB/s must be above 0"),
        ("40GB/s@all_reducee", "did you mean all_reduce"),
        ("40GB/s@all_reduce,N=x", "N=x must be a number of ranks"),
        ("40GB/s@all_reduce,n=0", "N=0 must be a number of ranks"),
        ("40GB/s@all_reduce,8", "'8' after the collective must be N=RANKS or dtype=TYPE"),
        ("40GB/s@all_reduce,host=a", "'host' is no filter: use N=RANKS or dtype=TYPE"),
        ("40GB/s@all_reduce:>=big", "'big' is not a size"),
        ("40GB/s@all_reduce:>=1MiB-2MiB", "is not a range of sizes"),
        ("40GB/s@all_reduce:2MiB-1MiB", "the range 2MiB-1MiB ends before it begins"),
        ("", "'' is not a rate"),
    ],
)
def test_an_error_names_the_rule_and_an_example(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Rule.parse(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"rule {text!r}: ")
    assert str(caught.value).endswith(f"an example: {EXAMPLE}")
