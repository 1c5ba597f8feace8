"""The report as JSON, as facts for explain, and as a page."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from busbw.core.finding import parse_facts
from busbw.doctor import PROBES, Probe, Report, facts_of_report, page
from busbw.errors import FileError

Look = Callable[..., Report]


@pytest.mark.parametrize("change", [(), ("acs_on",), ("variables",), ("nic_slow",), ("ethernet",), ("nothing",)])
def test_facts_come_back_from_the_json_as_they_were(report: Look, change: tuple[str, ...]) -> None:
    found = report(*change)
    text = json.dumps(found.to_json())
    back = facts_of_report(text, "report.json")
    assert {name: fact.value for name, fact in back.known.items()} == {
        name: fact.value for name, fact in found.facts.known.items()
    }
    words = [entry["as"] for entry in json.loads(text)["facts"].values()]
    assert parse_facts(words).known.keys() == found.facts.known.keys()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"facts": 3}', '{"facts": {"acs": "on"}}', "null"])
def test_what_is_no_report_is_a_file_error(text: str) -> None:
    with pytest.raises(FileError, match=r"other\.json: not a report of busbw doctor --json"):
        facts_of_report(text, "other.json")


def test_a_fact_of_a_later_version_is_left_out() -> None:
    text = '{"facts": {"colour": {"as": "colour=red", "source": "x"}, "acs": {"as": "acs=on", "source": "lspci"}}}'
    assert {name: fact.source for name, fact in facts_of_report(text, "r").known.items()} == {"acs": "r: lspci"}


def test_what_hurts_comes_first_on_the_page(report: Look) -> None:
    text = page(report("acs_on", "idle_gen1"))
    parts = [text.index(part) for part in ("Verdict: 1 thing that hurts: ACS", "What hurts", "Cannot be told", "Fine")]
    assert parts == sorted(parts)
    assert "--fact acs=on" in text
    assert max(map(len, text.splitlines())) <= 110


def test_the_page_of_nothing(report: Look) -> None:
    text = page(report("nothing"))
    assert text.startswith("Here: no PCI device at all, so no GPU; no RDMA NIC;")
    assert "nothing that hurts was found" in text
    assert "Nothing to look at: access_control" in text


@pytest.mark.parametrize("probe", list(PROBES))
def test_a_probe_has_its_file_name_a_question_and_its_sources(probe: Probe) -> None:
    assert probe.name in PROBES.names()
    assert PROBES.get(probe.name) is probe
    assert probe.asks.endswith("?")
    assert probe.looks_at
