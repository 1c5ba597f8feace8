"""NCCL's own estimate of a call (2.30, src/graph/tuning.cc): its opinion, by which it chooses algorithm and protocol.

time = latency x pipeline + bytes / algorithm bandwidth, least over the algorithms and protocols whose bandwidth is above 0.
It is no measurement: the constants are those that NCCL ships, for its own kernels, with the links as it assumes them.

What stands here: ring, tree, NVLS, NVLSTree and PAT with LL, LL128 and Simple, on one host and on several. What does not:
CollNet, plugins, user tuning files, the limits that NCCL puts on channels and threads of small calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.dtype import DTYPES
from busbw.core.measurement import Mark, Measurement
from busbw.core.topology import DEVICE_KINDS, LINK_KINDS, Topology
from busbw.errors import UsageError

PROTOCOLS = ("LL", "LL128", "Simple")
LL, LL128, SIMPLE = range(3)
BASE_US = {"Tree": (6.8, 14.0, 8.4), "Ring": (6.6, 14.0, 8.4), "PAT": (8.0, 8.0, 8.0)}
HOP_US: dict[str, dict[str, tuple[float, ...]]] = {
    "NVLink": {
        "Tree": (0.6, 1.25, 4.0),
        "Ring": (0.6, 1.9, 3.4),
        "NVLS": (25.0,) * 3,
        "NVLSTree": (25.0,) * 3,
        "PAT": (4.0,) * 3,
    },
    "PCI": {
        "Tree": (1.0, 1.9, 4.0),
        "Ring": (1.0, 2.5, 5.7),
        "NVLS": (0.0,) * 3,
        "NVLSTree": (0.0,) * 3,
        "PAT": (4.0,) * 3,
    },
    "NET": {
        "Tree": (5.0, 8.5, 14.0),
        "Ring": (2.7, 4.0, 14.0),
        "NVLS": (18.0,) * 3,
        "NVLSTree": (20.9,) * 3,
        "PAT": (14.0,) * 3,
    },
}
LL_MOST_GBPS = {  # on 1, 2 and more hosts
    "volta": (39.0, 39.0, 20.4),
    "ampere": (87.7, 22.5, 19.0),
    "hopper": (141.0, 45.0, 35.0),
    "blackwell": (282.0, 90.0, 70.0),
}
NVLS_EFFICIENCY = {"hopper": 0.85, "blackwell": 0.74}
TREE_CORRECTION = {  # the factor on a tree's bandwidth, from 64 B up by powers of two
    LL: (
        1.0,
        1.0,
        1.0,
        1.0,
        0.9,
        0.8,
        0.7,
        0.7,
        0.7,
        0.7,
        0.6,
        0.5,
        0.4,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1.0,
        1.0,
        1.0,
        1.0,
    ),
    LL128: (
        1.0,
        1.0,
        1.0,
        1.0,
        1.0,
        0.9,
        0.8,
        0.8,
        0.8,
        0.7,
        0.6,
        0.6,
        0.6,
        0.6,
        0.6,
        0.8,
        0.9,
        0.9,
        0.9,
        0.9,
        1.0,
        1.0,
        1.0,
    ),
    SIMPLE: (
        0.9,
        0.9,
        0.9,
        0.9,
        0.9,
        0.9,
        0.9,
        0.8,
        0.7,
        0.6,
        0.6,
        0.5,
        0.5,
        0.5,
        0.5,
        0.6,
        0.7,
        0.8,
        0.7,
        0.7,
        0.8,
        0.9,
        0.9,
    ),
}
STEPS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
"""Passes around the ring; broadcast and reduce are pipelines of N steps of the whole."""
_GENERATIONS = (  # words in the name of a GPU, and what NCCL counts it as
    ("blackwell", ("b200", "b300", "rtx pro", "blackwell")),
    ("hopper", ("h100", "h200", "h800", "gh200", "hopper")),
    ("ampere", ("a100", "a800", "a40", "rtx 30", "rtx a", "l40", "rtx 40", "ampere")),
    ("volta", ("v100", "volta")),
)


@dataclass(frozen=True, slots=True)
class Assumed:
    """What the estimate takes the machine for."""

    hosts: int
    ranks_per_host: int
    kind: str
    """Links inside a host: NVLink or PCI."""
    ring_GBps: float  # noqa: N815 - the unit's own capitals
    """Channels x bandwidth of each."""
    inside_GBps: float  # noqa: N815
    """Out of one GPU, inside its host."""
    generation: str
    has_nvls: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Opinion:
    """One algorithm and protocol, as NCCL judges it."""

    algorithm: str
    protocol: str
    latency_s: float
    algbw_GBps: float  # noqa: N815
    time_s: float


def estimate(topology: Topology, op: str, sizes: Sequence[int], dtype: str = "float32") -> list[Measurement]:
    """What NCCL itself expects: one row a size, labelled as its opinion. UsageError for an op that it does not estimate."""
    assumed = assume(topology)
    kind = COLLECTIVES.get(op)
    rows = []
    for size in sizes:
        count = kind.whole_count(size, DTYPES[dtype].itemsize, topology.world_size)
        whole = count * DTYPES[dtype].itemsize
        best = opinions(assumed, op, whole)[0]
        call = Call(op, whole, topology.world_size, dtype=dtype, redop="sum" if kind.reduces else None)
        labels = {
            "algorithm": best.algorithm,
            "protocol": best.protocol,
            "model": "nccl",
            "topology": topology.name,
        }
        reason = "NCCL's own estimate, by which it chooses: no measurement, and not this program's prediction"
        marks = (Mark("nccl_opinion", "; ".join((reason, *assumed.notes))),)
        rows.append(Measurement(call, best.time_s, labels=labels, marks=marks, origin="simulated"))
    return rows


def opinions(assumed: Assumed, op: str, size_bytes: int) -> list[Opinion]:
    """Every algorithm and protocol that NCCL considers, the fastest first."""
    if op not in (*STEPS, "broadcast", "reduce"):
        raise UsageError(
            f"--model nccl: NCCL estimates all_reduce, all_gather, reduce_scatter, broadcast and reduce; not {op}"
        )
    if assumed.hosts * assumed.ranks_per_host < 2:
        raise UsageError("--model nccl: needs 2 ranks or more")
    found = []
    for algorithm, protocol, latency_us, algbw in _considered(assumed, op, size_bytes):
        if algbw > 0:
            seconds = latency_us * 1e-6 + size_bytes / (algbw * 1e9)
            found.append(Opinion(algorithm, PROTOCOLS[protocol], latency_us * 1e-6, algbw, seconds))
    return sorted(found, key=lambda opinion: opinion.time_s)


def _considered(assumed: Assumed, op: str, size_bytes: int) -> Iterator[tuple[str, int, float, float]]:
    """(algorithm, protocol, latency in us, algorithm bandwidth in GB/s)."""
    for protocol in (LL, LL128, SIMPLE):
        if protocol == LL128 and assumed.kind != "NVLink":
            continue
        yield "Ring", protocol, _ring_latency(assumed, op, protocol), _ring_rate(assumed, op, protocol)
        if op == "all_reduce":
            yield "Tree", protocol, _tree_latency(assumed, protocol), _tree_rate(assumed, protocol, size_bytes)
    if assumed.has_nvls and op in STEPS and assumed.hosts == 1:
        yield "NVLS", SIMPLE, _hop(assumed.kind, "NVLS", SIMPLE), _nvls_rate(assumed, op)
    if assumed.has_nvls and op == "all_reduce" and assumed.hosts > 1:
        hops = 2 * math.log2(assumed.hosts)
        latency = _hop(assumed.kind, "NVLSTree", SIMPLE) + hops * _hop("NET", "NVLSTree", SIMPLE)
        yield "NVLSTree", SIMPLE, latency, min(_nvls_bus(assumed, op), assumed.ring_GBps) * 0.5
    if op in ("all_gather", "reduce_scatter") and assumed.ranks_per_host == 1 and assumed.hosts > 1:
        n = assumed.hosts
        latency = BASE_US["PAT"][SIMPLE] + math.log2(n) * _hop("NET", "PAT", SIMPLE) / 3.5 + 2.8 * n
        yield "PAT", SIMPLE, latency, assumed.ring_GBps * 0.75 * 0.5


def _hop(kind: str, algorithm: str, protocol: int) -> float:
    return HOP_US[kind][algorithm][protocol]


def _ring_latency(assumed: Assumed, op: str, protocol: int) -> float:
    n = assumed.hosts * assumed.ranks_per_host
    inside = _hop(assumed.kind, "Ring", protocol)
    across = _hop("NET", "Ring", protocol)
    base = BASE_US["Ring"][protocol]
    if op in ("broadcast", "reduce"):
        return base + (inside if assumed.hosts == 1 else across)
    steps = STEPS[op] * (n - 1)
    between = STEPS[op] * (assumed.hosts - 1)
    return base + (steps - between) * inside + between * across


def _ring_rate(assumed: Assumed, op: str, protocol: int) -> float:
    n = assumed.hosts * assumed.ranks_per_host
    rate = assumed.ring_GBps
    if protocol == LL:
        rate = min(_ll_most(assumed), rate * 0.5)
    elif protocol == LL128:
        rate *= 0.92
    return rate * n / (STEPS[op] * (n - 1)) if op in STEPS else rate


def _ll_most(assumed: Assumed) -> float:
    return LL_MOST_GBPS[assumed.generation][min(assumed.hosts, 3) - 1]


def _tree_latency(assumed: Assumed, protocol: int) -> float:
    inside = _hop(assumed.kind, "Tree", protocol)
    across = _hop("NET", "Tree", protocol)
    hops = (assumed.ranks_per_host - 1) * inside + math.log2(assumed.hosts) * across
    return BASE_US["Tree"][protocol] + 2 * hops


def _tree_rate(assumed: Assumed, protocol: int, size_bytes: int) -> float:
    rate = assumed.ring_GBps * 0.92
    if protocol == LL:
        rate = min(rate / 3.8, _ll_most(assumed))
    elif protocol == LL128:
        rate *= 7 / 9 if assumed.hosts == 1 else 0.9375
    place = max((size_bytes >> 6).bit_length() - 1, 0)
    table = TREE_CORRECTION[protocol]
    return rate * 0.5 * (table[place] if place < len(table) else 1.0)


def _nvls_bus(assumed: Assumed, op: str) -> float:
    """Of all channels; that of one is lost to the reductions that its neighbours do."""
    channels = 16
    rate = assumed.inside_GBps * NVLS_EFFICIENCY[assumed.generation] * (channels - 1) / channels
    n = assumed.ranks_per_host
    return min(rate * 2 if op == "all_reduce" else rate * (n - 1) / n, assumed.ring_GBps)


def _nvls_rate(assumed: Assumed, op: str) -> float:
    n = assumed.ranks_per_host
    return _nvls_bus(assumed, op) * n / (STEPS[op] * (n - 1))


def assume(topology: Topology) -> Assumed:
    """Read off a machine what the estimate needs. NCCL's search for rings is not repeated: the rates of links stand for it."""
    ranks = topology.ranks.astype(np.int64)
    host = topology.device_host[ranks]
    hosts = len(np.unique(host))
    per_host = np.bincount(host[host >= 0])
    counts = set(per_host[per_host > 0].tolist())
    if len(counts) > 1:
        raise UsageError(
            f"--model nccl: the hosts of {topology.name} have {sorted(counts)} ranks; NCCL's estimate needs equal hosts"
        )
    inside, kind = _inside(topology, ranks)
    notes = ["links as the machine's description has them, where NCCL assumes its own speeds", "NICs without latency"]
    rate = inside
    if hosts > 1:
        outside = _outside(topology)
        rate = min(inside, outside) if counts != {1} else outside
    generation, known = _generation(topology, int(ranks[0]))
    if not known:
        notes.append(f"the GPU is taken for {generation}: its model is not told")
    switches = topology.device_reduces & (topology.device_kind == DEVICE_KINDS.index("nvswitch"))
    return Assumed(
        hosts,
        counts.pop() if counts else len(ranks),
        kind if counts != {1} or hosts == 1 else "NET",
        rate / 1e9,
        inside / 1e9,
        generation,
        bool(switches.any()) and generation in NVLS_EFFICIENCY,
        tuple(notes),
    )


