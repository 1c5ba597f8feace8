"""One thing is changed on a host where nothing hurts: the right probe says so, with its numbers, and no other does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.doctor import PROBES, Report, examine
from busbw.host.pci import rate_Bps

from .conftest import Machine, numbers, of

Look = Callable[..., Report]


def hurts(report: Report) -> set[tuple[str, str]]:
    return {(finding.law, cause.code) for finding in report.hurts for cause in finding.causes}


def test_a_good_host_has_nothing_that_hurts_or_is_unknown(report: Look) -> None:
    found = report()
    assert {finding.verdict for finding in found.findings} == {"holds"}
    assert {finding.law for finding in found.findings} == set(PROBES.names())
    known = {name: fact.value for name, fact in found.facts.known.items()}
    assert known == {
        "acs": False,
        "iommu": False,
        "p2p": True,
        "gdr": True,
        "gdr_distance": "PIX",
        "near_nics": True,
        "pairs": True,
        "pcie_switch": True,
        "link": "pcie",
        "gpu": "NVIDIA H100 PCIe",
        "gpus_per_host": 2,
        "sockets": 2,
        "nics": 2,
        "nic_rate": 50e9,
        "network": "infiniband",
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("acs_on", {("access_control", "acs-enabled")}),
        ("lspci_acs_on", {("access_control", "acs-enabled")}),
        ("lspci_acs_off", set()),
        ("acs_source_validation", set()),
        ("acs_root_ports", set()),
        ("acs_workstation", set()),
        ("unprivileged", set()),
        ("iommu_translates", {("iommu", "iommu")}),
        ("x8", {("pcie_link", "link-width")}),
        ("switch_x8", {("pcie_link", "link-width")}),
        ("gen3", {("pcie_link", "link-speed")}),
        ("idle_gen1", set()),
        ("gen4_slot", set()),
        ("nic_gen4_enough", set()),
        ("geforce", {("peer_to_peer", "host-memory")}),
        ("no_peermem", {("gpudirect_rdma", "gdr-off")}),
        ("dmabuf", set()),
        ("throttled", {("gpu_clocks", "sw-thermal"), ("gpu_clocks", "hw-thermal")}),
        ("power_limit", set()),
        ("nic_down", {("nic_rate", "nic-down")}),
        ("nic_slow", {("nic_rate", "slow-nic")}),
        ("nic_errors", set()),
        ("ethernet", {("nic_rate", "slow-nic")}),
        ("nic_other_socket", {("numa_placement", "nic-affinity"), ("gpudirect_rdma", "gdr-distance")}),
        ("bound_to_other_socket", {("numa_placement", "cpu-affinity")}),
        ("numa_unsaid", set()),
        ("driver_gone", {("inventory", "gpu-lost")}),
        (
            "variables",
            {
                ("nccl_variables", "nccl-p2p-disable"),
                ("nccl_variables", "nccl-proto"),
                ("nccl_variables", "nccl-debug"),
                ("nccl_variables", "nccl-net-gdr-level"),
            },
        ),
        (
            "limits",
            {("locked_memory", "memlock"), ("shared_memory", "small-shm"), ("cpu_governor", "cpu-clock")},
        ),
        ("guest", set()),
        ("nothing", set()),
    ],
)
def test_what_hurts(report: Look, change: str, expected: set[tuple[str, str]]) -> None:
    assert hurts(report(change)) == expected


def test_every_change_has_been_tried(golden: Path) -> None:
    files = {path.stem for path in (golden / "doctor").glob("*.host")} - {"base"}
    mark = next(mark for mark in test_what_hurts.pytestmark if mark.name == "parametrize")
    assert files == {case[0] for case in mark.args[1]}


def test_acs_names_ports_bits_pairs_and_the_way_out(report: Look) -> None:
    found = report("acs_on")
    (finding,) = of(found, "access_control")
    assert "CmpltRedir, ReqRedir, SrcValid, UpstreamFwd" in finding.statement
    assert "0000:02:00.0, 0000:02:01.0, 0000:02:02.0" in finding.statement
    assert "GPU0-GPU1, GPU0-mlx5_0, GPU1-mlx5_0" in finding.statement
    assert numbers(finding) == {"pairs redirected": 3, "pairs over PCIe": 3}  # mlx5_1, on the other socket, is too far
    assert "setpci -s 0000:02:00.0 ECAP_ACS+0x6.w=0000" in finding.advice
    assert found.facts.flag("acs") is True


def test_source_validation_alone_is_no_redirect(report: Look) -> None:
    found = report("acs_source_validation")
    (finding,) = of(found, "access_control")
    assert finding.verdict == "holds"
    assert "0000:02:00.0 set SrcValid" in finding.statement
    assert found.facts.flag("acs") is False


def test_root_ports_matter_only_where_no_switch_joins_the_gpus(report: Look) -> None:
    switched = report("acs_root_ports")
    assert of(switched, "access_control")[0].verdict == "holds"
    assert switched.facts.flag("acs") is False
    workstation = report("acs_workstation")
    (finding,) = of(workstation, "access_control")
    assert (finding.verdict, finding.severity) == ("fails", "notice")
    assert "goes to the IOMMU at the root ports" in finding.statement
    assert workstation.facts.flag("acs") is True
    assert "p2p" not in workstation.facts.known  # offered, but NCCL may use host memory that far


def test_an_ordinary_user_gets_the_command_to_run_as_root(report: Look) -> None:
    found = report("unprivileged")
    (finding,) = of(found, "access_control")
    assert finding.verdict == "cannot_tell"
    assert finding.next.startswith("sudo busbw doctor")
    assert finding.needs == ("acs",)
    assert "acs" not in found.facts.known


def test_lspci_answers_where_the_configuration_space_does_not(report: Look) -> None:
    assert report("lspci_acs_on").facts.flag("acs") is True
    assert report("lspci_acs_off").facts.flag("acs") is False


def test_a_machine_of_nvlink_gpus_is_not_blamed_for_acs_between_them(machine: Machine) -> None:
    host = machine("acs_on")
    table = host.root / "commands" / "nvidia-smi-topo.txt"
    table.write_text("\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\tPIX\nGPU1\tNV18\t X \tPIX\n")
    (finding,) = of(examine(host), "access_control")
    assert "GPU0-GPU1" not in finding.statement
    assert numbers(finding)["pairs redirected"] == 2


def test_half_the_lanes_are_half_the_rate(report: Look) -> None:
    finding = next(each for each in of(report("x8"), "pcie_link") if each.verdict == "fails")
    assert "GPU1 (0000:04:00.0) runs at Gen5 x8; it is able to Gen5 x16" in finding.statement
    now, able = (number.value for number in finding.numbers)
    assert able == pytest.approx(63.015e9, rel=1e-4)
    assert now == pytest.approx(able / 2)


def test_the_uplink_of_a_switch_is_looked_at_once(report: Look) -> None:
    bad = [each for each in of(report("switch_x8"), "pcie_link") if each.verdict == "fails"]
    assert [each.headline for each in bad] == ["the switch above GPU0 has x8 instead of x16"]


def test_a_lower_generation_under_work_is_a_fault_and_at_rest_cannot_be_told(report: Look) -> None:
    busy = next(each for each in of(report("gen3"), "pcie_link") if each.verdict == "fails")
    assert busy.headline == "GPU0 runs at Gen3 x16 instead of Gen5 x16"
    idle = [each for each in of(report("idle_gen1"), "pcie_link") if each.verdict == "cannot_tell"]
    assert len(idle) == 2
    assert idle[0].cause_codes == {"idle", "link-speed"}
    assert "while a benchmark runs" in idle[0].next


def test_a_slot_that_offers_no_more_is_named(report: Look) -> None:
    bad = [each for each in of(report("gen4_slot"), "pcie_link") if each.verdict == "fails"]
    assert {each.severity for each in bad} == {"notice"}
    assert "the port above it (0000:02:00.0) only to Gen4 x16" in bad[0].statement


def test_a_slower_link_that_carries_its_nic_is_no_fault(report: Look) -> None:
    text = " ".join(each.statement for each in of(report("nic_gen4_enough"), "pcie_link"))
    assert "That still carries its 100 Gb/s" in text


@pytest.mark.parametrize(
    ("speed", "width", "expected"), [(2.5, 1, 0.25e9), (5.0, 16, 8e9), (8.0, 16, 15.754e9), (32.0, 16, 63.015e9)]
)
def test_rates_on_paper(speed: float, width: int, expected: float) -> None:
    assert rate_Bps(speed, width) == pytest.approx(expected, rel=1e-4)


def test_the_iommu_and_what_the_kernel_was_told(report: Look) -> None:
    found = report("iommu_translates")
    (finding,) = of(found, "iommu")
    assert "group type DMA-FQ; the kernel was started with intel_iommu=on" in finding.statement
    assert "iommu=pt" in finding.advice
    assert found.facts.flag("iommu") is True


def test_cards_without_peer_access(report: Look) -> None:
    found = report("geforce")
    (finding,) = of(found, "peer_to_peer")
    assert "1 of 1 pairs of GPUs have no peer access (GNS: the GPU does not support it): GPU0-GPU1" in finding.statement
    assert found.facts.flag("p2p") is False


def test_gpudirect_off_on_and_by_dma_buf(report: Look) -> None:
    off = report("no_peermem")
    assert off.facts.flag("gdr") is False
    assert "modprobe nvidia_peermem" in off.hurts[0].advice
    dmabuf = report("dmabuf")
    assert "gdr" not in dmabuf.facts.known
    first = next(each for each in of(dmabuf, "gpudirect_rdma") if each.verdict == "cannot_tell")
    assert "open driver on kernel 6.8 offers DMA-BUF" in first.statement


def test_a_far_nic_leaves_gpudirect_unknown(report: Look) -> None:
    found = report("nic_other_socket")
    assert found.facts.text("gdr_distance") == "SYS"
    assert found.facts.flag("near_nics") is False
    assert "gdr" not in found.facts.known


def test_a_hot_gpu(report: Look) -> None:
    found = next(each for each in of(report("throttled"), "gpu_clocks") if "hw-thermal" in each.cause_codes)
    assert numbers(found) == {"GPU1 SM clock": 885, "GPU1 most": 1755, "GPU1 temperature": 92, "GPU1 power": 205.8}
    assert found.weight == pytest.approx(1 - 885 / 1755)


def test_a_driver_that_knows_the_reasons_under_their_new_name_only(machine: Machine) -> None:
    host = machine("throttled")
    (host.root / "commands" / "nvidia-smi-clocks.txt").rename(host.root / "commands" / "nvidia-smi-events.txt")
    assert {code for each in of(examine(host), "gpu_clocks") for code in each.cause_codes} == {
        "sw-thermal",
        "hw-thermal",
    }


def test_a_lowered_power_limit_is_a_notice(report: Look) -> None:
    found = [each for each in of(report("power_limit"), "gpu_clocks") if each.verdict == "fails"]
    assert {code for each in found for code in each.cause_codes} == {"power-cap", "power-limit"}
    assert {each.severity for each in found} == {"notice"}
    assert any("sudo nvidia-smi -i 0 -pl 350" in each.advice for each in found)


def test_a_nic_that_is_down_does_not_count(report: Look) -> None:
    found = report("nic_down")
    assert found.facts.number("nics") == 1
    assert "mlx5_1:1 is not up (DOWN, Disabled)" in found.hurts[0].statement


def test_a_nic_below_its_like(report: Look) -> None:
    found = report("nic_slow")
    assert "mlx5_1:1 runs at 100 Gb/s (1X NDR); mlx5_0:1, of the same kind, at 400 Gb/s" in found.hurts[0].statement
    assert "nic_rate" not in found.facts.known


def test_error_counters_need_a_second_look(report: Look) -> None:
    found = next(each for each in of(report("nic_errors"), "nic_rate") if each.verdict == "cannot_tell")
    assert numbers(found) == {"mlx5_0:1 symbol_error": 1482, "mlx5_0:1 link_downed": 3}
    assert "whether they grow" in found.next


def test_ethernet_below_its_best_mode(report: Look) -> None:
    found = report("ethernet")
    assert "eth0 runs at 25 Gb/s; it is able to 100 Gb/s" in found.hurts[0].statement
    assert found.facts.text("network") == "sockets"
    assert dict(found.nothing)["gpudirect_rdma"] == "no RDMA NIC"


def test_numa_nodes_that_the_firmware_does_not_say(report: Look) -> None:
    found = of(report("numa_unsaid"), "numa_placement")
    assert [(each.verdict, each.severity) for each in found] == [("fails", "notice"), ("cannot_tell", "notice")]
    assert "on which NUMA node GPU0, GPU1 are" in found[1].statement


def test_variables_with_place_and_reason_and_no_secret(report: Look) -> None:
    found = report("variables")
    text = " ".join(each.statement for each in of(found, "nccl_variables"))
    assert found.hurts[0].severity == "wrong"
    assert "NCCL_PROTO=LL128 (environment): forced LL128 gives wrong data" in text
    assert "NCCL_NET_GDR_LEVEL=LOC (/etc/nccl.conf)" in text
    assert "NCCL_DEBUG=TRACE (environment)" in text  # the variable wins over the file
    assert "No harm is known of NCCL_IB_GID_INDEX=3" in text
    assert "do-not-print" not in str(found.to_json())
    assert found.facts.flag("p2p") is False
    assert found.facts.text("forced_protocol") == "LL128"
    assert "gdr" not in found.facts.known


def test_a_guest_is_told_who_knows(report: Look) -> None:
    found = report("guest")
    unknown = {each.law for each in found.findings if each.verdict == "cannot_tell"}
    assert {"access_control", "iommu", "pcie_link", "numa_placement"} <= unknown
    assert not {"acs", "iommu", "pairs", "pcie_switch"} & set(found.facts.known)
    (hidden,) = of(found, "access_control")
    assert hidden.statement.startswith("This virtual machine shows no PCIe port above its GPUs")


def test_where_nothing_is_every_probe_says_so(report: Look) -> None:
    found = report("nothing")
    said = dict(found.nothing)
    assert set(said) == set(PROBES.names()) - {"inventory", "nccl_variables"}
    assert said["access_control"] == "no GPU"
    assert "no PCI device at all, so no GPU" in of(found, "inventory")[0].statement
    assert found.facts.known == {}
