"""A call in words: from what was seen of it to a CallKind. Runs once for each kind of call."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.trace import CallKind, Group
from busbw.errors import UsageError
from busbw.traces.live._ops import DTYPE_NAMES, NO_ROOT, Key, Op
from busbw.traces.live._place import site_words


class GroupState:
    """What is known of a process group; `ref` tells whether its id still means it."""

    __slots__ = ("described", "id", "on_gpu", "rank", "ref", "size")

    def __init__(self, group: Any, number: int) -> None:
        self.ref = weakref.ref(group)
        self.id = number
        self.size = int(group.size())
        self.rank = int(group.rank())
        self.described = describe_group(group)
        self.on_gpu = "nccl" in self.described.backend

    def world_rank(self, rank: int) -> int:
        """The world's number of a rank of this group."""
        ranks = self.described.ranks
        return ranks[rank] if rank < len(ranks) else rank


class Place(NamedTuple):
    """Where a call stands in the program: its module, a name that a frame told, its line, its reduction operator."""

    module: Any
    name: str
    code: CodeType | None
    instruction: int
    redop: Any


def sizes_of(op: Op, group: GroupState, key: Key) -> tuple[str, int, int]:
    """(collective, S, bytes that this rank sends) of a call; see `_ops` for what `key` holds."""
    size, _, root, splits = key
    if op.collective == "send_recv_one_way":
        return op.collective, size, size if op.name == "send" else 0
    if splits == "shard":
        size = size * group.size
    elif splits is not None:
        return "all_to_all_v", size, size - (splits[group.rank] if splits else 0)
    return op.collective, size, COLLECTIVES.get(op.collective).sent_bytes(size, group.size, group.rank, max(root, 0))


def describe_call(op: Op, group: GroupState, key: Key, phase: str, place: Place, asynchronous: bool) -> CallKind:
    """The kind of a call on this rank."""
    _, dtype, root, _ = key
    collective, size, sent = sizes_of(op, group, key)
    notes: dict[str, str] = {}
    message = collective == "send_recv_one_way"
    if message:
        notes["peer"] = "any" if root == NO_ROOT else str(group.world_rank(root))
        phase = _pipeline_phase(place.name, op.name, phase)
    data = {
        "collective": collective,
        "size_bytes": size,
        "world_size": 2 if message else group.size,
        "dtype": None if dtype is None else _dtype_name(dtype),
        "redop": _redop_name(place) if op.reduces else None,
        "root": None if root == NO_ROOT or message else root,
    }
    try:
        call = Call.from_json(data)
    except UsageError:  # an element type that has no name here: its bytes count all the same
        notes["dtype"] = str(dtype)
        call = Call.from_json({**data, "dtype": None})
    return CallKind(
        op=op.name,
        call=call,
        group=group.described,
        sent_bytes=sent,
        phase=phase,
        module=place.name,
        call_site=site_words(place.code, place.instruction),
        asynchronous=asynchronous,
        notes=notes,
    )


def goes_on(frame: FrameType | None, name: str, asked: bool) -> bool:
    """Whether the program goes on beside the call. C++ callers ask for it and then wait at once, but for DDP's buckets."""
    file = "" if frame is None else frame.f_code.co_filename
    if file.endswith(("distributed_c10d.py", "_ops.py")):  # Python's functions say it; functional collectives are lazy
        return asked
    return name.startswith("bucket")


def tensors_of(args: Sequence[Any]) -> Iterator[Any]:
    """Every tensor among a call's arguments."""
    for each in args:
        if each.__class__ is list or each.__class__ is tuple:
            yield from tensors_of(each)
        elif hasattr(each, "is_cuda"):
            yield each


def describe_group(group: Any) -> Group:
    """The name, ranks and backend of a process group."""
    import torch.distributed as dist

    try:
        ranks = tuple(dist.get_process_group_ranks(group))
    except (KeyError, ValueError, RuntimeError):  # made without new_group, so torch has no list of its ranks
        ranks = ()
    world = dist.get_world_size() if dist.is_initialized() else 0
    about = str(getattr(group, "group_desc", "") or "")
    if len(ranks) == world or (not ranks and int(group.size()) == world):
        name = "world"
    elif about.startswith("mesh_"):
        name = about.removeprefix("mesh_")
    else:
        name = f"ranks {','.join(map(str, ranks))}" if ranks else f"group {group.group_name} of {group.size()}"
    try:
        backend = str(dist.get_backend(group))
    except (ValueError, RuntimeError, KeyError):
        backend = ""
    return Group(name, ranks, backend)


def _dtype_name(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    return DTYPE_NAMES.get(name, name)


def _redop_name(place: Place) -> str | None:
    """`sum` of ReduceOp.SUM, RedOpType.SUM or "sum"; None for what is not known. DDP's reducer always sums."""
    redop = place.redop
    if redop is None:
        return "sum" if place.name.startswith(("bucket", "used")) else None
    word = str(redop.name if hasattr(redop, "name") else redop).rpartition(".")[2].lower()
    return {"product": "prod"}.get(word, word)


def _pipeline_phase(name: str, op: str, phase: str) -> str:
    """torch's schedules say "fwd_send_bwd_recv" of a batch: the send is forward's, the receive backward's."""
    way = "send" if op == "send" else "recv"
    if f"fwd_{way}" in name:
        return "forward"
    return "backward" if f"bwd_{way}" in name else phase