def _inside(topology: Topology, ranks: np.ndarray) -> tuple[float, str]:
    """Bytes a second out of the slowest rank inside its host, and by what."""
    fast = np.isin(topology.link_kind, [LINK_KINDS.index(kind) for kind in ("nvlink", "xgmi", "c2c")])
    out = np.zeros((2, topology.device_count))
    for ends, rates in ((topology.link_a, topology.forward_Bps), (topology.link_b, topology.backward_Bps)):
        for row, chosen in ((0, fast), (1, ~fast)):
            np.add.at(out[row], ends[chosen], rates[chosen])
    nvlink = out[0][ranks]
    return (float(nvlink.min()), "NVLink") if (nvlink > 0).all() else (float(out[:, ranks].sum(axis=0).min()), "PCI")


def _outside(topology: Topology) -> float:
    """Bytes a second out of the slowest host."""
    host_a, host_b = topology.device_host[topology.link_a], topology.device_host[topology.link_b]
    leaves = host_a != host_b
    out = np.zeros(len(topology.hosts))
    for ends, rates in ((host_a, topology.forward_Bps), (host_b, topology.backward_Bps)):
        mine = leaves & (ends >= 0)
        np.add.at(out, ends[mine], rates[mine])
    return float(out[out > 0].min()) if (out > 0).any() else math.inf


def _generation(topology: Topology, device: int) -> tuple[str, bool]:
    told = " ".join((topology.name, *topology.details.get(device, {}).values())).lower()
    for generation, words in _GENERATIONS:
        if any(word in told for word in words):
            return generation, True
    return "ampere", False
