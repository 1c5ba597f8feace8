"""A Schedule as MSCCL's XML: on each GPU one thread block for each peer, direction and channel, and one for copies inside."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from busbw.core.collective import COLLECTIVES
from busbw.core.schedule import NETWORK, Round, Schedule
from busbw.core.verify import collective_of
from busbw.errors import UsageError

_NAMES = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "all_to_all": "alltoall",
}
_IN_OUTPUT = ("all_gather", "broadcast", "gather")
"""In place these lie in the output buffer; the others in the input buffer."""


@dataclass(slots=True)
class _Step:
    kind: str
    source: int
    target: int
    length: int
    waits: list[tuple[int, int]] = field(default_factory=list)
    """(thread block, step) in other blocks."""
    is_waited_for: bool = False


class _Gpu:
    """The thread blocks of one GPU as they fill, and who touched which slot last."""

    def __init__(self) -> None:
        self.blocks: dict[tuple[str, int, int], int] = {}
        self.steps: list[list[_Step]] = []
        self.writer: dict[int, tuple[int, int]] = {}
        self.readers: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def put(self, key: tuple[str, int, int], step: _Step, reads: range, writes: range) -> None:
        """Append a step to the thread block of `key`, after all that touched its slots."""
        block = self.blocks.setdefault(key, len(self.steps))
        if block == len(self.steps):
            self.steps.append([])
        needs = [self.writer[slot] for slot in (*reads, *writes) if slot in self.writer]
        needs += [reader for slot in writes for reader in self.readers[slot]]
        latest: dict[int, int] = {}
        for other, number in needs:
            if other != block:
                latest[other] = max(number, latest.get(other, -1))
        waits = sorted(latest.items())
        for wait in waits[:-1]:
            self.steps[block].append(_Step("nop", 0, 0, 1, [wait]))
        step.waits = waits[-1:]
        self.steps[block].append(step)
        for other, number in waits:
            self.steps[other][number].is_waited_for = True
        here = (block, len(self.steps[block]) - 1)
        for slot in reads:
            self.readers[slot].append(here)
        for slot in writes:
            self.writer[slot] = here
            self.readers[slot] = []


def write(schedule: Schedule, name: str = "") -> str:
    """The schedule as a program in MSCCL's XML, in place (all_to_all: out of place).

    UsageError where it cannot be said so: reduction in the switch, channels of unlike shares, or copies inside a rank
    that read what another one of the round overwrites.
    """
    kind = collective_of(schedule) if not schedule.parts else COLLECTIVES.get(schedule.collective)
    channels = _channels(schedule)
    chunks = len(channels) * channels[0].chunks
    gpus = [_Gpu() for _ in range(schedule.world_size)]
    rounds = [channel.rounds() for channel in channels]
    for index in range(schedule.round_count):
        for channel, of_channel in enumerate(rounds):
            round_ = next(of_channel, None)
            if round_ is not None:
                _round(gpus, schedule, round_, index, channel, len(channels))
    root = ET.Element(
        "algo",
        name=name or schedule.algorithm,
        proto="Simple",
        nchannels=str(len(channels)),
        nchunksperloop=str(chunks),
        ngpus=str(schedule.world_size),
        coll=_NAMES.get(kind.name, kind.name),
        inplace="0" if kind.name == "all_to_all" else "1",
        outofplace="1" if kind.name == "all_to_all" else "0",
        minBytes="0",
        maxBytes="0",
    )
    if kind.rooted:
        root.set("root", str(schedule.root))
    for rank, gpu in enumerate(gpus):
        _write_gpu(root, rank, gpu, schedule, chunks)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _channels(schedule: Schedule) -> list[Schedule]:
    if not schedule.parts:
        return [schedule]
    shares = {share for share, _ in schedule.parts}
    chunks = {part.chunks for _, part in schedule.parts}
    extra = any(part.slot_count > part.chunks for _, part in schedule.parts)
    if max(shares) - min(shares) > 1e-9 or len(chunks) > 1 or extra:
        raise UsageError(
            f"{schedule.algorithm}: MSCCL's channels are equal parts of the tensor without scratch, and these are not"
        )
    return [part for _, part in schedule.parts]


def _round(gpus: list[_Gpu], schedule: Schedule, round_: Round, index: int, channel: int, channels: int) -> None:
    columns = (getattr(round_, column).tolist() for column in Round.__slots__)
    transfers = [
        (source, target, run, reduces)
        for source, target, source_slot, target_slot, length, reduces in zip(*columns, strict=True)
        for run in _runs(schedule, source_slot, target_slot, length, channel, channels)
    ]
    for source, target, (slot, _, length), _ in transfers:
        if NETWORK in (source, target):
            raise UsageError(f"{schedule.algorithm}: MSCCL has no reduction in the switch")
        if source != target:
            step = _Step("s", slot, slot, length)
            gpus[source].put(("send", target, channel), step, range(slot, slot + length), range(0))
    written: dict[int, set[int]] = defaultdict(set)
    for source, target, (slot, to, length), reduces in transfers:
        if source == target:
            if written[source] & set(range(slot, slot + length)):
                raise UsageError(
                    f"{schedule.algorithm}: round {index + 1}: rank {source} copies slot {slot} inside, which another "
                    "copy of the round overwrites; MSCCL's steps come one after the other"
                )
            written[source] |= set(range(to, to + length))
            reads = range(slot, slot + length)
            step = _Step("re" if reduces else "cpy", slot, to, length)
            gpus[source].put(("inside", -1, channel), step, reads, range(to, to + length))
    for source, target, (_, to, length), reduces in transfers:
        if source != target:
            step = _Step("rrc" if reduces else "r", to, to, length)
            gpus[target].put(("recv", source, channel), step, range(0), range(to, to + length))


def _runs(
    schedule: Schedule, source: int, target: int, length: int, channel: int, channels: int
) -> Iterator[tuple[int, int, int]]:
    """(source slot, target slot, length) in the whole tensor of a channel's run; channels interleave in each shard."""
    if channels == 1:
        yield source, target, length
        return
    chunks = schedule.parts[channel][1].chunks
    per_shard = chunks // (schedule.world_size if COLLECTIVES.get(schedule.collective).sharded else 1)

    def place(slot: int) -> int:
        shard, inside = divmod(slot, per_shard)
        return (shard * channels + channel) * per_shard + inside

    for step in range(length):
        yield place(source + step), place(target + step), 1


