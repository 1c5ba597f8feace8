"""Runs on machines whose fault is known: random parameters, random noise, and what explaining them should say.

Nothing here uses busbw.findings: who shares which wire is written down again, in another way, so that the two check each
other. A world makes rows; `truth` is what is the matter with it, `allowed` what may be said beside it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.finding import Facts
from busbw.core.measurement import Measurement, Results, Run, Samples, Source

OPS = ("broadcast", "scatter", "gather", "all_gather", "reduce_scatter", "all_reduce")
RING = ("all_gather", "reduce_scatter", "all_reduce")
GB = 1e9
US = 1e-6


@dataclass
class Machine:
    """One host (or several), and how long a call takes on it."""

    port: float = 40 * GB
    uplink_out: float | None = None
    uplink_in: float | None = None
    uplink_both: float | None = None
    half_duplex: bool = False
    socket: float | None = None
    launch_s: float = 8 * US
    alpha_s: float = 0.5 * US
    overlap: bool = False
    switch_at: int | None = None
    low_rate: float = 0.4
    low_launch: float = 0.4
    noise: float = 0.02
    drop_at: int | None = None
    slow_link: float | None = None
    """What the port of one rank above 3 carries."""

    def busbw(self, op: str, n: int) -> float:
        """Bytes a second, from the bytes that each shared wire has to carry."""
        if op in RING:
            port_out, port_in, up_out, up_in, cross = 1.0, 1.0, 2.0, 2.0, 1.0
            if n == 2:
                cross = 0.0
        elif op == "broadcast":
            port_out, port_in = 1.0, 1.0 if n > 2 else 0.0  # a relay receives what it sends
            up_out, up_in = (1.0, 1.0) if n == 2 else (2.0, 1.0) if n == 4 else (2.0, 2.0)
            cross = 1.0 if n > 2 else 0.0
        elif op == "scatter":
            port_out, port_in, up_out, up_in = 1.0, 0.0, 1.0, 1 / (n - 1)
            cross = (n / 2) / (n - 1) if n > 2 else 0.0
        else:
            port_out, port_in, up_out, up_in = 0.0, 1.0, 1 / (n - 1), 1.0
            cross = (n / 2) / (n - 1) if n > 2 else 0.0
        limits = []
        if self.half_duplex:
            limits.append(self.port / (port_out + port_in if (op, n) != ("broadcast", 2) else 1.0))
        else:
            limits.append(self.port / max(port_out, port_in))
        if self.uplink_out and self.uplink_in and self.uplink_both:
            limits += [self.uplink_out / up_out, self.uplink_in / up_in, self.uplink_both / (up_out + up_in)]
        if self.socket and n == 8 and cross:
            limits.append(self.socket / cross)
        if self.slow_link and n == 8:  # in a star the rank is a leaf with 1/(N-1) of the bytes
            limits.append(self.slow_link / (1.0 if op in (*RING, "broadcast") else 1 / (n - 1)))
        return min(limits)

    def steps(self, op: str, n: int) -> int:
        """Steps that follow one another."""
        return 2 * (n - 1) if op == "all_reduce" else n - 1 if op in (*RING, "broadcast") else 1

    def time_s(self, op: str, size: int, n: int) -> float:
        """Seconds of one call, without noise."""
        factor = COLLECTIVES.get(op).bus_factor(n)
        rate, launch = self.busbw(op, n), self.launch_s + self.steps(op, n) * self.alpha_s
        if self.switch_at is not None and size < self.switch_at:
            rate, launch = rate * self.low_rate, launch * self.low_launch
        if self.drop_at is not None and size >= self.drop_at:
            rate *= 0.5
        wire = size * factor / rate
        return max(launch, wire) if self.overlap else launch + wire


@dataclass
class World:
    """Rows, facts, and what is the matter."""

    name: str
    results: list[Results]
    truth: str
    """The diagnosis that has to be there ("" where nothing is the matter)."""
    allowed: frozenset[str] = frozenset()
    facts: Facts = field(default_factory=Facts)
    detail: str = ""
    """Words that the finding has to contain: the rank, the NIC."""


def grid(rng: random.Random, step: int | None = None) -> list[int]:
    """Sizes as people choose them."""
    step = step or rng.choice((2, 4))
    first = rng.choice((1024, 4096, 8192))
    sizes, size = [], first
    while size <= 2**30:
        sizes.append(size)
        size *= step
    return sizes


def rows(
    machine: Machine, rng: random.Random, sizes: list[int], worlds: tuple[int, ...] = (2, 4, 8)
) -> list[Measurement]:
    """One mean a row, as nccl-tests and the post print."""
    found, line = [], 1
    for n in worlds:
        for op in OPS:
            for size in sizes:
                line += 1
                time_s = machine.time_s(op, size, n) * rng.lognormvariate(0, machine.noise)
                found.append(Measurement(Call(op, size, n), time_s, source=Source("world.csv", line), origin="read"))
    return found


def truth_of_latency(machine: Machine) -> tuple[frozenset[str], frozenset[str]]:
    """(what must not be missed, what may be said) of launch and steps, from the parameters."""
    at_eight = 14 * machine.alpha_s / (machine.launch_s + 14 * machine.alpha_s)
    may = {"launch"} if machine.launch_s > 0.15 * machine.alpha_s * 2 else set()
    if at_eight > 0.03:
        may.add("linear")
    return frozenset(), frozenset(may)


def base(rng: random.Random) -> Machine:
    """A sound machine."""
    return Machine(
        port=rng.uniform(8, 200) * GB,
        launch_s=rng.uniform(4, 15) * US,
        alpha_s=rng.uniform(0.2, 3) * US,
        overlap=rng.random() < 0.3,
        noise=rng.uniform(0.005, 0.05),
    )


def _world(
    name: str,
    machine: Machine,
    rng: random.Random,
    truth: str,
    step: int | None = None,
    also: frozenset[str] = frozenset(),
) -> World:
    _, may = truth_of_latency(machine)
    measured = rows(machine, rng, grid(rng, step))
    return World(name, [Results(Run(tool="world"), tuple(measured))], truth, may | also)


def full_duplex(rng: random.Random) -> World:
    """Nothing is shared."""
    return _world("full duplex", base(rng), rng, "")


def redirected_pairs(rng: random.Random) -> World:
    """Every flow climbs its pair's uplink and comes down one."""
    machine = base(rng)
    out = rng.uniform(10, 60) * GB
    into = out * rng.uniform(0.85, 1.15)
    both = min(out, into) * rng.uniform(1.5, 2.0)
    machine = replace(machine, port=out * rng.uniform(1.2, 3), uplink_out=out, uplink_in=into, uplink_both=both)
    return _world("redirected pairs", machine, rng, "redirect")


