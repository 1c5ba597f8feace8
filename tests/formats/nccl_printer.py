"""Prints what nccl-tests would, in each of its layouts, for an op whose every number is known.

Written from the documented columns and widths, not from the reader, so that reading it back is a test. The times come from
a line of launch time and rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

SHARDED = {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
REDUCING = {"all_reduce", "reduce_scatter", "reduce", "sendrecv"}
NO_IN_PLACE = {"alltoall", "sendrecv"}
OPS = (
    *("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "gather", "scatter"),
    *("sendrecv", "hypercube"),
)
LAYOUTS = (
    "1.0",
    "2.0",
    "2.8",
    "2.11",
    "2.13",
    "2.17",
    "2.19",
    "2.19-I",
    "2.19-S",
    "2.19-C",
    "rccl",
    "rccl-O",
    "rccl-A",
)


@dataclass(frozen=True)
class Printed:
    """What one half should be read as."""

    size: int
    in_place: bool
    time_us: float
    busbw: float


@dataclass(frozen=True)
class Job:
    op: str
    n: int
    layout: str = "2.13"
    sizes: tuple[int, ...] = tuple(2**power for power in range(10, 31, 2))
    named: bool = False
    devices: bool = True
    check: bool = True
    launch_us: float = 20.0
    rate: float = 60e9
    elements: str = "float"
    elt: int = 4

    def with_(self, **changes: object) -> Job:
        return replace(self, **changes)  # type: ignore[arg-type]


def factors(job: Job) -> tuple[float, float]:
    """algbw and busbw over S/t, as printed by that version."""
    ring = (job.n - 1) / job.n
    if job.op == "hypercube":
        return ring, ring
    if job.op in ("all_gather", "reduce_scatter") and job.layout in ("1.0", "2.0"):
        return ring, ring
    bus = {"all_reduce": 2 * ring, "broadcast": 1.0, "reduce": 1.0, "sendrecv": 1.0}.get(job.op, ring)
    return 1.0, bus


def whole_size(job: Job, size: int) -> int:
    if job.op not in SHARDED:
        return size // job.elt * job.elt
    count = size // job.elt // job.n
    return (
        (count & ~(16 // job.elt - 1) if job.layout not in ("1.0", "2.0", "2.8", "2.11") else count) * job.elt * job.n
    )


def fitted(value: float, width: int) -> str:
    """As many decimals as the width allows, then an exponent."""
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def time_text(value: float, job: Job) -> str:
    if job.layout == "1.0":
        return f"{value / 1e3:7.3f}"
    if job.layout >= "2.17" or job.layout.startswith("rccl-"):
        return fitted(value, 7)
    decimals = 0 if value >= 10000 else 1 if value >= 100 else 2
    return f"{value:7.{decimals}f}"


def columns(job: Job) -> tuple[bool, bool]:
    """Whether there are redop and root columns."""
    if job.layout in ("1.0", "2.0", "2.8", "2.11"):
        redop = job.op in ("all_reduce", "reduce_scatter", "reduce", "alltoall")
        return redop, job.op in ROOTED
    return True, True


def half_names(job: Job) -> list[str]:
    time = "cputime" if job.layout == "2.19-C" else "time"
    old = job.layout in ("1.0", "2.0", "2.8", "2.11")
    names = [time, *(["hipevt"] if job.layout == "rccl-A" else []), "algbw", "busbw", "error" if old else "#wrong"]
    return names + (["i_min", "i_max", "i_p99", "i_cv%"] if job.layout == "2.19-I" else [])


def placements(job: Job) -> tuple[bool, ...]:
    if job.layout == "rccl-O":
        return (True,)
    return (False,) if job.layout == "1.0" and job.op == "broadcast" else (False, True)


def header(job: Job) -> Iterator[str]:
    has_redop, has_root = columns(job)
    where = "           ".join("in-place" if in_place else "out-of-place" for in_place in placements(job))
    front = ["bytes", "N", "type"] if job.layout == "1.0" else ["size", "count", "type"]
    front += [*(["op" if job.layout == "1.0" else "redop"] if has_redop else []), *(["root"] if has_root else [])]
    halves = half_names(job) * len(placements(job))
    tail = {"2.19-S": ["timestamp"], "rccl-A": ["algo", "proto", "nchannels"]}.get(job.layout, [])
    yield f"# {'':60} {where}"
    yield "# " + "  ".join(f"{name:>10}" for name in [*front, *halves, *tail])
    if job.layout != "1.0":
        units = {"size": "(B)", "count": "(elements)", "time": "(us)", "cputime": "(us)", "hipevt": "(us)"}
        units |= {"algbw": "(GB/s)", "busbw": "(GB/s)"}
        yield "# " + "  ".join(f"{units.get(name, ''):>10}" for name in [*front, *halves])


def preamble(job: Job) -> Iterator[str]:
    tool = "rccl" if job.layout.startswith("rccl") else "nccl"
    if job.layout.startswith("2.19"):
        yield f"# {tool}-tests version 2.19.6 nccl-headers=22903 nccl-library=22903"
    if job.named:
        yield f"# Collective test starting: {job.op}_perf"
    validation = "1" if job.check else "0"
    yield (
        f"# nThread 1 nGpus 1 minBytes {job.sizes[0]} maxBytes {job.sizes[-1]} step: 4(factor) warmup iters: 5 iters: 20 "
        f"agg iters: 1 validation: {validation} graph: 0"
    )
    yield "#"
    yield "# Using devices"
    if job.devices:
        for rank in range(job.n):
            group = "Group  0 " if job.layout not in ("1.0", "2.0", "2.8", "2.11") else ""
            pid = f"Pid {1000 + rank:6} " if job.layout != "1.0" else ""
            yield f"#  Rank {rank:2} {group}{pid}on  host-{rank // 8:04} device {rank % 8:2} [0x{rank % 8:02x}] NVIDIA H100"
    yield "#"


def row(job: Job, size: int) -> tuple[str, list[str], list[Printed]]:
    """The row's beginning, its halves as text, and what they say."""
    s = whole_size(job, size)
    per_rank = job.op in SHARDED
    count = s // job.elt // job.n if per_rank else s // job.elt
    has_redop, has_root = columns(job)
    redop = "sum" if job.op in REDUCING else "none" if job.layout not in ("2.0", "2.8", "2.11", "2.13") else ""
    front = f"{s:12}  {count:12}  {job.elements:>8}"
    front += f"  {redop:>6}" if has_redop else ""
    front += f"  {0 if job.op in ROOTED else -1:6}" if has_root else ""
    halves, said = [], []
    for in_place in placements(job):
        time_us = (job.launch_us + s / job.rate * 1e6) * (1.03 if in_place else 1.0)
        time = time_text(time_us, job)
        algbw, busbw = (factor * s / time_us / 1e3 for factor in factors(job))
        old = job.layout in ("1.0", "2.0", "2.8", "2.11")
        if not job.check or (in_place and job.op in NO_IN_PLACE):
            check = "N/A"
        else:
            check = f"{2e-7:5.0e}" if old else "0"
        text = f"  {time}"
        text += f"  {time}" if job.layout == "rccl-A" else ""
        text += f"  {fitted(algbw, 6)}  {fitted(busbw, 6)}  {check:>6}"
        if job.layout == "2.19-I":
            text += "".join(f"  {fitted(value, 7)}" for value in (time_us * 0.9, time_us * 1.2, time_us * 1.1, 0.49))
        halves.append(text)
        said.append(Printed(s, in_place, float(time) * (1e3 if job.layout == "1.0" else 1), float(fitted(busbw, 6))))
    if job.layout == "2.19-S":
        halves[-1] += "  2026-11-30 05:00:01"
    if job.layout == "rccl-A":
        halves[-1] += "      Ring    Simple          16"
    return front, halves, said