def _write_gpu(root: ET.Element, rank: int, gpu: _Gpu, schedule: Schedule, chunks: int) -> None:
    kind = COLLECTIVES.get(schedule.collective)
    shard = chunks // schedule.world_size
    sizes = {"i": chunks, "o": chunks}
    if kind.name in ("all_gather", "gather"):
        sizes["i"] = shard
    if kind.name in ("reduce_scatter", "scatter"):
        sizes["o"] = shard
    two = kind.name == "all_to_all"
    least = 2 * chunks if two else chunks
    scratch = 0 if schedule.parts else schedule.slot_count - least
    element = ET.SubElement(
        root,
        "gpu",
        id=str(rank),
        i_chunks=str(sizes["i"]),
        o_chunks=str(sizes["o"]),
        s_chunks=str(scratch),
    )

    def where(slot: int) -> tuple[str, str]:
        if slot >= least:
            return "s", str(slot - least)
        if two:
            return ("o", str(slot - chunks)) if slot >= chunks else ("i", str(slot))
        return ("o" if kind.name in _IN_OUTPUT else "i"), str(slot)

    for (direction, peer, channel), number in gpu.blocks.items():
        block = ET.SubElement(
            element,
            "tb",
            id=str(number),
            send=str(peer if direction == "send" else -1),
            recv=str(peer if direction == "recv" else -1),
            chan=str(channel),
        )
        for index, step in enumerate(gpu.steps[number]):
            (source_buffer, source), (target_buffer, target) = where(step.source), where(step.target)
            wait = step.waits[0] if step.waits else (-1, -1)
            ET.SubElement(
                block,
                "step",
                s=str(index),
                type=step.kind,
                srcbuf=source_buffer,
                srcoff=source,
                dstbuf=target_buffer,
                dstoff=target,
                cnt=str(step.length),
                depid=str(wait[0]),
                deps=str(wait[1]),
                hasdep=str(int(step.is_waited_for)),
            )