def socket_bound(rng: random.Random) -> World:
    """The link between the sockets carries less than a port."""
    machine = base(rng)
    machine = replace(machine, socket=machine.port * rng.uniform(0.25, 0.55))
    return _world("socket-bound", machine, rng, "socket")


def launch_bound(rng: random.Random) -> World:
    """Launch dwarfs the steps."""
    machine = replace(base(rng), launch_s=rng.uniform(10, 40) * US, alpha_s=rng.uniform(0.02, 0.15) * US, overlap=False)
    return _world("launch-bound", machine, rng, "launch")


def linear_alpha(rng: random.Random) -> World:
    """Steps dwarf the launch."""
    machine = replace(base(rng), launch_s=rng.uniform(0.0, 0.2) * US, alpha_s=rng.uniform(2, 8) * US, overlap=False)
    return _world("linear alpha", machine, rng, "linear")


def slow_rank(rng: random.Random) -> World:
    """One rank takes longer in every row; samples of each rank are there."""
    machine = base(rng)
    n, by = rng.choice((4, 8)), rng.uniform(1.15, 1.7)
    slow = rng.randrange(n)
    found = []
    for row in rows(machine, rng, grid(rng, 4), (n,)):
        ranks = []
        for rank in range(n):
            level = machine.time_s(row.call.collective, row.call.size_bytes, n) * (by if rank == slow else 1.0)
            ranks.append(tuple(level * rng.lognormvariate(0, machine.noise) for _ in range(12)))
        middle = sorted(max(sample) for sample in zip(*ranks, strict=True))[6]
        found.append(replace(row, time_s=middle, samples=Samples(1, tuple(ranks))))
    _, may = truth_of_latency(machine)
    return World("one slow rank", [Results(Run(tool="world"), tuple(found))], "straggler", may, detail=f"rank {slow} ")


