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


Reader = Callable[[Sequence[Any]], Key]


@dataclass(frozen=True, slots=True)
class Op:
    """One operator of c10d: the collective that it is, and how its arguments are read.

    `reader(position of each argument by name)` -> a function of the arguments that a call passes.
    """

    name: str
    collective: str
    reader: Callable[[dict[str, int]], Reader]
    reduces: bool = False


class ArgumentPlaces:
    """Where an operator of this version of torch has its arguments: `names` as its schema lists them."""

    __slots__ = ("_async", "group", "read")

    def __init__(self, op: Op, names: Sequence[str]) -> None:
        at = {name: number for number, name in enumerate(names)}
        self.read = op.reader(at)
        self.group = at["process_group"]
        self._async = at.get("async_op", len(names))

    def asynchronous(self, args: Sequence[Any]) -> bool:
        """Whether the caller asked for it; left out, or not there in older versions, means yes."""
        return len(args) <= self._async or bool(args[self._async])


def total(tensors: Any) -> int:
    """Bytes of one tensor, or of all in a list (of lists)."""
    if tensors.__class__ is list or tensors.__class__ is tuple:
        if len(tensors) != 1:
            return sum(map(total, tensors))
        tensors = tensors[0]
        if tensors.__class__ is list or tensors.__class__ is tuple:
            return total(tensors)
    try:
        size = tensors.nbytes
    except (RuntimeError, NotImplementedError, AttributeError):  # sparse: what travels are its values and its indices
        values, indices = tensors._values(), tensors._indices()
        return int(values.numel() * values.element_size() + indices.numel() * indices.element_size())
    return size if size.__class__ is int else int(size)


def dtype_of(tensors: Any) -> Any:
    """The element type of one tensor or of all in a list (of lists); None when they differ or there is none."""
    if tensors.__class__ is list or tensors.__class__ is tuple:
        if len(tensors) != 1:
            kinds = set(map(dtype_of, tensors))
            return kinds.pop() if len(kinds) == 1 else None
        tensors = tensors[0]
        if tensors.__class__ is list or tensors.__class__ is tuple:
            return dtype_of(tensors)
    return tensors.dtype


def _whole(argument: str) -> Callable[[dict[str, int]], Reader]:
    """S is the bytes of this argument."""

    def reader(at: dict[str, int]) -> Reader:
        position = at[argument]

        def read(args: Sequence[Any]) -> Key:
            tensors = args[position]
            return (total(tensors), dtype_of(tensors), NO_ROOT, None)

        return read

    return reader


def _first_list(argument: str) -> Callable[[dict[str, int]], Reader]:
    """S is the bytes of the first list: the others are of further devices of one process, which nobody uses."""

    def reader(at: dict[str, int]) -> Reader:
        position = at[argument]

        def read(args: Sequence[Any]) -> Key:
            tensors = args[position][0]
            return (total(tensors), dtype_of(tensors), NO_ROOT, None)

        return read

    return reader


def _rooted(argument: str, root: str | None) -> Callable[[dict[str, int]], Reader]:
    """S is the bytes of this argument; there is a root, or a peer."""

    def reader(at: dict[str, int]) -> Reader:
        position, root_at = at[argument], None if root is None else at[root]

        def read(args: Sequence[Any]) -> Key:
            tensors = args[position]
            return (total(tensors), dtype_of(tensors), NO_ROOT if root_at is None else args[root_at], None)

        return read

    return reader


def _shards(whole: str, shard: str) -> Callable[[dict[str, int]], Reader]:
    """Only the root holds the list of all shards; on the others S is known from their own: "shard" times N."""

    def reader(at: dict[str, int]) -> Reader:
        whole_at, shard_at, root_at = at[whole], at[shard], at["root_rank"]

        def read(args: Sequence[Any]) -> Key:
            lists, own = args[whole_at], args[shard_at]
            if lists and lists[0]:
                return (total(lists[0]), dtype_of(own), args[root_at], None)
            return (total(own), dtype_of(own), args[root_at], "shard")

        return read

    return reader


def _all_to_all(at: dict[str, int]) -> Reader:
    """S is this rank's whole input; the splits are the bytes for each rank, None when they are equal."""

    def read(args: Sequence[Any]) -> Key:
        source, target = args[at["input"]], args[at["output"]]
        size = total(source)
        sent, received = args[at["input_split_sizes"]], args[at["output_split_sizes"]]
        if (sent and len(set(sent)) > 1) or (received and len(set(received)) > 1) or target.numel() != source.numel():
            rows = sum(sent) if sent else 0
            splits = tuple(size * int(part) // rows if rows else 0 for part in sent) if sent else ()
            return (size, source.dtype, NO_ROOT, splits)
        return (size, source.dtype, NO_ROOT, None)

    return read


def _all_to_all_list(at: dict[str, int]) -> Reader:
    def read(args: Sequence[Any]) -> Key:
        sources, targets = args[at["input_tensors"]], args[at["output_tensors"]]
        sent, received = [total(tensor) for tensor in sources], [total(tensor) for tensor in targets]
        splits = tuple(sent) if len({*sent, *received}) > 1 else None
        return (sum(sent), dtype_of(sources), NO_ROOT, splits)

    return read


def _nothing(at: dict[str, int]) -> Reader:
    return lambda args: (0, None, NO_ROOT, None)


OPS = {
    op.name: op
    for op in (
        Op("allreduce_", "all_reduce", _whole("tensors"), reduces=True),
        Op("allreduce_coalesced_", "all_reduce", _whole("tensors"), reduces=True),
        Op("broadcast_", "broadcast", _rooted("tensors", "root_rank")),
        Op("reduce_", "reduce", _rooted("tensors", "root_rank"), reduces=True),
        Op("allgather_", "all_gather", _first_list("output_tensors")),
        Op("_allgather_base_", "all_gather", _whole("output_tensor")),
        Op("allgather_coalesced_", "all_gather", _whole("output_lists")),
        Op("allgather_into_tensor_coalesced_", "all_gather", _whole("outputs")),
        Op("reduce_scatter_", "reduce_scatter", _first_list("input_tensors"), reduces=True),
        Op("_reduce_scatter_base_", "reduce_scatter", _whole("input_tensor"), reduces=True),
        Op("reduce_scatter_tensor_coalesced_", "reduce_scatter", _whole("inputs"), reduces=True),
        Op("alltoall_base_", "all_to_all", _all_to_all),
        Op("alltoall_", "all_to_all", _all_to_all_list),
        Op("gather_", "gather", _shards("output_tensors", "input_tensors")),
        Op("scatter_", "scatter", _shards("input_tensors", "output_tensors")),
        Op("send", "send_recv_one_way", _rooted("tensors", "dst")),
        Op("recv_", "send_recv_one_way", _rooted("tensors", "src")),
        Op("recv_any_source_", "send_recv_one_way", _rooted("tensors", None)),
        Op("barrier", "barrier", _nothing),
        Op("monitored_barrier_", "barrier", _nothing),
    )
}
"""Every operator that moves data or waits for others, by its name in the c10d library."""

DTYPE_NAMES = {"bool": "uint8", "float8_e4m3fn": "float8_e4m3", "float8_e4m3fnuz": "float8_e4m3",
               "float8_e5m2fnuz": "float8_e5m2"}  # fmt: skip
"""Where torch's name differs from ours: bool travels as one byte."""
