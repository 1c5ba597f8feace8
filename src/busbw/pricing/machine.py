"""Seconds from a machine: each call is simulated on a topology, calibrated or a preset, between the ranks that make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from busbw.core.bill import Line
from busbw.core.call import Call
from busbw.core.cost_model import Estimate
from busbw.core.schedule import Schedule
from busbw.core.topology import BASES, Topology
from busbw.errors import UsageError
from busbw.pricing.links import MESSAGES, ranks_of

PIPELINED = ("broadcast", "reduce")
MOST_PIPELINED = 128
"""Ranks up to which every size of a pipeline is simulated."""
ENDS = (2**16, 2**26)
NOTHING = Estimate(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class OnMachine:
    """Prices a call by simulating it, as NCCL carries it out by and large. Rank k of the job is rank k of the machine.

    A simulation has no interval: `low` and `high` are `seconds`. Its latency is launch and hops, its bandwidth the rest.
    """

    machine: Topology
    group: tuple[int, ...] = ()
    """The ranks of a call that does not say them; empty: the first ones of the machine."""
    _found: dict[tuple[Call, tuple[int, ...]], Estimate] = field(default_factory=dict, repr=False)
    _schedules: dict[tuple[str, tuple[int, ...], int], tuple[Schedule, Topology]] = field(
        default_factory=dict, repr=False
    )

    _lines: dict[tuple[str, tuple[int, ...], int], tuple[float, float]] = field(default_factory=dict, repr=False)

    def estimate(self, call: Call) -> Estimate:
        """Seconds of a call of `group`, or of the machine's first ranks; UsageError where the machine has too few."""
        n = call.world_size
        return self._on(call, self.group if len(self.group) == n else tuple(range(n)))

    def of_line(self, line: Line) -> Estimate:
        """Seconds of one call of a line, between its ranks; of a message, between its two."""
        ranks = ranks_of(line)
        if line.call.collective in MESSAGES and len(set(ranks)) == 2:
            return self._on(line.call, ranks)
        if len(line.group_ranks) != line.call.world_size:
            return self.estimate(line.call)
        return self._on(line.call, line.group_ranks)

    def of_group(self, ranks: Sequence[int]) -> OnMachine:
        """The same machine for calls between these ranks, which do not say so themselves."""
        return replace(self, group=tuple(ranks))

    @property
    def words(self) -> str:
        """The machine, and what its speeds rest on."""
        bases = [BASES[int(each)] for each in self.machine.link_basis]
        counts = ", ".join(f"{bases.count(basis)} {basis}" for basis in BASES if basis in bases)
        return f"simulated on {self.machine.name}" + (f" (speeds of its links: {counts})" if counts else "")

    def _on(self, call: Call, ranks: tuple[int, ...]) -> Estimate:
        if call.world_size < 2 or len(ranks) < 2:
            return NOTHING
        found = self._found.get((call, ranks))
        if found is None:
            found = self._found[call, ranks] = self._simulated(call, ranks)
        return found

    def _simulated(self, call: Call, ranks: tuple[int, ...]) -> Estimate:
        from busbw.sim import simulate

        op, size_bytes, members, reasons = _as_simulated(call, ranks)
        schedule, part = self._schedule(op, members, call.root or 0)
        if op in PIPELINED and len(members) > MOST_PIPELINED:
            return self._line(call, op, members, size_bytes)
        (found,) = simulate(schedule, part, [max(1, size_bytes)], dtype=call.dtype or "uint8")
        latency = found.times_s["launch"] + found.times_s["latency"]
        reasons = (*reasons, *found.notes)
        return Estimate(found.time_s, found.time_s, found.time_s, latency, found.time_s - latency, reasons)

    def _line(self, call: Call, op: str, members: tuple[int, ...], size_bytes: int) -> Estimate:
        """A long pipeline, each size of which takes seconds to simulate: the line through two sizes, which it keeps to."""
        from busbw.sim import simulate

        key = (op, members, call.root or 0)
        if key not in self._lines:
            schedule, part = self._schedule(*key)
            few, many = (found.time_s for found in simulate(schedule, part, ENDS))
            slope = (many - few) / (ENDS[1] - ENDS[0])
            self._lines[key] = few - slope * ENDS[0], slope
        latency, slope = self._lines[key]
        seconds = latency + slope * size_bytes
        reason = f"{op} on {len(members)} ranks: a straight line through two simulated sizes"
        return Estimate(seconds, seconds, seconds, latency, seconds - latency, (reason,))

    def _schedule(self, op: str, ranks: tuple[int, ...], root: int) -> tuple[Schedule, Topology]:
        key = (op, ranks, root)
        if key not in self._schedules:
            from busbw.algorithms.spec import parse_algorithm
            from busbw.sim import default_algorithm

            most = max(ranks)
            if most >= self.machine.world_size:
                raise UsageError(
                    f"profile {self.machine.name}: it has {self.machine.world_size} GPUs, and the call is on rank {most}; "
                    "describe a machine that has as many GPUs as the job has ranks"
                )
            part = replace(self.machine, ranks=self.machine.ranks[list(ranks)])
            spec = parse_algorithm(default_algorithm(op, len(ranks), part))
            self._schedules[key] = spec.build(op, len(ranks), root), part
        return self._schedules[key]


def _as_simulated(call: Call, ranks: tuple[int, ...]) -> tuple[str, int, tuple[int, ...], tuple[str, ...]]:
    """The collective that is simulated, its S, its ranks, and what that leaves out."""
    if call.collective == "send_recv_one_way":
        return "broadcast", call.size_bytes, ranks[:2], ()
    if call.collective == "send_recv":  # each sends S to the other
        pair = "priced between two of its ranks" if len(ranks) > 2 else ""
        return "all_gather", 2 * call.size_bytes, ranks[:2], ((f"send_recv: {pair}",) if pair else ())
    if call.collective == "all_to_all_v":
        return "all_to_all", call.size_bytes, ranks, ("all_to_all_v: priced as all_to_all of the same S",)
    if call.collective == "barrier":
        return "all_reduce", 1, ranks, ("barrier: priced as the smallest all_reduce",)
    return call.collective, call.size_bytes, ranks, ()


def is_preset(text: str) -> bool:
    """Whether a text is a machine's expression: `dgx-h100`, `cluster(hosts=2, host=dgx-h100)`."""
    from busbw.topologies import find_preset
    from busbw.topologies.spec import EXPRESSION

    match = EXPRESSION.fullmatch(text)
    if match is None:
        return False
    try:
        find_preset(match[1])
    except UsageError:
        return False
    return True


def read_machine(text: str) -> OnMachine:
    """The machine of a file or of a preset; FileError or UsageError in one line."""
    from busbw.topologies import read_topology

    return OnMachine(read_topology(text))
