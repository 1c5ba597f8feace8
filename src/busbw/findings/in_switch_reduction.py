"""NVLS: where the switch reduces, busbw is no rate on a wire, and may lie above the wire's."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence
from busbw.findings._judged import Reached, reached
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import rate
from busbw.findings.machines import machine_of
from busbw.units import GB, GIB, format_size


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    if facts.flag("nvls") is False or facts.text("algorithm").lower() in ("ring", "tree"):
        return
    machine = machine_of(facts)
    for item in reached(evidence, facts):
        ring = machine.ring if machine is not None else None
        if item.collective != "all_reduce" or item.algorithm.lower() not in ("", "nvls") or facts.number("hosts") != 1:
            continue
        if machine is None or not machine.nvls or ring is None or item.busbw < 1.05 * ring * GB:
            continue
        yield _above(
            item, ring, machine.wire, machine.nvls.get(item.world_size, max(machine.nvls.values())), machine.source
        )
        return
    if facts.flag("nvls") or says(facts, "about-nvls"):
        yield Finding(
            "in_switch_reduction",
            "With in-switch reduction (NVLS) the test still multiplies algbw by 2(N-1)/N, since it cannot see which algorithm ran: "
            "read busbw as the wire rate that a ring would need for the same time. It is not what the wires carry, so it may "
            "lie above their rate; algbw is what the program gets",
            "holds",
            "fact",
            causes=(
                Cause(
                    "nvls-busbw-notional",
                    "busbw is ring-equivalent; NVLS moves about S a rank each way, not 2(N-1)/N S",
                ),
            ),
            advice="To see raw link speed use a copy benchmark (nvbandwidth); to compare with a data sheet use NCCL_ALGO=Ring",
        )


def _above(item: Reached, ring: float, wire: float, peak: float, source: str) -> Finding:
    small = 0 < item.largest_bytes < GIB and item.busbw < 0.97 * peak * GB
    text = (
        f"{rate(item.busbw)} GB/s busbw is more than the {ring:.0f} that a ring reaches on a wire of {wire:.0f} GB/s (about 80 %, after "
        f"protocol overhead): all-reduce runs in the switch (NVLS), which moves fewer bytes, so busbw is not a wire rate. "
        f"With NVLS {item.world_size} GPUs peak near {peak:.0f} (algbw {peak * item.world_size / (2 * (item.world_size - 1)):.0f})"
    )
    causes = [Cause("nvls-moves-less", "in-switch reduction moves about S a rank each way; busbw counts 2(N-1)/N S")]
    if small:
        text += f"; {format_size(item.largest_bytes)} is too small to reach that"
        causes.append(Cause("size-too-small", "the peak is reached from about 1 GiB up"))
    return Finding(
        "in_switch_reduction",
        text,
        "holds",
        "notice",
        (
            item.number,
            Number("a ring's busbw", ring * GB, "B/s", source),
            Number("NVLS peak", peak * GB, "B/s", source),
        ),
        tuple(causes),
        next="NCCL_ALGO=Ring at the same sizes, which is to be compared with the wire; TUNING lines say 'Algo NVLS'",
        advice="Normal. Test larger sizes for the peak; compare Ring with the data sheet, not NVLS"
        if small
        else "Normal",
        weight=0.5,
    )


LAW = Law(
    "in_switch_reduction",
    "Busbw above a ring's comes from reduction in the switch",
    "One host of a kind with NVLS, all_reduce, busbw more than 5 % above what a ring reaches there, and neither Ring, Tree nor nvls=off known.",
    _find,
    "NVIDIA/nccl-tests#212, #366; facts of published runs: 420/440/460/480 GB/s at N = 5/6/7/8 on H100",
)
