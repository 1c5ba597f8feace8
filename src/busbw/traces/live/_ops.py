"""Which bytes each c10d operation moves: its arguments -> S, dtype, root, own split.

S follows busbw's convention, the whole logical tensor: what all-gather leaves on each rank, what reduce-scatter takes
from each, what the root of a scatter hands out. Operators are those of torch 2.2 to 2.13
(torch/csrc/distributed/c10d/Ops.cpp); arguments are found by their names in the operator's schema, because later
versions appended some (async_op in 2.8, timeouts in between), and those that equal their default are not passed.

Every reader here runs in the program's own call, so it only reads sizes: `tensor.nbytes` and `tensor.dtype`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Key = tuple[Any, ...]
"""(bytes, torch dtype or None, root or peer or -1, splits): what tells one call of an operator from another."""

NO_ROOT = -1


@dataclass(frozen=True, slots=True)
class Op:
    """One operator of c10d: the collective that it is, and how its arguments are read.

    `read(arguments by position, group size, position of each name)` -> Key.
    """

    name: str
    collective: str
    read: Callable[[Sequence[Any], dict[str, int]], Key]
    reduces: bool = False


def total(tensors: Any) -> int:
    """Bytes of one tensor, or of all in a list (of lists)."""
    if isinstance(tensors, list | tuple):
        if len(tensors) == 1:
            return total(tensors[0])
        return sum(total(tensor) for tensor in tensors)
    try:
        size = tensors.nbytes
    except (RuntimeError, NotImplementedError, AttributeError):  # sparse: what travels are its values and its indices
        values, indices = tensors._values(), tensors._indices()
        return int(values.numel() * values.element_size() + indices.numel() * indices.element_size())
    return size if size.__class__ is int else int(size)


def dtype_of(tensors: Any) -> Any:
    """The element type of one tensor or of all in a list; None when they differ or there is none."""
    while isinstance(tensors, list | tuple):
        if not tensors:
            return None
        if len(tensors) > 1 and not isinstance(tensors[0], list | tuple):
            first = tensors[0].dtype
            return first if all(tensor.dtype == first for tensor in tensors) else None
        tensors = tensors[0]
    return tensors.dtype


def _whole(argument: str) -> Callable[[Sequence[Any], dict[str, int]], Key]:
    """S is the bytes of this argument."""

    def read(args: Sequence[Any], at: dict[str, int]) -> Key:
        tensors = args[at[argument]]
        return (total(tensors), dtype_of(tensors), NO_ROOT, None)

    return read


def _lists(argument: str) -> Callable[[Sequence[Any], dict[str, int]], Key]:
    """S is the bytes of all tensors in a list of lists (allgather_coalesced_: [rank][tensor])."""
    return _whole(argument)


def _first_list(argument: str) -> Callable[[Sequence[Any], dict[str, int]], Key]:
    """S is the bytes of the first list: the others are of further devices of one process, which nobody uses."""

    def read(args: Sequence[Any], at: dict[str, int]) -> Key:
        tensors = args[at[argument]][0]
        return (total(tensors), dtype_of(tensors), NO_ROOT, None)

    return read


def _rooted(argument: str, root: str = "root_rank") -> Callable[[Sequence[Any], dict[str, int]], Key]:
    def read(args: Sequence[Any], at: dict[str, int]) -> Key:
        tensors = args[at[argument]]
        return (total(tensors), dtype_of(tensors), args[at[root]], None)

    return read


def _shards(whole: str, shard: str) -> Callable[[Sequence[Any], dict[str, int]], Key]:
    """Only the root holds the list of all shards; on the others S is known from their own: "shard" times N."""

    def read(args: Sequence[Any], at: dict[str, int]) -> Key:
        lists, own = args[at[whole]], args[at[shard]]
        if lists and lists[0]:
            return (total(lists[0]), dtype_of(own), args[at["root_rank"]], None)
        return (total(own), dtype_of(own), args[at["root_rank"]], "shard")

    return read


def _peer(peer: str | None) -> Callable[[Sequence[Any], dict[str, int]], Key]:
    def read(args: Sequence[Any], at: dict[str, int]) -> Key:
        tensors = args[at["tensors"]]
        return (total(tensors), dtype_of(tensors), NO_ROOT if peer is None else args[at[peer]], None)

    return read


def _all_to_all(args: Sequence[Any], at: dict[str, int]) -> Key:
    """S is this rank's whole input; the splits are the bytes for each rank, None when they are equal."""
    source, target = args[at["input"]], args[at["output"]]
    size = total(source)
    sent, received = args[at["input_split_sizes"]], args[at["output_split_sizes"]]
    if (sent and len(set(sent)) > 1) or (received and len(set(received)) > 1) or target.numel() != source.numel():
        rows = sum(sent) if sent else 0
        splits = tuple(size * int(part) // rows if rows else 0 for part in sent) if sent else ()
        return (size, source.dtype, NO_ROOT, splits)
    return (size, source.dtype, NO_ROOT, None)


def _all_to_all_list(args: Sequence[Any], at: dict[str, int]) -> Key:
    sources, targets = args[at["input_tensors"]], args[at["output_tensors"]]
    sent, received = [total(tensor) for tensor in sources], [total(tensor) for tensor in targets]
    splits = tuple(sent) if len({*sent, *received}) > 1 else None
    return (sum(sent), dtype_of(sources), NO_ROOT, splits)


def _nothing(args: Sequence[Any], at: dict[str, int]) -> Key:
    return (0, None, NO_ROOT, None)


OPS = {
    op.name: op
    for op in (
        Op("allreduce_", "all_reduce", _whole("tensors"), reduces=True),
        Op("allreduce_coalesced_", "all_reduce", _whole("tensors"), reduces=True),
        Op("broadcast_", "broadcast", _rooted("tensors")),
        Op("reduce_", "reduce", _rooted("tensors"), reduces=True),
        Op("allgather_", "all_gather", _first_list("output_tensors")),
        Op("_allgather_base_", "all_gather", _whole("output_tensor")),
        Op("allgather_coalesced_", "all_gather", _lists("output_lists")),
        Op("allgather_into_tensor_coalesced_", "all_gather", _whole("outputs")),
        Op("reduce_scatter_", "reduce_scatter", _first_list("input_tensors"), reduces=True),
        Op("_reduce_scatter_base_", "reduce_scatter", _whole("input_tensor"), reduces=True),
        Op("reduce_scatter_tensor_coalesced_", "reduce_scatter", _whole("inputs"), reduces=True),
        Op("alltoall_base_", "all_to_all", _all_to_all),
        Op("alltoall_", "all_to_all", _all_to_all_list),
        Op("gather_", "gather", _shards("output_tensors", "input_tensors")),
        Op("scatter_", "scatter", _shards("input_tensors", "output_tensors")),
        Op("send", "send_recv_one_way", _peer("dst")),
        Op("recv_", "send_recv_one_way", _peer("src")),
        Op("recv_any_source_", "send_recv_one_way", _peer(None)),
        Op("barrier", "barrier", _nothing),
        Op("monitored_barrier_", "barrier", _nothing),
    )
}
"""Every operator that moves data or waits for others, by its name in the c10d library."""

DTYPE_NAMES = {"bool": "uint8", "float8_e4m3fn": "float8_e4m3", "float8_e4m3fnuz": "float8_e4m3",
               "float8_e5m2fnuz": "float8_e5m2"}  # fmt: skip
"""Where torch's name differs from ours: bool travels as one byte."""
