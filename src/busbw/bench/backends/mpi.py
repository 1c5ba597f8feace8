"""MPI through mpi4py's buffer methods, under mpiexec (or whatever started the ranks).

MPI is started with MPI_THREAD_FUNNELED: only the main thread calls it. mpi4py's own default, MPI_THREAD_MULTIPLE, takes
a lock in each call and doubles the time of small ones (docs/how-it-measures.md).
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from busbw.bench.backends.base import Device, Group, Issue, Post, Progress, Seat, available_memory_bytes, tile
from busbw.bench.backends.mpi_compiled import CompiledCall, bind, pointer
from busbw.bench.check import numpy_dtype
from busbw.bench.point_to_point import COMBINERS, PointToPoint
from busbw.bench.work import Item
from busbw.core.collective import Collective, Place
from busbw.errors import LaunchError, MissingDependency

_OPERATORS = {"sum": "SUM", "prod": "PROD", "min": "MIN", "max": "MAX"}


class MpiBackend(PointToPoint):
    """MPI's own collectives on numpy arrays."""

    def __init__(self, name: str = "mpi", settings_text: str = "") -> None:
        super().__init__(name, settings_text)
        try:
            import mpi4py
        except ImportError as error:
            raise MissingDependency("mpi4py (and an MPI such as the mpich wheel)", "mpi", "the mpi backend") from error
        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise LaunchError(
                f"mpi4py found no MPI library ({error}): pip install mpich, or load your site's MPI"
            ) from error
        self.mpi: Any = MPI
        self.loop = settings_text or "auto"
        has_numba = importlib.util.find_spec("numba") is not None
        if self.loop == "compiled" and not has_numba:
            raise MissingDependency("numba", "compiled", "--loop compiled")
        if self.loop == "auto":
            self.loop = "compiled" if has_numba else "python"

    def locate(self, seat: Seat) -> Device:
        """Host memory."""
        return Device("cpu", "")

    def start(self, seat: Seat, timeout_s: float) -> None:
        """MPI_Init; the ranks are those of MPI_COMM_WORLD."""
        mpi = self.mpi
        if not mpi.Is_initialized():
            mpi.Init_thread(mpi.THREAD_FUNNELED)
        self.comm = mpi.COMM_WORLD
        self.rank, self.world_size = self.comm.Get_rank(), self.comm.Get_size()
        if self.world_size != seat.world_size:
            raise LaunchError(
                f"the launcher started {seat.world_size} ranks, but MPI sees {self.world_size}: mpi4py uses "
                f"{mpi.Get_library_version().splitlines()[0].strip()!r}, so start the ranks with that MPI's own mpiexec"
            )
        if self.rank != seat.rank:
            raise LaunchError(f"the launcher calls this rank {seat.rank}, MPI calls it {self.rank}")
        self._local = seat.local_world_size

    def versions(self) -> dict[str, str]:
        """mpi4py, and the MPI library under it."""
        import mpi4py

        library = " ".join(self.mpi.Get_library_version().split()[:3])
        return {"mpi4py": mpi4py.__version__, "mpi": library.rstrip("\0"), "loop": self.loop}

    def supports(self, collective: Collective, dtype: str, redop: str | None, in_place: bool) -> str | None:
        """What MPI has: no half precision, no average."""
        if numpy_dtype(dtype) is None or dtype == "float16":
            return f"mpi has no {dtype}"
        if redop is not None and redop not in _OPERATORS:
            return f"mpi has no {redop} reduction"
        if collective.name == "broadcast" and not in_place:
            return "mpi has no out-of-place broadcast"
        if collective.name == "reduce_scatter" and in_place:
            return "mpi has no in-place reduce_scatter that leaves each shard where it lies"
        return None

    def make_groups(self, groups: Sequence[Sequence[int]]) -> list[Group]:
        """One communicator a group."""
        if len(groups) == 1:
            return [Group(tuple(groups[0]), 0, self.comm)]
        mine = next(index for index, ranks in enumerate(groups) if self.rank in ranks)
        comm = self.comm.Split(mine, list(groups[mine]).index(self.rank))
        return [Group(tuple(ranks), index, comm if index == mine else None) for index, ranks in enumerate(groups)]

    def allocate(self, count: int, dtype: str) -> NDArray[Any]:
        """A numpy array of ones."""
        return np.ones(count, numpy_dtype(dtype))

    def fill(self, buffer: NDArray[Any], period: NDArray[Any]) -> None:
        """Write one period over the array."""
        tile(buffer, period)

    def download(self, part: NDArray[Any]) -> NDArray[Any]:
        """The array itself."""
        return part

    def prepare(self, item: Item, send: Any, recv: Any, group: Group) -> Issue:
        """The call with its arguments bound: a compiled loop where there is one, otherwise mpi4py's buffer method."""
        if self.loop == "compiled":
            return self._compiled(item, send, recv, group) or self._method(item, send, recv, group)
        return self._method(item, send, recv, group)

    def supports_schedule(self, collective: Collective, dtype: str, redop: str | None) -> str | None:
        """Bytes are sent and numpy adds: every type that numpy has."""
        if numpy_dtype(dtype) is None:
            return f"mpi has no {dtype}"
        return f"a schedule has no {redop} reduction" if redop is not None and redop not in COMBINERS else None

    def exchange(self, sends: Sequence[Post], receives: Sequence[Post], group: Group) -> Issue:
        """Isend and Irecv with their arguments bound once (persistent requests), and a wait for all."""
        comm, mpi = group.handle, self.mpi
        return _Exchange(
            mpi,
            [
                *(comm.Recv_init([_as_bytes(part), mpi.BYTE], peer, 0) for part, peer in receives),
                *(comm.Send_init([_as_bytes(part), mpi.BYTE], peer, 0) for part, peer in sends),
            ],
        )

    def combiner(self, redop: str) -> Callable[[Any, Any, Any], object]:
        """numpy's."""
        combine = COMBINERS[redop]
        return lambda out, left, right: combine(left, right, out)

    def copy(self, target: NDArray[Any], source: NDArray[Any]) -> object:
        """numpy's."""
        target[:] = source
        return None

    def _method(self, item: Item, send: Any, recv: Any, group: Group) -> Issue:
        mpi, comm, call = self.mpi, group.handle, item.call
        root = call.root or 0
        is_root = group.rank == root
        in_place = bool(call.in_place)
        operator = getattr(mpi, _OPERATORS[call.redop or "sum"])
        name = call.collective
        if name == "barrier":
            issue: Issue = comm.Barrier
            return issue
        if name == "all_reduce":
            return partial(comm.Allreduce, mpi.IN_PLACE if in_place else send, recv, operator)
        if name == "broadcast":
            return partial(comm.Bcast, recv, root)
        if name == "reduce":
            a, b = (mpi.IN_PLACE, recv) if in_place and is_root else (send, recv if is_root else None)
            return partial(comm.Reduce, a, b, operator, root)
        if name == "reduce_scatter":
            return partial(comm.Reduce_scatter_block, send, recv, operator)
        if name == "all_gather":
            return partial(comm.Allgather, mpi.IN_PLACE if in_place else send, recv)
        if name == "scatter":
            return partial(
                comm.Scatter, send if is_root else None, mpi.IN_PLACE if in_place and is_root else recv, root
            )
        if name == "gather":
            return partial(comm.Gather, mpi.IN_PLACE if in_place and is_root else send, recv if is_root else None, root)
        if name == "all_to_all":
            return partial(comm.Alltoall, send, recv)
        if name == "all_to_all_v":
            split = call.kind.split
            assert split is not None
            out = split(Place(item.count, group.size, group.rank))
            back = [split(Place(item.count, group.size, r))[group.rank] for r in range(group.size)]
            kind = mpi._typedict[send.dtype.char]
            return partial(comm.Alltoallv, [send, (list(out), None), kind], [recv, (back, None), kind])
        if name == "send_recv":
            to, of = (group.rank + 1) % group.size, (group.rank - 1) % group.size
            return partial(comm.Sendrecv, send, to, 0, recv, of, 0)
        if name == "send_recv_one_way":
            if send is not None:
                return partial(comm.Send, send, group.rank + 1)
            if recv is not None:
                return partial(comm.Recv, recv, group.rank - 1)
            return _nothing
        raise NotImplementedError(f"the mpi backend has no {name}")

    def _compiled(self, item: Item, send: Any, recv: Any, group: Group) -> Issue | None:
        """The C function bound; None where an argument list is longer than worth it (all_to_all_v)."""
        mpi, comm, call = self.mpi, group.handle, item.call
        root, name = call.root or 0, call.collective
        is_root, in_place = group.rank == root, bool(call.in_place)
        if name == "barrier":
            return bind(mpi, "MPI_Barrier", [comm], None)
        operator = getattr(mpi, _OPERATORS[call.redop or "sum"])
        kind = mpi._typedict[np.dtype(call.dtype or "uint8").char]
        count, shard = item.count, item.count // group.size
        root_in_place = in_place and is_root
        marker = pointer(mpi.IN_PLACE)
        source, target = pointer(send), pointer(recv)
        status = np.zeros(16, np.int64)
        arguments: dict[str, tuple[str, list[Any]]] = {
            "all_reduce": ("MPI_Allreduce", [marker if in_place else source, target, count, kind, operator, comm]),
            "broadcast": ("MPI_Bcast", [target, count, kind, root, comm]),
            "reduce": ("MPI_Reduce", [marker if root_in_place else source, target, count, kind, operator, root, comm]),
            "reduce_scatter": ("MPI_Reduce_scatter_block", [source, target, shard, kind, operator, comm]),
            "all_gather": ("MPI_Allgather", [marker if in_place else source, shard, kind, target, shard, kind, comm]),
            "scatter": (
                "MPI_Scatter",
                [source, shard, kind, marker if root_in_place else target, shard, kind, root, comm],
            ),
            "gather": (
                "MPI_Gather",
                [marker if root_in_place else source, shard, kind, target, shard, kind, root, comm],
            ),
            "all_to_all": ("MPI_Alltoall", [source, shard, kind, target, shard, kind, comm]),
            "send_recv": (
                "MPI_Sendrecv",
                [
                    *(source, count, kind, (group.rank + 1) % group.size, 0),
                    *(target, count, kind, (group.rank - 1) % group.size, 0, comm, pointer(status)),
                ],
            ),
        }
        if name == "send_recv_one_way":
            if send is not None:
                arguments[name] = ("MPI_Send", [source, count, kind, group.rank + 1, 0, comm])
            elif recv is not None:
                arguments[name] = ("MPI_Recv", [target, count, kind, group.rank - 1, 0, comm, pointer(status)])
        if name not in arguments or count >= 2**31:
            return None
        function, bound = arguments[name]
        return bind(mpi, function, bound, (send, recv, status))

    def time_batch(self, issue: Issue, calls: int, progress: Progress) -> float:
        """In a compiled loop where the call is bound to one."""
        if not isinstance(issue, CompiledCall):
            return super().time_batch(issue, calls, progress)
        start = time.perf_counter()
        issue.run(calls)
        return time.perf_counter() - start

    def barrier(self) -> None:
        """MPI_Barrier."""
        self.comm.Barrier()

    def gather(self, values: Sequence[float]) -> NDArray[np.float64]:
        """MPI_Allgather."""
        mine = np.array(values, dtype=np.float64)
        out = np.empty((self.world_size, len(mine)))
        self.comm.Allgather(mine, out)
        return out

    def free_bytes(self) -> int:
        """This rank's share of half of the host's free memory."""
        return available_memory_bytes() // (2 * max(self._local, 1))

    def close(self) -> None:
        """MPI_Finalize."""
        if self.mpi.Is_initialized() and not self.mpi.Is_finalized():
            self.mpi.Finalize()


class _Exchange:
    """Persistent requests, started and waited for by each call, and freed with it."""

    __slots__ = ("_mpi", "_requests")

    def __init__(self, mpi: Any, requests: list[Any]) -> None:
        self._mpi, self._requests = mpi, requests

    def __call__(self) -> None:
        self._mpi.Prequest.Startall(self._requests)
        self._mpi.Request.Waitall(self._requests)

    def __del__(self) -> None:
        if not self._mpi.Is_finalized():
            for request in self._requests:
                request.Free()


def _as_bytes(part: NDArray[Any]) -> NDArray[Any]:
    return part.view(np.uint8)


def _nothing() -> None:
    """What a rank without a part in the call does."""


def broadcast_text(text: str) -> str:
    """Give rank 0's text to every rank; starts MPI."""
    mpi = MpiBackend().mpi
    if not mpi.Is_initialized():
        mpi.Init_thread(mpi.THREAD_FUNNELED)
    data = np.zeros(512, dtype=np.uint8)
    data[: len(text)] = list(text.encode())
    mpi.COMM_WORLD.Bcast(data, 0)
    return bytes(data).rstrip(b"\0").decode()
