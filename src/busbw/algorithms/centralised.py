"""centralised: everything to one rank, which sends the result back: what the ring is better than.

The centre receives (N-1) S and sends (N-1) S for an all-reduce. What a parameter server does, in two rounds.
"""

from __future__ import annotations

from busbw.algorithms._patterns import constant, once, whole_number
from busbw.algorithms.direct import at_root
from busbw.core.schedule import Algorithm, Phase, Schedule


def _centre(world_size: int, centre: int) -> int:
    return whole_number("centre", centre, 0, world_size - 1)


def all_reduce(world_size: int, *, root: int = 0, centre: int = 0) -> Schedule:
    """Reduce to the centre, then broadcast from it."""
    middle = _centre(world_size, centre)
    phases = (at_root("reduce", world_size, middle)[1], at_root("broadcast", world_size, middle)[1])
    return Schedule("centralised", "all_reduce", world_size, 1, phases, options=_options(centre))


def reduce_scatter(world_size: int, *, root: int = 0, centre: int = 0) -> Schedule:
    """Reduce to the centre, then scatter from it."""
    middle = _centre(world_size, centre)
    phases = (_whole(at_root("reduce", world_size, middle)[1], world_size), at_root("scatter", world_size, middle)[1])
    return Schedule("centralised", "reduce_scatter", world_size, world_size, phases, options=_options(centre))


def all_gather(world_size: int, *, root: int = 0, centre: int = 0) -> Schedule:
    """Gather at the centre, then broadcast from it."""
    middle = _centre(world_size, centre)
    phases = (at_root("gather", world_size, middle)[1], _whole(at_root("broadcast", world_size, middle)[1], world_size))
    return Schedule("centralised", "all_gather", world_size, world_size, phases, options=_options(centre))


def _whole(phase: Phase, slots: int) -> Phase:
    """The same transfers of the whole tensor, which is `slots` slots here."""
    zero = constant(0, phase.source)
    return once(phase.source, phase.target, zero, constant(slots, zero), reduces=phase.reduces, label=phase.label)


def _options(centre: int) -> dict[str, int]:
    return {"centre": centre} if centre else {}


ALGORITHM = Algorithm(
    name="centralised",
    summary="Everything to one rank, which sends the result back: its port carries (N-1) S each way.",
    source="the post; a parameter server (Li et al. 2014)",
    builders={"all_reduce": all_reduce, "reduce_scatter": reduce_scatter, "all_gather": all_gather},
    options={"centre": "the rank in the middle (default: 0)"},
)
