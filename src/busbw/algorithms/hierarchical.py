"""hierarchical: rings inside each host, then across hosts between ranks of the same place, then inside again.

As BlueConnect (Cho et al. 2019) and NCCL's rails do: of 2(N-1)/N S that each rank sends only 2(H-1)/N S leave the host, H
hosts, and all NICs of a host carry a part. Broadcast and reduce are binomial trees, first between hosts, then inside;
all-to-all hands the blocks to the rank of the target's place first, which sends them across (NCCL's PXN).
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._grid import Grid
from busbw.algorithms._patterns import constant, joined, once, whole_number
from busbw.algorithms.tree import edges
from busbw.core.schedule import Algorithm, Ints, Phase, Round, Schedule, no_slots
from busbw.errors import UsageError

MOST_HOSTS = 512
"""All-to-all has a phase for each step between hosts, so there are no more of them."""


def _hosts(world_size: int, ranks_per_host: int | None) -> tuple[int, int]:
    """Hosts, and ranks on each; by default 8, or the largest number below that divides N."""
    if ranks_per_host is None:
        local = max(m for m in range(1, 9) if world_size % m == 0)
    else:
        local = whole_number("ranks_per_host", ranks_per_host)
    if world_size % local:
        raise UsageError(f"ranks_per_host={local}: must divide the {world_size} ranks")
    return world_size // local, local


def _schedule(
    collective: str, hosts: int, local: int, chunks: int, phases: tuple[Phase, ...], *, root: int = 0, slots: int = 0
) -> Schedule:
    options = {"ranks_per_host": local}
    return Schedule("hierarchical", collective, hosts * local, chunks, phases, root=root, slots=slots, options=options)


def all_reduce(world_size: int, *, root: int = 0, ranks_per_host: int | None = None) -> Schedule:
    """Reduce-scatter inside, all-reduce across, all-gather inside."""
    hosts, local = _hosts(world_size, ranks_per_host)
    return _schedule("all_reduce", hosts, local, world_size, Grid(hosts, local).all_reduce())


def reduce_scatter(world_size: int, *, root: int = 0, ranks_per_host: int | None = None) -> Schedule:
    """Inside, then across."""
    hosts, local = _hosts(world_size, ranks_per_host)
    return _schedule("reduce_scatter", hosts, local, world_size, Grid(hosts, local).reduce_scatter())


def all_gather(world_size: int, *, root: int = 0, ranks_per_host: int | None = None) -> Schedule:
    """Across, then inside."""
    hosts, local = _hosts(world_size, ranks_per_host)
    return _schedule("all_gather", hosts, local, world_size, Grid(hosts, local).all_gather())


def _levels(hosts: int, local: int, root: int) -> list[tuple[Ints, Ints, str]]:
    """Edges of the tree from the root down: between hosts, among ranks of the root's place, then inside each host."""
    host, place = divmod(root, local)
    levels = []
    for parent, child, _ in edges(hosts):
        levels.append(((parent + host) % hosts * local + place, (child + host) % hosts * local + place, "across hosts"))
    first = np.arange(hosts)[:, None] * local
    for parent, child, _ in edges(local):
        ends = [(first + (end + place) % local).ravel() for end in (parent, child)]
        levels.append((ends[0], ends[1], "inside hosts"))
    return levels


def broadcast(world_size: int, *, root: int = 0, ranks_per_host: int | None = None) -> Schedule:
    """One copy to each host, then inside."""
    hosts, local = _hosts(world_size, ranks_per_host)
    phases = tuple(
        once(parent, child, constant(0, parent), label=label) for parent, child, label in _levels(hosts, local, root)
    )
    return _schedule("broadcast", hosts, local, 1, phases, root=root)


def reduce(world_size: int, *, root: int = 0, ranks_per_host: int | None = None) -> Schedule:
    """Inside, then one sum from each host."""
    hosts, local = _hosts(world_size, ranks_per_host)
    phases = tuple(
        once(child, parent, constant(0, parent), reduces=True, label=label)
        for parent, child, label in reversed(_levels(hosts, local, root))
    )
    return _schedule("reduce", hosts, local, 1, phases, root=root)


def all_to_all(world_size: int, *, root: int = 0, ranks_per_host: int | None = None) -> Schedule:
    """Inside to the rank of the target's place, then across; blocks wait in scratch slots 2N + target host x local + source place."""
    hosts, local = _hosts(world_size, ranks_per_host)
    if hosts > MOST_HOSTS:
        raise UsageError(
            f"hierarchical all_to_all on {hosts} hosts: at most {MOST_HOSTS}; raise ranks_per_host, or use pairwise"
        )
    phases = [_inside(hosts, local, shift) for shift in range(1, local)] or []
    phases += [_across(hosts, local, shift) for shift in range(1, hosts)]
    phases[0] = _with_own(phases[0], hosts, local)
    return _schedule("all_to_all", hosts, local, world_size, tuple(phases), slots=3 * world_size)


def _inside(hosts: int, local: int, shift: int) -> Phase:
    """Each rank gives the rank `shift` places further, on its host, all blocks for that place on any host."""
    n = hosts * local
    ranks = np.arange(n)
    target = ranks // local * local + (ranks + shift) % local

    def detail(repetition: int) -> Round:
        source, to = np.repeat(ranks, hosts), np.repeat(target, hosts)
        host = np.tile(np.arange(hosts), n)
        stays = host == source // local
        slot = np.where(stays, n + source, 2 * n + host * local + source % local)
        return Round(source, to, host * local + to % local, slot, constant(1, slot), np.zeros(len(slot), np.bool_))

    return Phase(ranks, target, constant(hosts, ranks), False, no_slots, label="inside hosts", detail=detail)


def _across(hosts: int, local: int, shift: int) -> Phase:
    """Each rank sends the host `shift` further, to the rank of its own place, all blocks for it that its host has."""
    n = hosts * local
    ranks = np.arange(n)
    target = (ranks + shift * local) % n

    def detail(repetition: int) -> Round:
        source, to = np.repeat(ranks, local), np.repeat(target, local)
        place = np.tile(np.arange(local), n)
        own = place == source % local
        slot = np.where(own, to, 2 * n + to // local * local + place)
        return Round(
            source, to, slot, n + source // local * local + place, constant(1, slot), np.zeros(len(slot), np.bool_)
        )

    return Phase(ranks, target, constant(local, ranks), False, no_slots, label="across hosts", detail=detail)


def _with_own(phase: Phase, hosts: int, local: int) -> Phase:
    """The phase, in which each rank also copies what it keeps."""
    n = hosts * local
    ranks = np.arange(n)

    def detail(repetition: int) -> Round:
        own = Round(ranks, ranks, ranks, n + ranks, constant(1, ranks), np.zeros(n, np.bool_))
        return joined(phase.round(repetition), own)

    return Phase(phase.source, phase.target, phase.length, False, no_slots, label=phase.label, detail=detail)


ALGORITHM = Algorithm(
    name="hierarchical",
    summary="Rings inside each host, then across hosts: 2(H-1)/N S of all-reduce leaves through each rank.",
    source="BlueConnect (Cho et al. 2019); NCCL's rails and PXN",
    builders={
        "all_reduce": all_reduce,
        "reduce_scatter": reduce_scatter,
        "all_gather": all_gather,
        "broadcast": broadcast,
        "reduce": reduce,
        "all_to_all": all_to_all,
    },
    options={
        "ranks_per_host": "ranks on each host, neighbours in number (default: 8, or the next below that divides N)"
    },
)