def footer(job: Job, said: Iterable[Printed]) -> Iterator[str]:
    rates = [each.busbw for each in said]
    yield "# Out of bounds values : 0 OK"
    yield f"# Avg bus bandwidth    : {sum(rates) / len(rates):g} "
    yield "#"
    if job.named:
        yield f"# Collective test concluded: {job.op}_perf"
        yield "#"


def lines(job: Job) -> tuple[list[str], list[Printed]]:
    """A whole run, and what should be read from it."""
    rows = [row(job, size) for size in job.sizes]
    said = [each for _, _, halves in rows for each in halves]
    body = [front + "".join(halves) for front, halves, _ in rows]
    return [*preamble(job), *header(job), *body, *footer(job, said)], said


def torn_lines(job: Job, glued: bool) -> tuple[list[str], list[Printed]]:
    """The same with a line of NCCL's log inside every row, after its beginning and after its first half."""
    rows = [row(job, size) for size in job.sizes]
    said = [each for _, _, halves in rows for each in halves]
    gap = "" if glued else "  "
    body = []
    for front, halves, _ in rows:
        body += [f"{front}{gap}host-0:12:34 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC"]
        body += ["host-1:13:35 [1] NCCL INFO comm 0x1 rank 1 nranks 2"]
        for half in halves[:-1]:
            body += [
                f"{half}{gap}host-0:12:34 [0] NCCL INFO AllReduce: {said[0].size} Bytes -> Algo 1 proto 2 time 1.0"
            ]
        body += [halves[-1]]
    return [*preamble(job), *header(job), *body, *footer(job, said)], said
