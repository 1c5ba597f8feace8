"""simulate(): a schedule on a machine -> Predictions, by the rung that its size allows."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from busbw.algorithms.spec import Spec, parse_algorithm
from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES, find_collective
from busbw.core.dtype import DTYPES
from busbw.core.measurement import Measurement
from busbw.core.schedule import Algorithm, Schedule
from busbw.core.topology import Topology
from busbw.core.verify import MOST_WORK, verify
from busbw.core.verify import work as cost_of_verifying
from busbw.errors import UsageError
from busbw.sim.prediction import Prediction
from busbw.sim.steps import Steps
from busbw.sim.wires import Wires

DEFAULT_DTYPE = "float32"
FINE = 100
"""Chunks of a pipeline for each step in which it fills, by default: filling takes 1 %."""
MOST_OVER_HOSTS = 16_384
"""Ranks up to which the default has a ring for each rank of a host."""
FEW_MESSAGES = 20_000
"""Schedules of unequal steps with so many messages, or fewer, are simulated by their dependencies unasked."""

_verified: WeakSet[Schedule] = WeakSet()


def simulate(
    work: Schedule | Algorithm | Spec | str,
    topology: Topology,
    sizes: Sequence[int],
    op: str = "all_reduce",
    *,
    world_size: int | None = None,
    root: int = 0,
    dtype: str = DEFAULT_DTYPE,
    exact: bool = False,
    pieces: int = 1,
) -> tuple[Prediction, ...]:
    """Predict a collective on a machine, one Prediction a size (`.measurement` is a row as `bench` takes it).

    `work` is a schedule, or an algorithm that makes one (its name, with options: `ring(order=0-2-1-3)`); `op` and `root`
    are then those of the call. The first `world_size` ranks of the machine take part, all by default. `exact` forces
    the finest rung, in which `pieces` cuts each message into so many that follow each other. Raises UsageError where
    the algorithm can't do this, the machine does not suit it, or a schedule (of up to `verify.MOST_WORK`) is wrong.
    """
    schedule, name = _schedule(work, topology, op, world_size, root)
    machine = topology.with_ranks(schedule.world_size)
    calls = [_call(schedule, size, dtype) for size in sizes]
    if pieces < 1:
        raise UsageError(f"pieces {pieces}: must be at least 1")
    if exact or pieces > 1:
        from busbw.sim.fluid import Fluid

        fluid = Fluid(schedule, machine, pieces)
        return tuple(fluid.predict(call, name) for call in calls)
    steps = Steps(schedule, machine, Wires(machine))
    found = tuple(steps.predict(calls, name))
    if (any(each.rung == "max-min" for each in found) or _is_pipelined(schedule)) and _is_small(schedule):
        from busbw.sim.fluid import Fluid

        fluid = Fluid(schedule, machine)
        return tuple(fluid.predict(call, name) for call in calls)
    return found


def default_algorithm(op: str, world_size: int, topology: Topology | None = None) -> str:
    """What NCCL does by and large: rings, and grouped sends and receives for scatter, gather and all-to-all.

    On a machine of several hosts, rings are as many as a host has ranks (8 at most), and cross by another rank each.
    """
    collective = find_collective(op).name
    if collective in ("scatter", "gather"):
        return "direct"
    if collective == "all_to_all":
        return "direct" if world_size <= 256 else "pairwise"
    chunks = f"chunks={FINE * (world_size - 2)}" if collective in ("broadcast", "reduce") and world_size > 2 else ""
    local = 1 if topology is None else _ranks_per_host(topology, world_size)
    if local > 1 and world_size <= MOST_OVER_HOSTS:
        options = [f"channels={min(local, 8)}", *([chunks] if chunks else []), f"ranks_per_host={local}"]
        return f"multi_ring({','.join(options)})"
    return f"ring({chunks})" if chunks else "ring"


def _ranks_per_host(topology: Topology, world_size: int) -> int:
    """Ranks of each host, where there are several hosts that have as many each, in order; 1 otherwise."""
    host = topology.device_host[topology.ranks[:world_size]]
    local = int((host == host[0]).sum())
    if local == world_size or world_size % local or (host < 0).any():
        return 1
    blocks = host.reshape(-1, local)
    alike = (blocks == blocks[:, :1]).all() and len(set(blocks[:, 0].tolist())) == len(blocks)
    return local if alike else 1


def algorithm_of(row: Measurement) -> str:
    """What carried a row out: the schedule that was executed, the algorithm that was simulated; "" for the library's own."""
    executed = row.labels.get("schedule", "")
    if executed and executed != "own":
        return executed
    return row.labels.get("algorithm", "") if row.origin == "simulated" else ""


def _schedule(
    work: Schedule | Algorithm | Spec | str, topology: Topology, op: str, world_size: int | None, root: int
) -> tuple[Schedule, str]:
    if isinstance(work, Schedule):
        if world_size is not None and world_size != work.world_size:
            raise UsageError(f"the schedule is for {work.world_size} ranks, not {world_size}")
        if work not in _verified and cost_of_verifying(work) <= MOST_WORK:
            verify(work)
            _verified.add(work)
        return work, work.algorithm
    spec = parse_algorithm(work) if isinstance(work, str) else work if isinstance(work, Spec) else Spec(work)
    collective = find_collective(op).name
    n = topology.world_size if world_size is None else world_size
    topology.with_ranks(n)  # says so where they do not fit
    return spec.build(collective, n, root), spec.text


def _call(schedule: Schedule, size_bytes: int, dtype: str) -> Call:
    """The call whose tensor can be cut as the collective needs, as `bench` rounds it."""
    if size_bytes < 1:
        raise UsageError(f"size {size_bytes} B: must be at least 1 B")
    kind = COLLECTIVES.get(schedule.collective)
    itemsize = DTYPES[dtype].itemsize
    count = kind.whole_count(size_bytes, itemsize, schedule.world_size)
    return Call(
        schedule.collective,
        count * itemsize,
        schedule.world_size,
        dtype=dtype,
        redop="sum" if kind.reduces else None,
        root=schedule.root if kind.rooted else None,
    )


def _is_pipelined(schedule: Schedule) -> bool:
    """Whether some transfers begin later, or end sooner, than others: then a barrier after each step costs time."""
    parts = [part for _, part in schedule.parts] or [schedule]
    return any(phase.begin is not None or phase.end is not None for part in parts for phase in part.phases)


def _is_small(schedule: Schedule) -> bool:
    from busbw.sim.dependencies import message_count

    return message_count(schedule) <= FEW_MESSAGES
