"""The post's own results: what its text overlooks has to be seen by itself, and what the rows cannot tell left open."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.core.finding import Facts, Finding
from busbw.findings import explain, page
from busbw.formats import read_results

Seed = dict[str, Finding]
MIB = 2**20


def number(finding: Finding, name: str) -> float:
    """The value of the number with this name."""
    return next(number.value for number in finding.numbers if number.name == name)


def test_one_way_traffic_on_a_pair_is_twice_as_fast_as_two_way(seed_findings: Seed) -> None:
    finding = seed_findings["one_way_two_way"]
    assert (finding.verdict, finding.severity) == ("fails", "problem")
    for op in ("broadcast", "scatter", "gather"):
        assert number(finding, f"plateau of {op} N=2") == pytest.approx(43.7e9, rel=0.03)
    for op in ("all_gather", "reduce_scatter", "all_reduce"):
        assert 20e9 <= number(finding, f"plateau of {op} N=2") <= 21.5e9


def test_its_cause_is_left_open_between_acs_and_host_memory_but_not_half_duplex_wires(seed_findings: Seed) -> None:
    finding = seed_findings["one_way_two_way"]
    assert finding.cause_codes == {"acs-redirect", "host-memory"}
    refuted = next(cause for cause in finding.ruled_out if cause.code == "half-duplex-wires")
    assert re.search(r"50\.\d GB/s, in and out together .*scatter N=8", refuted.text)
    assert "lspci -vvv" in finding.next
    assert "ACSCtl" in finding.next
    assert "'via P2P' or 'via SHM'" in finding.next
    assert "one-way and both ways" in finding.next
    assert set(finding.needs) == {"acs", "p2p"}
    assert "50 to 103" in finding.advice


def test_the_socket_link_is_not_the_rings_wall(seed_findings: Seed) -> None:
    finding = seed_findings["socket_link"]
    assert finding.verdict == "fails"
    assert number(finding, "scatter N=8 across the sockets") == pytest.approx(28.7e9, rel=0.01)
    assert "21.6 to 19.7 at N=4 already" in finding.statement
    assert [cause.code for cause in finding.ruled_out] == ["socket-link"]


def test_shared_uplinks_explain_the_plateaus_without_a_socket_term(seed_findings: Seed) -> None:
    finding = seed_findings["which_limit"]
    assert finding.verdict == "holds"
    assert finding.cause_codes == {"shared-uplinks"}
    assert [cause.code for cause in finding.ruled_out] == ["socket-link"]
    out, into, both = map(float, re.findall(r"uplink (?:out|in|both) ([\d.]+)", finding.statement)[:3])
    assert out == pytest.approx(49, rel=0.05)
    assert into == pytest.approx(44, rel=0.05)
    assert both == pytest.approx(80, rel=0.05)
    assert number(finding, "median error of shared-uplinks") < 5
    assert number(finding, "median error of full-duplex-ports") > 30


def test_each_call_pays_a_launch_of_8_to_14_us(seed_findings: Seed) -> None:
    finding = seed_findings["launch_per_call"]
    assert finding.verdict == "holds"
    launches = [n.value for n in finding.numbers]
    assert launches == pytest.approx([10.4e-6, 13.9e-6, 8.3e-6], rel=0.03)
    assert "N=2 (RS + AG +91 % against AR; alpha is not identifiable" in finding.statement


def test_the_floor_jumps_at_eight_and_nothing_says_why(seed_findings: Seed) -> None:
    finding = seed_findings["latency_grows_with_n"]
    assert finding.verdict == "fails"
    assert [n.value for n in finding.numbers] == pytest.approx([11.4e-6, 14.2e-6, 58.9e-6])
    assert "a jump at N=8" in finding.statement
    assert "cannot tell" in finding.statement
    assert len(finding.causes) == 3
    assert re.search(r"gather 17\.\d us, 18\.\d us, 1[78]\.\d us", finding.statement)
    assert re.search(r"broadcast 10\.4 us, 28\.5 us", finding.statement)


def test_flatness_cannot_be_told_at_eight(seed_findings: Seed) -> None:
    finding = seed_findings["latency_is_flat"]
    assert finding.verdict == "cannot_tell"
    assert "N=2 +0.0 % from 4 KiB to 64 KiB (flat)" in finding.statement
    assert re.search(r"N=8 \+17 % from 4 KiB to 64 KiB \(cannot tell", finding.statement)
    assert "begin at 4 KiB: the floor may lie lower" in finding.statement


def test_boundaries(seed_findings: Seed) -> None:
    finding = seed_findings["boundary_size"]
    of = {n.name.removeprefix("boundary of "): n.value / MIB for n in finding.numbers}
    for n in (2, 4, 8):
        assert 0.16 * 0.95 <= of[f"all_reduce N={n}"] <= 0.58
        assert 0.8 <= of[f"scatter N={n}"] <= 1.8
        assert 0.8 <= of[f"gather N={n}"] <= 1.8


def test_all_reduce_is_two_halves_from_16_mib_up(seed_findings: Seed) -> None:
    finding = seed_findings["all_reduce_is_two_halves"]
    assert finding.verdict == "holds"
    assert (
        "within 7.1 % at N=2 from 16 MiB; within 1.7 % at N=4 from 16 MiB; within 3.3 % at N=8 from 16 MiB"
        in finding.statement
    )
    assert "at 4 KiB +91 % at N=2; +98 % at N=4; +14 % at N=8" in finding.statement
    small = [n.value for n in finding.numbers if "N=8" in n.name and re.search(r"KiB|, 1 MiB", n.name)]
    assert [round(value) for value in small] == [14, 12, 13]


def test_reducing_is_no_cost_per_byte(seed_findings: Seed) -> None:
    finding = seed_findings["cost_of_reducing"]
    assert finding.verdict == "fails"
    assert [1e3 * n.value for n in finding.numbers] == pytest.approx([-0.66, 0.37, 9.89], abs=0.01)
    assert "not a cost per reduced byte" in finding.statement
    assert "reduction-bound" not in finding.cause_codes


def test_it_is_why_all_reduce_is_below_half_of_all_gather_at_eight(seed_findings: Seed) -> None:
    finding = seed_findings["all_reduce_half_of_all_gather"]
    assert finding.verdict == "holds"
    assert [round(n.value, 2) for n in finding.numbers] == [0.53, 0.5, 0.47]
    assert "at N=8 less than half because reduce-scatter is slower" in finding.statement


def test_the_bump_of_broadcast_has_two_readings(seed_findings: Seed) -> None:
    finding = seed_findings["protocol_switch"]
    assert finding.verdict == "cannot_tell"
    assert "broadcast N=8 at 1 MiB" in finding.statement
    assert finding.cause_codes == {"protocol-switch", "overlap"}
    assert "isolated" in finding.next
    assert "NCCL_PROTO" in finding.next


def test_roots_rise_with_n_and_out_is_faster_than_in(seed_findings: Seed) -> None:
    finding = seed_findings["ring_against_rooted"]
    assert "scatter rises over N = 2, 4, 8 (44.7 to 50.1 GB/s)" in finding.statement
    assert "out of a root is faster (50.1 GB/s) than the other way (44.2 GB/s)" in finding.statement


def test_rates_at_two_still_rise_at_one_gib(seed_findings: Seed) -> None:
    finding = seed_findings["plateau_is_reached"]
    assert finding.verdict == "cannot_tell"
    assert number(finding, "reduce_scatter N=2, last step") == pytest.approx(4.9, abs=0.1)
    assert number(finding, "all_gather N=2, last step") == pytest.approx(3.7, abs=0.1)
    assert not any("N=8" in n.name for n in finding.numbers)


def test_times_fall_and_rows_have_no_spread(seed_findings: Seed) -> None:
    falls = seed_findings["times_that_fall"]
    assert number(falls, "broadcast N=8, 4 KiB to 64 KiB") == pytest.approx(-17.7, abs=0.1)
    noise = seed_findings["noise"]
    assert noise.verdict == "fails"
    assert "one number a row and no spread" in noise.statement


def test_busbw_collapses_for_all_reduce(seed_findings: Seed) -> None:
    finding = seed_findings["busbw_collapses_over_n"]
    assert finding.verdict == "holds"
    assert "all_reduce busbw 21.6, 19.7, 17.8 GB/s at N = 2, 4, 8 (spread 21 %" in finding.statement
    assert "all_gather busbw 20.4, 19.5, 19.0" in finding.statement


def test_the_bound_is_two_passes_not_one(seed_findings: Seed) -> None:
    finding = seed_findings["lower_bound"]
    assert finding.verdict == "holds"
    assert "at least 1.75 S" in finding.statement
    assert "only where the network itself reduces" in finding.statement


def test_nothing_is_blamed_that_these_rows_do_not_show(seed_findings: Seed) -> None:
    assert not {"straggler", "wrong_values", "drop_at_large", "slow_nic", "network_path", "slow_member"} & set(
        seed_findings
    )
    assert seed_findings["is_it_good"].verdict == "cannot_tell"


def test_every_number_says_where_it_came_from(seed_findings: Seed) -> None:
    for finding in seed_findings.values():
        for n in finding.numbers:
            if n.unit in ("B/s", "s"):
                assert re.search(r"collectives_n[248]\.csv:\d+", n.source), (finding.law, n)


def test_the_readme_shows_this_page(seed_files: list[Path], root: Path) -> None:
    shown = (
        (root / "README.md")
        .read_text()
        .split("$ busbw explain collectives_n2.csv collectives_n4.csv collectives_n8.csv\n")[1]
    )
    results = [read_results(str(path)) for path in seed_files]
    assert page(explain(results), results, Facts()).startswith(shown.split("\n...\n")[0])
