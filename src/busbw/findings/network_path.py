"""Between hosts: why NCCL gets less out of the NICs than they carry."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence
from busbw.findings._judged import Reached, all_reduce_like, reached
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import either, rate, share
from busbw.findings.is_it_good import LOW, judged_share
from busbw.findings.machines import NIC_SHARE, RULES, nics_rate

FAR = ("PHB", "NODE", "SYS")
"""Paths over which NCCL does not use GPUDirect RDMA by default."""
ACS_HOW = "sudo lspci -vvv | grep -i ACSCtl"
GDR_HOW = "NCCL_DEBUG=INFO: do the channel lines end in 'via NET/IB/0/GDRDMA'?"


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    hosts = facts.number("hosts")
    if hosts == 1:
        return
    items = [item for item in reached(evidence, facts) if all_reduce_like(item.collective)]
    best = max(items, key=lambda item: (not item.is_average, item.busbw), default=None)
    complains = says(facts, "low")
    if best is None:
        if complains and (facts.text("network") or (hosts or 0) > 1) and not says(facts, "drop-at-large", "is-it-good"):
            yield _asked(facts)
        return
    if (hosts or 0) <= 1:
        return
    judged = judged_share(best, facts)
    if judged is None:
        if complains:
            yield _unjudged(best, facts)
        return
    part, want = judged
    if part >= LOW - best.allowance:
        return
    causes, ruled_out = path_causes(facts)
    nics, fewer = facts.number("nics") or 1.0, _as_fewer(best, facts)
    if fewer:
        causes.append(fewer)
    if nics > 1:
        causes.append(Cause("slow-nic", "one NIC (cable, port, firmware) is slow, and the others wait for it"))
    if not causes:
        causes.append(
            Cause(
                "other",
                "something else between the hosts: the fabric, its routing, NIC settings (MTU, PFC, adaptive routing)",
            )
        )
    known_cause = [cause for cause in causes if cause.code in _certain(facts)]
    text = (
        f"Between hosts {best.text} reaches {rate(best.busbw)} GB/s, {share(part)} of the {rate(want.low)} that {want.text.split(' carry ')[0]} "
        "should give"
    )
    if known_cause:
        text += f": {known_cause[0].text}"
    raw = facts.number("raw_rate")
    numbers = [best.number, Number("expected from", want.low, "B/s", want.source)]
    if raw is not None:
        numbers.append(Number("raw rate of one NIC", raw, "B/s", facts.source("raw_rate")))
        if raw > 0.8 * (facts.number("nic_rate") or 0.0):
            ruled_out.append(
                Cause(
                    "slow-wire",
                    f"a raw test moves {rate(raw)} GB/s: the cable and the fabric are fine, the loss is between GPU and NIC",
                )
            )
            causes = [cause for cause in causes if cause.code != "slow-nic"]
    yield Finding(
        "network_path",
        text,
        "fails",
        "problem",
        tuple(numbers),
        tuple(known_cause or causes),
        tuple(ruled_out),
        next=_next(facts),
        needs=facts.unknown("gdr", "acs") if not known_cause else (),
        advice=_advice(known_cause or causes),
        weight=1 - part,
    )


def path_causes(facts: Facts) -> tuple[list[Cause], list[Cause]]:
    """What can stand between a GPU and its NIC, given the facts: causes that remain, and those that are ruled out."""
    causes, ruled_out = [], []
    gdr, acs, distance = facts.flag("gdr"), facts.flag("acs"), facts.text("gdr_distance").upper()
    far = distance in FAR
    if gdr is True:
        ruled_out.append(Cause("gdr-off", f"GPUDirect RDMA is in use ({facts.source('gdr')})"))
        if far:
            causes.append(
                Cause(
                    "far-nic",
                    f"GPU and NIC are {distance} apart ({facts.source('gdr_distance')}): GPUDirect RDMA crosses the CPU's root complex or its sockets",
                )
            )
    elif gdr is False:
        causes.append(
            Cause("gdr-off", f"GPUDirect RDMA is off ({facts.source('gdr')}): every byte is copied through host memory")
        )
    else:
        where = (
            f", since GPU and NIC are {distance} apart"
            if far
            else ": the peer-memory module is missing, or GPU and NIC are too far apart (PHB and beyond)"
        )
        causes.append(Cause("gdr-off", f"GPUDirect RDMA may not be in use{where}"))
    if acs is False:
        ruled_out.append(Cause("acs-enabled", f"ACS is off ({facts.source('acs')})"))
    else:
        sure = f" is on ({facts.source('acs')})" if acs else " may be on"
        causes.append(
            Cause(
                "acs-enabled",
                f"PCIe access control (ACS){sure}: it sends GPU-NIC traffic through the root complex, which about halves the bandwidth",
            )
        )
    if facts.text("network") == "sockets":
        causes.insert(0, Cause("sockets", "NCCL talks over TCP sockets, not over RDMA"))
    return causes, ruled_out


def _certain(facts: Facts) -> set[str]:
    certain = set()
    if facts.flag("gdr") is False:
        certain.add("gdr-off")
    if facts.flag("acs") is True:
        certain.add("acs-enabled")
    if facts.text("network") == "sockets":
        certain.add("sockets")
    return certain


def _as_fewer(best: Reached, facts: Facts) -> Cause | None:
    """Whether the rate is that of some of the NICs only: one, or half of them."""
    total, nics = nics_rate(facts), facts.number("nics")
    if total is None or nics is None or nics < 2:
        return None
    one = total.value / nics * sum(NIC_SHARE) / 2
    for used, code in ((1, "one-nic"), (nics / 2, "half-of-the-nics")):
        if used == int(used) and abs(best.busbw / (used * one) - 1) < 0.1:
            which = "one NIC" if used == 1 else f"{used:.0f} of the {nics:.0f} NICs"
            return Cause(
                code,
                f"it is what {which} would give ({rate(used * one)} GB/s): the others may not be in use (NCCL_IB_HCA, PXN, topology)",
            )
    return None


def _unjudged(best: Reached, facts: Facts) -> Finding:
    causes, ruled_out = path_causes(facts)
    what = "on average over sizes" if best.is_average else ""
    return Finding(
        "network_path",
        f"{best.text} reaches {rate(best.busbw)} GB/s {what} between hosts. Whether that is low depends on the NICs, which are not known; "
        f"{'the usual causes of a low rate are below' if causes else 'GPUDirect RDMA and ACS are not the cause'}",
        "cannot_tell",
        "problem" if causes else "notice",
        (best.number,),
        tuple(causes),
        tuple(ruled_out),
        next=_next(facts),
        needs=facts.unknown("gdr", "acs", "nic_rate", "nics"),
        advice=_advice(causes),
        weight=0.5,
    )


def _asked(facts: Facts) -> Finding:
    causes, ruled_out = path_causes(facts)
    return Finding(
        "network_path",
        "Low bandwidth over a network"
        + (
            f": {either([cause.text for cause in causes])}"
            if causes
            else ": neither GPUDirect RDMA nor ACS is the cause; the rows and the NICs' rate are needed"
        ),
        "cannot_tell",
        "problem" if causes else "notice",
        causes=tuple(causes),
        ruled_out=tuple(ruled_out),
        next=_next(facts),
        needs=facts.unknown("gdr", "gdr_distance", "acs", "nic_rate", "nics"),
        advice=_advice(causes),
    )


def _next(facts: Facts) -> str:
    steps = []
    if facts.flag("gdr") is None:
        steps.append(GDR_HOW)
    if facts.flag("acs") is None:
        steps.append(f"{ACS_HOW} (ReqRedir+, CmpltRedir+ or EgressCtrl+: on)")
    return "; ".join(steps) or "ib_write_bw --use_cuda=0 on each NIC in turn (NCCL_IB_HCA=mlx5_0 and so on for NCCL)"


def _advice(causes: list[Cause]) -> str:
    codes = {cause.code for cause in causes}
    parts = []
    if "gdr-off" in codes:
        parts.append(
            "load the peer-memory module (nvidia-peermem) or use DMA-BUF; where GPU and NIC are far apart set NCCL_NET_GDR_LEVEL"
        )
    if "acs-enabled" in codes:
        parts.append("disable ACS on the PCIe bridges (BIOS, or setpci)")
    if "sockets" in codes:
        parts.append("install the RDMA plugin, or check NCCL_IB_DISABLE and NCCL_NET")
    return "; ".join(parts)


LAW = Law(
    "network_path",
    "Nothing stands between the GPUs and their NICs",
    "Over several hosts, a busbw below 75 % of what the NICs give (92 % of their line rate), beyond its allowance. GPUDirect RDMA and ACS are causes unless "
    "a fact rules them out, and the only ones where a fact says so; the rate of one NIC or of half of them is recognised to 10 %.",
    _find,
    f"{RULES}; NVIDIA/nccl-tests#112, #252, NVIDIA/nccl#489, #1412",
)
