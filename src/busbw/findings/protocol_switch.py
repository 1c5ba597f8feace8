"""The curve over size has a step, a kink or a bump: another protocol or algorithm from some size on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._curve_fit import CurveFit, Switch, best_switch, fit_curve
from busbw.findings._evidence import Curve, Evidence, Family
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import both, share, signed
from busbw.units import format_size

SWITCH = Cause(
    "protocol-switch",
    "the library changes its protocol (LL, LL128, Simple, in this order as the size grows), its algorithm or its channels there",
)
OVERLAP = Cause(
    "overlap", "back-to-back calls overlap and are timed on one rank: the maximum of launch and wire, not their sum"
)
BAD_ROW = Cause("noise", "one bad row")
LEAST_OFF = 0.15
"""A row this far off the best single curve is worth a look."""
AGREE = 4
"""So many curves of one family with an unclear step make a clear one."""
FEW = 9
"""Fewer sizes than this do not tell a switch from a bad row."""
TUNING = (
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints the choice for each size; or the same sizes with NCCL_PROTO=Simple"
)


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        logged = [finding for curve in family.curves.values() if (finding := _logged(family, curve)) is not None]
        yield from logged[:3]
        if logged:
            continue
        switches, bumps = [], []
        for curve in family.curves.values():
            found = look(evidence, curve)
            if isinstance(found, Switch):
                switches.append((curve, found, _clear(evidence, curve, found)))
            elif found is not None:
                bumps.append((curve, *found))
        switches = [item for item in switches if item[2]] or (switches if len(switches) >= AGREE else [])
        if switches:
            yield _switched(evidence, family, [(curve, switch) for curve, switch, _ in switches])
        if bumps:
            yield _bumped(family, bumps)
    if not evidence.usable:
        yield from _asked(facts)


def look(evidence: Evidence, curve: Curve) -> Switch | tuple[CurveFit, int] | None:
    """A switch between two curves, or the one row that no single curve meets, or nothing."""
    if len(curve.points) < 5 or not curve.large:
        return None
    sizes = [float(point.size_bytes) for point in curve.points]
    times = [point.time_s for point in curve.points]
    single = fit_curve(sizes, times)
    spread = _spread(evidence, curve)
    off = max(LEAST_OFF, 3 * spread)
    if len(sizes) >= FEW and single.largest > max(0.08, 2.5 * spread):
        switch = best_switch(sizes, times)
        if (
            switch is not None
            and switch.misfit < 0.42 * single.misfit
            and switch.largest < max(0.6 * single.largest, 0.04)
            and _jump(curve, switch) > max(0.1, 3 * spread)
        ):
            return switch
    line = fit_curve(sizes, times, (1.0,))
    worst = max(range(len(sizes)), key=lambda i: abs(line.residuals[i]))
    if abs(line.residuals[worst]) > max(0.35, 3 * spread) and single.largest > off / 3:
        return line, worst
    return None


def _jump(curve: Curve, switch: Switch) -> float:
    """How far apart the two curves are where they meet, as a share."""
    here = float(curve.points[switch.start].size_bytes)
    one = switch.before.t0_s + here / switch.before.rate_Bps
    two = switch.after.t0_s + here / switch.after.rate_Bps
    return abs(one / two - 1)


def _spread(evidence: Evidence, curve: Curve) -> float:
    return max(evidence.widest_spread("large"), evidence.spread(curve.world_size, "small"))


def _clear(evidence: Evidence, curve: Curve, switch: Switch) -> bool:
    """Whether the step is beyond what chance makes of many curves and sizes."""
    return _jump(curve, switch) > max(0.1, 4.5 * _spread(evidence, curve))


def _switched(evidence: Evidence, family: Family, switches: list[tuple[Curve, Switch]]) -> Finding:
    parts, numbers = [], []
    for curve, switch in switches[:4]:
        below, above = curve.points[switch.start - 1], curve.points[switch.start]
        one = switch.before.t0_s + above.size_bytes / switch.before.rate_Bps
        change = above.time_s / one - 1
        parts.append(
            f"{curve.name} between {format_size(below.size_bytes)} and {format_size(above.size_bytes)} ({signed(change)} against the curve below)"
        )
        numbers.append(Number(f"switch of {curve.name}", float(above.size_bytes), "B", above.source))
    more = f" and {len(switches) - 4} more" if len(switches) > 4 else ""
    return Finding(
        "protocol_switch",
        f"{family.prefix}no single curve T = t0 + S f(N)/B fits; two do, with a switch: {'; '.join(parts)}{more}",
        "fails",
        "notice",
        tuple(numbers),
        (SWITCH, Cause("other-level", "the machine changed its speed between these rows")),
        next=TUNING,
        needs=("protocol",),
        advice="Normal. NCCL chooses by a simple model, which can be wrong near the edge: a tuner plugin or NCCL_PROTO for one job can move it",
        weight=0.1,
    )


def _bumped(family: Family, bumps: list[tuple[Curve, CurveFit, int]]) -> Finding:
    bumps.sort(key=lambda item: -abs(item[1].residuals[item[2]]))
    parts, numbers = [], []
    for curve, fit, index in bumps[:3]:
        point = curve.points[index]
        line_s = fit.t0_s + point.size_bytes / fit.rate_Bps
        off = line_s / point.time_s - 1
        parts.append(
            f"{curve.name} at {format_size(point.size_bytes)}, where the line says {share(abs(off))} {'more' if off > 0 else 'less'} time"
        )
        numbers.append(
            Number(f"line over time, {curve.name} {format_size(point.size_bytes)}", 100 * off, "%", point.source)
        )
    more = f" (and {len(bumps) - 3} more curves)" if len(bumps) > 3 else ""
    early = all(fit.residuals[i] < 0 for _, fit, i in bumps)
    return Finding(
        "protocol_switch",
        f"{family.prefix}a bump that no straight line T = t0 + S f(N)/B meets: {'; '.join(parts)}{more}. Its cause these rows cannot tell",
        "cannot_tell",
        "notice",
        tuple(numbers),
        (SWITCH, OVERLAP) if early else (SWITCH, BAD_ROW),
        next="one call at a time (isolated, not back-to-back), or the same size with the protocol forced (NCCL_PROTO=Simple)",
        needs=("protocol",),
        weight=0.08,
    )


def _logged(family: Family, curve: Curve) -> Finding | None:
    """Sizes at which the log itself says that the choice changes."""
    choices = []
    for point in curve.points:
        labels = point.rows[0].labels
        choice = "/".join(word for word in (labels.get("algorithm"), labels.get("protocol")) if word)
        choices.append(choice)
    changes = [
        (point, f"{before} to {after} at {format_size(point.size_bytes)}")
        for (before, after), point in zip(pairwise(choices), curve.points[1:], strict=True)
        if before and after and before != after
    ]
    if not changes:
        return None
    return Finding(
        "protocol_switch",
        f"{family.prefix}{curve.name} changes from {both([text for _, text in changes[:4]])}, as its log says",
        "fails",
        "fact",
        tuple(Number(text, float(point.size_bytes), "B", point.source) for point, text in changes[:4]),
        (Cause("protocol-switch", "the library's choice for each size, as logged"),),
        weight=0.1,
    )


def _asked(facts: Facts) -> Iterator[Finding]:
    kink = facts.number("kink_at")
    if kink is not None or says(facts, "kink"):
        at = f" at {format_size(int(kink))}" if kink is not None else ""
        number = (Number("kink", kink, "B", facts.source("kink_at")),) if kink is not None else ()
        yield Finding(
            "protocol_switch",
            f"A kink in the curve over size{at} is most likely a change of protocol: LL to LL128, later to Simple. The library chooses by a simple model, "
            "which can be wrong near the edge",
            "cannot_tell",
            "notice",
            number,
            (SWITCH,),
            next=TUNING,
            needs=facts.unknown("protocol"),
            advice="Normal",
        )
    elif says(facts, "about-protocols") and not facts.number("wrong"):
        yield Finding(
            "protocol_switch",
            "LL stores 4 bytes of data with 4 bytes of flags, so it reaches at most 50 % of the bandwidth, at the lowest latency; LL128 stores 120 of 128 bytes, about 95 %; "
            "Simple reaches all of it, at the highest latency. NCCL uses them in this order as the size grows. LL128 needs 128-byte stores that are seen in order: "
            "forced where that does not hold, it corrupts data silently",
            "holds",
            "fact",
            (
                Number("LL, share of the bandwidth", 50.0, "%", "4 of 8 bytes"),
                Number("LL128, share", 93.75, "%", "120 of 128 bytes"),
            ),
            (Cause("protocol-facts", "how LL, LL128 and Simple store data and flags"),),
            advice="Leave the choice to NCCL",
        )


LAW = Law(
    "protocol_switch",
    "One curve T = t0 + S f(N)/B describes all sizes",
    "From 9 sizes on: the best single curve (launch and wire added, or their maximum) against two with a switch, by least absolute deviations of logarithms. A switch needs at least three sizes "
    "on each side, less than 0.42 times the misfit, and a step of 10 % and 4.5 standard deviations where the curves meet (3 where four curves have one). With fewer sizes a row 35 % off the straight line is a bump whose cause cannot be told. "
    "Algorithm and protocol in the log are taken as they are.",
    _find,
    "NVIDIA/nccl-tests#292, NVIDIA/nccl#281",
)
