from __future__ import annotations

import pytest

from busbw.core.finding import FACT_KINDS, Fact, Facts, Finding, Number, parse_facts
from busbw.errors import UsageError


def test_facts_are_unknown_until_given() -> None:
    facts = Facts()
    assert facts.flag("gdr") is None
    assert facts.number("nics") is None
    assert facts.text("machine") == ""
    assert facts.unknown("gdr", "acs") == ("gdr", "acs")


def test_facts_from_words() -> None:
    facts = parse_facts(
        ["gdr=on", "ACS=off", "nic-rate=200Gb/s", "nics=4", "size=256MiB", "gpu=RTX 4090", "p2p=unknown"]
    )
    assert facts.flag("gdr") is True
    assert facts.flag("acs") is False
    assert facts.number("nic_rate") == 25e9
    assert facts.number("nics") == 4
    assert facts.number("size") == 2**28
    assert facts.text("gpu") == "RTX 4090"
    assert facts.unknown("p2p") == ("p2p",)
    assert facts.source("gdr") == "given"


@pytest.mark.parametrize("word", ["gdr", "colour=red", "gdr=maybe", "nics=many", "nic_rate=fast", "size=-1"])
def test_what_is_no_fact_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        parse_facts([word])


def test_given_facts_win_over_found_ones() -> None:
    given, found = parse_facts(["gdr=off"]), Facts({"gdr": Fact(True, "log"), "nics": Fact(8.0, "log")}, ("slow",))
    both = given.or_else(found)
    assert both.flag("gdr") is False
    assert both.number("nics") == 8
    assert both.symptoms == ("slow",)
    assert both.having("nics", None, "").number("nics") is None


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number("a", 21.5e9, "B/s", ""), "21.5 GB/s"),
        (Number("a", 11.4e-6, "s", ""), "11.4 us"),
        (Number("a", 2.0**20, "B", ""), "1 MiB"),
        (Number("a", -3.3, "%", ""), "-3.3 %"),
        (Number("a", 2.014, "x", ""), "2.01 x"),
        (Number("a", 7, "", ""), "7"),
    ],
)
def test_numbers_carry_their_units(number: Number, text: str) -> None:
    assert number.text == text


def test_a_finding_as_json_says_how_to_get_what_it_needs() -> None:
    data = Finding("x", "y", "cannot_tell", "notice", (Number("a", 1.0, "s", "f:1"),), needs=("acs",)).to_json()
    assert data["needs"] == [{"fact": "acs", "how": FACT_KINDS["acs"].how}]
    assert "ACSCtl" in data["needs"][0]["how"]
    assert data["numbers"] == [{"name": "a", "value": 1.0, "unit": "s", "source": "f:1"}]