def slow_nic(rng: random.Random) -> World:
    """Measured over one NIC at a time: one of them is slower."""
    nics, hosts, noise = rng.choice((4, 8)), rng.choice((2, 3, 4)), rng.uniform(0.005, 0.04)
    rate = rng.choice((100, 200, 400))
    slow, by = rng.randrange(nics), rng.uniform(0.3, 0.75)
    found, line, n = [], 1, 8 * hosts
    launch = rng.uniform(20, 60) * US
    for nic in range(nics):
        busbw = 0.95 * rate * GB / 8 * (by if nic == slow else 1.0)
        for size in grid(rng, 4):
            line += 1
            time_s = (launch + size * 2 * (n - 1) / n / busbw) * rng.lognormvariate(0, noise)
            call = Call("all_reduce", size, n)
            labels = {"NCCL_IB_HCA": f"mlx5_{nic}"}
            found.append(Measurement(call, time_s, labels=labels, source=Source("nics.log", line), origin="read"))
    facts = (
        Facts()
        .having("hosts", float(hosts), "given")
        .having("nic_rate", rate * GB / 8, "given")
        .having("nics", 1.0, "given")
    )
    return World(
        "one slow NIC", [Results(Run(tool="world"), tuple(found))], "slow nic", frozenset(), facts, f"mlx5_{slow} "
    )


def slow_link(rng: random.Random) -> World:
    """The port of one rank is slow, and rows have no samples."""
    machine = base(rng)
    machine = replace(machine, slow_link=machine.port * rng.uniform(0.2, 0.5))
    return _world("one slow link", machine, rng, "slow member")


def slow_nic_unseen(rng: random.Random) -> World:
    """One slow NIC among several that are used together: all wait for it."""
    nics, hosts, noise = rng.choice((4, 8)), rng.choice((2, 3, 4)), rng.uniform(0.005, 0.04)
    rate, by, n = rng.choice((100, 200, 400)), rng.uniform(0.3, 0.65), 8 * hosts
    busbw = 0.95 * nics * rate * GB / 8 * by
    found = []
    for line, size in enumerate(grid(rng, 2), start=2):
        time_s = (rng.uniform(40, 60) * US + size * 2 * (n - 1) / n / busbw) * rng.lognormvariate(0, noise)
        found.append(Measurement(Call("all_reduce", size, n), time_s, source=Source("all.log", line), origin="read"))
    facts = (
        Facts()
        .having("hosts", float(hosts), "given")
        .having("nic_rate", rate * GB / 8, "given")
        .having("nics", float(nics), "given")
    )
    facts = facts.having("gdr", True, "given").having("acs", False, "given")
    return World(
        "one slow NIC, not seen alone",
        [Results(Run(tool="world"), tuple(found))],
        "network",
        frozenset({"low", "slow nic"}),
        facts,
    )


def protocol_switch(rng: random.Random) -> World:
    """From some size on another protocol: later than it should, or earlier."""
    machine = replace(base(rng), overlap=False, noise=rng.uniform(0.005, 0.03))
    low_rate, low_launch = rng.uniform(0.25, 0.5), rng.uniform(0.3, 0.6)
    launch = machine.launch_s + 14 * machine.alpha_s
    crossing = launch * (1 - low_launch) / (1.75 / machine.port * (1 / low_rate - 1))
    at = crossing * rng.choice((rng.uniform(0.15, 0.3), rng.uniform(4, 12)))
    at = min(max(at, 32 * 1024), 2**26)
    machine = replace(machine, switch_at=int(at), low_rate=low_rate, low_launch=low_launch)
    return _world("a protocol switch", machine, rng, "switch", 2)


def drop(rng: random.Random) -> World:
    """Half of the bandwidth from some large size on."""
    machine = replace(base(rng), drop_at=rng.choice((2**26, 2**27, 2**28)), noise=rng.uniform(0.005, 0.04))
    return _world("a drop at large sizes", machine, rng, "drop", 2, frozenset({"switch"}))


def plain_noise(rng: random.Random) -> World:
    """Nothing is the matter but the noise."""
    return _world("plain noise", replace(base(rng), noise=rng.uniform(0.06, 0.15)), rng, "")


WORLDS: tuple[Callable[[random.Random], World], ...] = (
    full_duplex,
    redirected_pairs,
    socket_bound,
    launch_bound,
    linear_alpha,
    slow_rank,
    slow_nic,
    slow_nic_unseen,
    slow_link,
    protocol_switch,
    drop,
    plain_noise,
)


def worlds(seed: int, count: int) -> Iterator[World]:
    """`count` of each, reproducibly."""
    for make in WORLDS:
        rng = random.Random(f"{seed} {make.__name__}")
        for _ in range(count):
            yield make(rng)
