"""nvls: the switch adds up and multicasts, so that a rank sends about S and receives about S for an all-reduce.

As NCCL's NVLS does with NVLink SHARP: the switch reads a chunk from every rank, adds it up and gives the sum to the
rank that owns the chunk, which writes it back once for all: S + S/N each way. `shots=1` sends the sum to all at once, as SHARP
does in a network's switches: S each way. Strips follow each other, so the two directions overlap. It needs a switch that
reduces: it can be simulated and drawn, and not run as point-to-point calls.
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._patterns import constant, once, whole_number
from busbw.core.schedule import NETWORK, Algorithm, Ints, Phase, Schedule

STRIPS = 8

_Hop = tuple[Ints, Ints, Ints, int, bool]
"""Sources, targets, first slots inside a strip, slots, whether it is added up."""


def _pipeline(hops: list[_Hop], strips: int, strip_slots: int, label: str) -> Phase:
    """Hop k of a strip follows hop k-1 of it; strip t starts in step t."""
    source, target, slot, length, begin, reduces = (
        np.concatenate(column)
        for column in zip(
            *(
                (s, t, first, constant(count, s), constant(k, s), np.full(len(s), adds))
                for k, (s, t, first, count, adds) in enumerate(hops)
            ),
            strict=True,
        )
    )

    def slots(step: int) -> tuple[Ints, Ints]:
        where = slot + (step - begin) * strip_slots
        return where, where

    return Phase(
        source,
        target,
        length,
        reduces,
        slots,
        times=strips + len(hops) - 1,
        label=label,
        begin=begin,
        end=begin + strips,
    )


def all_reduce(world_size: int, *, root: int = 0, shots: int = 2, chunks: int = STRIPS) -> Schedule:
    """Up and added; down to the owner; up again; down to all. With one shot: up and added, down to all."""
    strips = whole_number("chunks", chunks)
    ranks = np.arange(world_size)
    switch, zero = constant(NETWORK, ranks), constant(0, ranks)
    if whole_number("shots", shots, 1, 2) == 1:
        hops: list[_Hop] = [(ranks, switch, zero, 1, True), (switch, ranks, zero, 1, False)]
        inside = 1
    else:
        hops = [
            (ranks, switch, zero, world_size, True),
            (switch, ranks, ranks, 1, False),
            (ranks, switch, ranks, 1, False),
            (switch, ranks, zero, world_size, False),
        ]
        inside = world_size
    phase = _pipeline(hops, strips, inside, "in the switch")
    return Schedule(
        "nvls", "all_reduce", world_size, strips * inside, (phase,), options={"shots": shots, "chunks": strips}
    )


def reduce_scatter(world_size: int, *, root: int = 0) -> Schedule:
    """Up and added; each shard's sum down to its rank."""
    ranks = np.arange(world_size)
    switch, zero = constant(NETWORK, ranks), constant(0, ranks)
    phases = (
        once(ranks, switch, zero, constant(world_size, ranks), reduces=True, label="into the switch"),
        once(switch, ranks, ranks, label="out of the switch"),
    )
    return Schedule("nvls", "reduce_scatter", world_size, world_size, phases)


def all_gather(world_size: int, *, root: int = 0) -> Schedule:
    """Each shard up once; all of them down to everyone."""
    ranks = np.arange(world_size)
    switch, zero = constant(NETWORK, ranks), constant(0, ranks)
    phases = (
        once(ranks, switch, ranks, label="into the switch"),
        once(switch, ranks, zero, constant(world_size, ranks), label="out of the switch"),
    )
    return Schedule("nvls", "all_gather", world_size, world_size, phases)


def _rooted(collective: str, world_size: int, root: int, chunks: int) -> Schedule:
    strips = whole_number("chunks", chunks)
    everyone, top = np.arange(world_size), np.array([root])
    inward, outward = (everyone, top) if collective == "reduce" else (top, np.delete(everyone, root))
    hops: list[_Hop] = [
        (inward, constant(NETWORK, inward), constant(0, inward), 1, collective == "reduce"),
        (constant(NETWORK, outward), outward, constant(0, outward), 1, False),
    ]
    phase = _pipeline(hops, strips, 1, collective)
    return Schedule("nvls", collective, world_size, strips, (phase,), root=root, options={"chunks": strips})


def broadcast(world_size: int, *, root: int = 0, chunks: int = STRIPS) -> Schedule:
    """Up from the root; down to all others."""
    return _rooted("broadcast", world_size, root, chunks)


def reduce(world_size: int, *, root: int = 0, chunks: int = STRIPS) -> Schedule:
    """Up from everyone and added; down to the root."""
    return _rooted("reduce", world_size, root, chunks)


ALGORITHM = Algorithm(
    name="nvls",
    summary="The switch adds up and multicasts: about S out of each rank and S into it. Simulated and drawn only.",
    source="NCCL's NVLS; SHARP (Graham et al. 2016)",
    builders={
        "all_reduce": all_reduce,
        "reduce_scatter": reduce_scatter,
        "all_gather": all_gather,
        "broadcast": broadcast,
        "reduce": reduce,
    },
    options={
        "shots": "all-reduce: 2, through the chunk's owner, as NVLS; 1, to all at once, as SHARP (default: 2)",
        "chunks": "pieces that follow each other (default: 8)",
    },
)
