"""Which wires set the plateaus: models of who shares what, fitted to all of them and scored against each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import RING_OPS, Evidence, Family
from busbw.findings._law import Law
from busbw.findings._limits import MODELS, Fit, fit
from busbw.findings._words import both, rate, share

FITS_MEDIAN, FITS_LARGEST = 0.05, 0.15
LEAST_PLATEAUS = 6


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    if (facts.number("hosts") or 1) > 1 or facts.text("link") in ("nvlink", "xgmi") or facts.flag("nvls"):
        return
    for family in evidence.families:
        plateaus = family_plateaus(evidence, family)
        if len(plateaus) < LEAST_PLATEAUS or 2 not in {n for _, n in plateaus} or max(n for _, n in plateaus) < 4:
            continue
        yield _of(evidence, family, facts, plateaus)


def family_plateaus(evidence: Evidence, family: Family) -> dict[tuple[str, int], float]:
    """Busbw of each (operation, N) on one host, B/s; ring operations, which load the same wires, by their median as `ring`."""
    found: dict[tuple[str, int], float] = {}
    ring: dict[int, list[float]] = defaultdict(list)
    for (op, n), curve in family.curves.items():
        level = evidence.plateau(curve)
        if level is None or n > 16:
            continue
        if op in RING_OPS:
            ring[n].append(level.value)
        else:
            found[op, n] = level.value
    return found | {("ring", n): median(values) for n, values in ring.items()}


def per_socket(facts: Facts, largest: int) -> int:
    """Ranks of one socket: half of the largest group, unless the host has one socket."""
    return largest if facts.number("sockets") == 1 else max(largest // 2, 1)


def _of(evidence: Evidence, family: Family, facts: Facts, plateaus: dict[tuple[str, int], float]) -> Finding:
    ranks = per_socket(facts, max(n for _, n in plateaus))
    fits = {model.name: found for model in MODELS if (found := fit(model, plateaus, ranks)) is not None}
    noise = max(
        (level.allowance for c in family.curves.values() if (level := evidence.plateau(c)) is not None), default=0.0
    )
    pairs = facts.flag("pairs")
    if pairs is False:
        fits = {name: found for name, found in fits.items() if "uplink" not in name}
    good = [name for name, found in fits.items() if _fits(found, noise)]
    scores = "; ".join(f"{name} {share(f.median_error)} / {share(f.largest_error)}" for name, f in fits.items())
    numbers = [
        Number(f"median error of {name}", 100 * f.median_error, "%", f"{len(plateaus)} plateaus")
        for name, f in fits.items()
    ]
    simple = [name for name in good if name not in ("socket-link", "shared-uplinks-and-socket")]
    said = f"{family.prefix}of {len(plateaus)} plateaus (median / largest error): {scores}"
    if "full-duplex-ports" in good:
        caps = _capacities(fits["full-duplex-ports"])
        return Finding(
            "which_limit",
            f"Full-duplex ports ({caps}) explain all plateaus; nothing else limits. {said}",
            "holds",
            "fact",
            tuple(numbers),
        )
    if not good:
        return Finding(
            "which_limit",
            f"No simple model of shared wires explains the plateaus. {said}",
            "cannot_tell",
            "fact",
            tuple(numbers),
        )
    chosen = simple or good[:1]
    found = fits[chosen[0]] if "shared-uplinks" not in chosen else fits["shared-uplinks"]
    causes = tuple(Cause(name, fits[name].model.text) for name in chosen)
    if "shared-uplinks" in chosen:
        where = f"neighbours are pairs: {facts.source('pairs')}" if pairs else "neighbours in pairs assumed"
        text = f"Plateaus are those of uplinks that opposite and passing flows share ({_capacities(found)}; {where}): "
        text += f"median error {share(found.median_error)}, largest {share(found.largest_error)}"
        more = fits["shared-uplinks-and-socket"]
        ruled: tuple[Cause, ...] = ()
        if more.median_error > 0.7 * found.median_error or found.median_error < 0.03:
            text += ", and no term for a socket link is needed"
            ruled = (
                Cause(
                    "socket-link",
                    "a link between the sockets does not explain them, and adds nothing beside shared uplinks",
                ),
            )
        rivals = [name for name in chosen if name != "shared-uplinks"]
        if rivals:
            text += f". {both(rivals).capitalize()} fit as well"
        return Finding(
            "which_limit",
            f"{family.prefix}{text}. Others: {scores}",
            "cannot_tell" if rivals else "holds",
            "notice",
            tuple(numbers),
            causes,
            ruled,
            next="nvidia-smi topo -m: PIX between neighbours only? and one pair under one switch against a pair across two",
            needs=facts.unknown("pairs", "acs", "p2p"),
            weight=0.3,
        )
    text = f"{chosen[0]} explains the plateaus ({_capacities(found)}): median error {share(found.median_error)}, largest {share(found.largest_error)}"
    return Finding(
        "which_limit",
        f"{family.prefix}{text}. All: {scores}",
        "holds" if len(chosen) == 1 else "cannot_tell",
        "notice",
        tuple(numbers),
        causes,
        next="ranks of one socket only (CUDA_VISIBLE_DEVICES) against ranks of both, at the same N"
        if chosen[0] == "socket-link"
        else "one pair, one-way and both ways",
        weight=0.3,
    )


def _fits(found: Fit, noise: float) -> bool:
    return found.median_error <= max(FITS_MEDIAN, noise) and found.largest_error <= max(FITS_LARGEST, 2 * noise)


def _capacities(found: Fit) -> str:
    return ", ".join(f"{name} {rate(value)}" for name, value in found.capacity.items()) + " GB/s"


LAW = Law(
    "which_limit",
    "One simple model of who shares which wires explains every plateau",
    "Six or more plateaus on one host without NVLink, N=2 among them (all-reduce, all-gather and reduce-scatter load the same wires and count once, by their median): five models with one to four rates each, fitted by least squares of logarithms. "
    "One fits with a median error of 5 % and a largest of 15 % (or the noise). The simplest that fits is named, with those that fit as well.",
    _find,
    "loads of ring, chain and star schedules on ports, pair uplinks and a socket link: findings/_limits.py",
)
