"""Results were wrong: what is known to cause that."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number, Verdict
from busbw.findings._evidence import Evidence, where
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.units import format_size

UNSAFE = ("ll128",)


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    bad = [row for row in evidence.rows if row.wrong]
    count = facts.number("wrong")
    if not bad and not count and not says(facts, "wrong-values"):
        checked = [row for row in evidence.rows if row.wrong == 0]
        if checked and len(checked) == len(evidence.rows):
            yield Finding("wrong_values", f"the data of all {len(checked)} rows was checked and right", "holds", "fact")
        return
    if not bad and not count:
        return  # words alone, as in "wrong number": nothing was counted
    total = sum(row.wrong or 0 for row in bad) or int(count or 0)
    where_text = ""
    if bad:
        sizes = [row.call.size_bytes for row in bad]
        where_text = f" in {len(bad)} of {len(evidence.rows)} rows, from {format_size(min(sizes))} up"
    op = facts.text("op") or (bad[0].call.collective if bad else "")
    causes, verdict = _causes(facts, op, bad_labels(evidence))
    numbers = tuple(
        Number(
            f"wrong, {row.call.collective} {format_size(row.call.size_bytes)}", float(row.wrong or 0), "", where(row)
        )
        for row in bad[:8]
    )
    if not bad:
        numbers = (Number("wrong values", float(total), "", facts.source("wrong")),)
    yield Finding(
        "wrong_values",
        f"{total} wrong values{where_text}: {causes[0].text}"
        if len(causes) == 1
        else f"{total} wrong values{where_text}",
        verdict,
        "wrong",
        numbers,
        tuple(causes),
        next="the same without NCCL_PROTO and NCCL_ALGO; then all_reduce, all_gather and send_recv alone, pair by pair, until one pair is left",
        needs=facts.unknown("forced_protocol"),
        advice="Do not trust any result of this set-up until it is found"
        + ("; do not force the protocol" if causes[0].code == "ll128-forced" else ""),
        weight=1.0,
    )


def bad_labels(evidence: Evidence) -> str:
    """NCCL_PROTO of the wrong rows, or their protocol."""
    for row in evidence.rows:
        if row.wrong:
            return row.labels.get("NCCL_PROTO") or ""
    return ""


def _causes(facts: Facts, op: str, forced_label: str) -> tuple[list[Cause], Verdict]:
    forced = (facts.text("forced_protocol") or forced_label).lower()
    if op == "hypercube":
        return [
            Cause("test-unreliable", "the hypercube test itself is unreliable; use the other tests for correctness")
        ], "fails"
    if forced in UNSAFE:
        text = (
            "LL128 was forced. It needs 128-byte stores that arrive in order, which NCCL enables it for by itself where they do; forced elsewhere "
            "(over sockets, over PCIe) it silently gives wrong data"
        )
        return [Cause("ll128-forced", text)], "fails"
    causes = [
        Cause("faulty-hardware", "a GPU, cable, NIC or memory that corrupts data"),
        Cause("in-network-reduction", "a reduction in the network, or a plugin, that is wrong"),
        Cause("faulty-peer-access", "peer access that does not work (ACS, IOMMU, an unsupported path)"),
    ]
    if not forced:
        causes.insert(0, Cause("forced-protocol", "a protocol that was forced where it is not safe (NCCL_PROTO)"))
    return causes, "cannot_tell"


LAW = Law(
    "wrong_values",
    "The data is right",
    "Rows with wrong values, or the user's count. A forced LL128 and the hypercube test are known causes.",
    _find,
    "NVIDIA/nccl#281, #831, NVIDIA/nccl-tests#356",
)
