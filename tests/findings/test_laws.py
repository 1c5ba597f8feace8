"""One contract over every finding, and the ones that the other tests do not reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.core.call import Call
from busbw.core.finding import FACT_KINDS, SEVERITIES, Facts, Finding, parse_facts
from busbw.core.measurement import Measurement, Results, Run, Samples, Source
from busbw.findings import LAWS, explain, page

KIB, MIB, GIB = 2**10, 2**20, 2**30


def curve(
    op: str, n: int, floor_s: float, rate: float, sizes: range | list[int] = range(10, 31), line: int = 1
) -> list[Measurement]:
    """Rows of T = floor + S f / B without noise, one a power of two."""
    found = []
    for index, power in enumerate(sizes):
        call = Call(op, 2**power, n)
        time_s = floor_s + 2**power * call.kind.bus_factor(n) / rate
        found.append(Measurement(call, time_s, source=Source("rows.txt", line + index), origin="read"))
    return found


def told(rows: list[Measurement], *facts: str, symptoms: tuple[str, ...] = ()) -> dict[str, Finding]:
    known = Facts(parse_facts(facts).known, symptoms)
    return {finding.law: finding for finding in explain(Results(Run(tool="test"), tuple(rows)), known)}


SETS: dict[str, list[Measurement]] = {
    "no rows": [],
    "one row": curve("all_reduce", 8, 1e-5, 40e9, [28]),
    "one small row": curve("all_reduce", 8, 1e-5, 40e9, [10]),
    "two rows": curve("all_gather", 4, 1e-5, 40e9, [10, 28]),
    "one rank": curve("broadcast", 1, 1e-5, 40e9),
    "a barrier": [Measurement(Call("barrier", 0, 4), 1e-5)],
    "no time": [Measurement(Call("all_reduce", 1024, 4), 0.0)],
    "no size": [Measurement(Call("all_reduce", 0, 4), 1e-5), *curve("all_reduce", 4, 1e-5, 40e9)],
    "small sizes only": curve("all_reduce", 8, 1e-5, 40e9, range(3, 14)),
    "large sizes only": curve("all_reduce", 8, 1e-5, 40e9, range(26, 33)),
    "many ops": [
        row
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
        for n in (2, 4, 8)
        for row in curve(op, n, 1e-5, 40e9)
    ],
    "one size over N": [row for n in range(2, 17) for row in curve("all_reduce", n, 1e-5, 40e9, [28])],
}


@pytest.mark.parametrize("name", LAWS.names())
def test_every_law_is_named_as_its_file_and_says_what_it_checks(name: str) -> None:
    law = LAWS.get(name)
    assert law.name == name
    assert len(law.claim) > 15
    assert len(law.rule) > 15
    assert not law.claim.endswith(".")


@pytest.mark.parametrize("rows", SETS.values(), ids=SETS)
@pytest.mark.parametrize(
    "facts",
    [(), ("hosts=1", "machine=dgx-h100"), ("hosts=4", "nic_rate=400Gb/s", "nics=8")],
    ids=["none", "host", "hosts"],
)
def test_any_rows_can_be_explained(rows: list[Measurement], facts: tuple[str, ...]) -> None:
    results = Results(Run(), tuple(rows))
    found = explain(results, parse_facts(facts))
    order = [SEVERITIES.index(finding.severity) for finding in found]
    assert order == sorted(order)
    for finding in found:
        assert finding.law in LAWS.names()
        assert finding.verdict in ("holds", "fails", "cannot_tell")
        assert set(finding.needs) <= set(FACT_KINDS)
        assert "nan" not in finding.statement
        if finding.verdict == "cannot_tell" and finding.severity == "problem":
            assert finding.next, finding
    assert page(found, [results], parse_facts(facts))


def test_too_few_rows_blame_nothing() -> None:
    for name in ("one row", "two rows", "small sizes only", "one rank"):
        assert not [f for f in told(SETS[name]).values() if f.severity in ("wrong", "problem")], name


def test_a_sound_machine_has_no_problem() -> None:
    rows = [
        row
        for op in ("broadcast", "scatter", "gather", "all_gather", "reduce_scatter", "all_reduce")
        for n in (2, 4, 8)
        for row in curve(op, n, 1e-5, 40e9)
    ]
    found = told(rows)
    assert not [f.statement for f in found.values() if f.severity in ("wrong", "problem")]
    assert found["one_way_two_way"].verdict == "holds"
    assert found["which_limit"].verdict == "holds"
    assert "port out 39.9, port in 39.9" in found["which_limit"].statement


def test_one_rank_moves_nothing() -> None:
    finding = told(curve("all_reduce", 1, 1e-5, 40e9))["one_rank"]
    assert finding.numbers[0].value == 21
    assert "no busbw" in finding.statement


def test_wrong_values_come_first() -> None:
    rows = curve("all_reduce", 8, 1e-5, 40e9)
    rows[-1] = replace(rows[-1], wrong=7)
    first = explain(Results(Run(), tuple(rows)))[0]
    assert (first.law, first.severity, first.verdict) == ("wrong_values", "wrong", "cannot_tell")
    assert first.numbers[0].value == 7
    forced = told([replace(row, labels={"NCCL_PROTO": "LL128"}) for row in rows])["wrong_values"]
    assert forced.cause_codes == {"ll128-forced"}


def test_a_drop_is_found_where_it_begins() -> None:
    rows = [
        replace(row, time_s=row.time_s * (2 if row.call.size_bytes >= 2**28 else 1))
        for row in curve("gather", 2, 1e-5, 22e9)
    ]
    finding = told(rows, "hosts=2")["drop_at_large"]
    assert finding.verdict == "fails"
    assert "21.8 to 11.0 GB/s (50 % less) from 256 MiB on" in finding.statement
    assert "env-not-on-every-host" in finding.cause_codes
    cleared = told(rows, "hosts=2", "same_environment=on", "gdr=on")["drop_at_large"]
    assert not {"env-not-on-every-host", "gdr-off"} & cleared.cause_codes
    assert "drop_at_large" not in told(curve("gather", 2, 1e-5, 22e9), "hosts=2")


def test_a_switch_is_found_at_its_size() -> None:
    rows = []
    for row in curve("all_reduce", 8, 30e-6, 40e9):
        size = row.call.size_bytes
        low = 10e-6 + size * 1.75 / 12e9
        rows.append(replace(row, time_s=low if size < 4 * MIB else row.time_s))
    finding = told(rows)["protocol_switch"]
    assert finding.verdict == "fails"
    assert finding.numbers[0].value == 4 * MIB
    assert "protocol-switch" in finding.cause_codes


def test_a_choice_in_the_log_needs_no_guess() -> None:
    rows = [
        replace(row, labels={"algorithm": "Ring", "protocol": "LL" if row.call.size_bytes < MIB else "Simple"})
        for row in curve("all_reduce", 8, 1e-5, 40e9)
    ]
    finding = told(rows)["protocol_switch"]
    assert "Ring/LL to Ring/Simple at 1 MiB" in finding.statement
    assert len(finding.causes) == 1


def test_a_first_row_that_was_not_warm() -> None:
    rows = curve("all_reduce", 8, 1e-5, 40e9)
    rows[0] = replace(rows[0], time_s=1e-3)
    finding = told(rows)["first_row"]
    assert finding.numbers[0].value == 1e-3
    assert finding.numbers[0].source == "rows.txt:1"
    assert "first_row" not in told(curve("all_reduce", 8, 1e-5, 40e9))


def test_a_straggler_is_named_and_a_late_one_too() -> None:
    for factor, word in ((1.3, "slower than the others by 30 %"), (0.7, "30 % less time")):
        rows = [
            replace(
                row, samples=Samples(1, tuple((row.time_s * (factor if rank == 5 else 1.0),) * 5 for rank in range(8)))
            )
            for row in curve("all_reduce", 8, 1e-5, 40e9)
        ]
        finding = told(rows)["straggler"]
        assert finding.verdict == "fails"
        assert "rank 5 of 8" in finding.statement
        assert word in finding.statement


def test_the_average_hides_the_peak() -> None:
    finding = told([], "hosts=2", "busbw=96.4GB/s", "avg_busbw=84.86GB/s")["average_hides_peak"]
    assert finding.verdict == "fails"
    assert "84.9 GB/s, is 12 % below what the large sizes reach (96.4)" in finding.statement


def test_one_nic_of_four_is_recognised() -> None:
    finding = told(curve("all_reduce", 16, 3e-5, 24e9), "hosts=2", "nic_rate=200Gb/s", "nics=4", "gdr=on", "acs=off")[
        "network_path"
    ]
    assert finding.verdict == "fails"
    assert "one-nic" in finding.cause_codes
    assert {cause.code for cause in finding.ruled_out} == {"gdr-off", "acs-enabled"}
    half = told(curve("all_reduce", 16, 3e-5, 48e9), "hosts=2", "nic_rate=200Gb/s", "nics=4")["network_path"]
    assert {"half-of-the-nics", "gdr-off", "acs-enabled"} <= half.cause_codes
    sure = told(curve("all_reduce", 16, 3e-5, 48e9), "hosts=2", "nic_rate=200Gb/s", "nics=4", "gdr=off")["network_path"]
    assert sure.cause_codes == {"gdr-off"}
    assert "network_path" not in told(curve("all_reduce", 16, 3e-5, 95e9), "hosts=2", "nic_rate=200Gb/s", "nics=4")


@pytest.mark.parametrize(
    ("rate", "facts", "verdict"),
    [
        (366e9, ("hosts=1", "machine=dgx-h100", "algorithm=Ring"), "holds"),
        (250e9, ("hosts=1", "machine=dgx-h100", "algorithm=Ring"), "fails"),
        (312e9, ("hosts=1", "gpu=AMD Instinct MI300X"), "holds"),
        (150e9, ("hosts=1", "gpu=AMD Instinct MI300X"), "fails"),
        (42e9, ("peak=50GB/s",), "holds"),
        (25e9, ("peak=50GB/s",), "fails"),
        (375e9, ("hosts=2", "nic_rate=400Gb/s", "nics=8"), "holds"),
        (180e9, ("hosts=2", "nic_rate=400Gb/s", "nics=8"), "fails"),
        (40e9, (), "cannot_tell"),
        (5e9, ("hosts=1", "gpu=Tesla T4"), "cannot_tell"),  # through host memory, perhaps
        (5e9, ("hosts=1", "gpu=Tesla T4", "p2p=on"), "fails"),
        (43e9, ("hosts=2", "gpu=A100-SXM4-40GB"), "cannot_tell"),  # a GPU's name tells nothing about NICs
        (43e9, ("hosts=2", "machine=p4d"), "holds"),
        (150e9, ("hosts=1", "gpu=GH200 120GB"), "cannot_tell"),
    ],
)
def test_good_and_low(rate: float, facts: tuple[str, ...], verdict: str) -> None:
    assert told(curve("all_reduce", 8, 1e-5, rate), *facts)["is_it_good"].verdict == verdict


def test_all_to_all_over_hosts() -> None:
    finding = told(curve("all_to_all", 16, 3e-5, 90e9), "hosts=2", "nic_rate=400Gb/s", "nics=8")["all_to_all_share"]
    assert finding.verdict == "holds"
    assert next(n.value for n in finding.numbers if n.name == "times it") == pytest.approx(15 / 8)
    assert (
        told(curve("all_to_all", 16, 3e-5, 20e9), "hosts=2", "nic_rate=400Gb/s", "nics=8")["all_to_all_share"].verdict
        == "fails"
    )


def test_all_to_all_through_a_cpu() -> None:
    rows = [*curve("all_reduce", 4, 1e-5, 22e9), *curve("all_to_all", 4, 1e-5, 2e9, line=40)]
    finding = told(rows, "hosts=1", "pcie_switch=off")["cpu_as_switch"]
    assert finding.verdict == "fails"
    assert "cpu-p2p-poor" in finding.cause_codes
    assert told(rows, "hosts=1")["cpu_as_switch"].verdict == "cannot_tell"
    many = [*curve("all_reduce", 64, 1e-5, 22e9), *curve("all_to_all", 64, 1e-5, 2e9, line=40)]
    assert "cpu_as_switch" not in told(many)
    assert "cpu_as_switch" not in told(rows, "hosts=1", "pcie_switch=on")


def test_rows_that_were_measured_in_other_ways_are_kept_apart() -> None:
    rows = [
        replace(row, labels={"NCCL_ALGO": algo})
        for algo, rate in (("Ring", 40e9), ("Tree", 25e9))
        for row in curve("all_reduce", 8, 1e-5, rate)
    ]
    finding = told(rows)["rows_unlike"]
    assert "NCCL_ALGO=Ring; NCCL_ALGO=Tree" in finding.statement
