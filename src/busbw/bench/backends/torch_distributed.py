"""torch.distributed: gloo on CPUs, NCCL on NVIDIA and AMD GPUs, and what else torch was built with (xccl, hccl, ucc).

Two process groups are kept: the one that is measured, and a gloo one for the numbers that the ranks exchange between
samples, so that those never queue behind the measured calls. torch 2.13 renamed all_gather_into_tensor and
reduce_scatter_tensor; whichever name is there is used.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from busbw.bench.backends.base import Device, Group, Issue, Post, Progress, Seat, available_memory_bytes
from busbw.bench.load import Load
from busbw.bench.point_to_point import PointToPoint
from busbw.bench.work import Item
from busbw.core.collective import Collective, Place
from busbw.errors import LaunchError, MissingDependency, UsageError

_DEVICE_OF = {"nccl": "cuda", "xccl": "xpu", "hccl": "hpu", "gloo": "cpu", "ucc": "cpu", "mpi": "cpu"}
_TORCH_NAMES = {"float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
_GLOO_DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
_GLOO_REDOPS = ("sum", "prod", "min", "max")
_TORCH_REDOPS = {"sum": "SUM", "avg": "AVG", "prod": "PRODUCT", "min": "MIN", "max": "MAX"}
_COMBINERS = {"sum": "add", "prod": "mul", "min": "minimum", "max": "maximum"}
_ONE_TENSOR = ("all_reduce", "broadcast", "reduce")
"""torch has these in place only: one tensor is input and output."""


def import_torch() -> Any:
    """The torch module, or MissingDependency."""
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        raise MissingDependency("torch", "torch", "measuring with torch") from error
    if not torch.distributed.is_available():
        raise LaunchError("this torch was built without torch.distributed")
    return torch


def choose_backend() -> str:
    """The backend that suits the devices of this machine: nccl, xccl, hccl or gloo."""
    torch = import_torch()
    dist = torch.distributed
    if torch.cuda.is_available() and dist.is_nccl_available():
        return "nccl"
    for name, device in (("xccl", "xpu"), ("hccl", "hpu")):
        module = getattr(torch, device, None)
        if module is not None and module.is_available() and dist.is_backend_available(name):
            return name
    return "gloo"


def local_devices(backend: str) -> int:
    """Accelerators on this host that the backend would use; 0 for a CPU backend."""
    device = _DEVICE_OF.get(backend, "cpu")
    if device == "cpu":
        return 0
    return int(getattr(import_torch(), device).device_count())


class TorchBackend(PointToPoint):
    """torch.distributed's collectives on torch tensors."""

    def __init__(self, name: str = "gloo", settings_text: str = "") -> None:
        super().__init__(name, settings_text)
        self.torch = import_torch()
        self.dist: Any = self.torch.distributed
        if not self.dist.is_backend_available(name):
            known = [other for other in _DEVICE_OF if self.dist.is_backend_available(other)]
            raise UsageError(f"--backend {name}: this torch ({self.torch.__version__}) has {', '.join(known)}")
        self.device_type = _DEVICE_OF.get(name, "cpu")
        if name == "ucc" and self.torch.cuda.is_available():
            self.device_type = "cuda"
        self.is_gpu = self.device_type != "cpu"
        self._owns_world = False

    def locate(self, seat: Seat) -> Device:
        """Choose the device by local rank; its UUID tells two ranks on one GPU from two GPUs of one kind."""
        torch = self.torch
        if not self.is_gpu:
            self.torch_device = torch.device("cpu")
            return Device("cpu", "")
        module = getattr(torch, self.device_type)
        count = module.device_count()
        if count == 0:
            raise LaunchError(f"--backend {self.name} needs a {self.device_type} device and this host has none")
        self.torch_device = torch.device(self.device_type, seat.local_rank % count)
        module.set_device(self.torch_device)
        properties = module.get_device_properties(self.torch_device)
        identity = str(getattr(properties, "uuid", "") or self.torch_device)
        return Device(f"{self.torch_device} {getattr(properties, 'name', '')}".strip(), identity)

    def start(self, seat: Seat, timeout_s: float) -> None:
        """init_process_group over a store that rank 0 opens at a free port, or the program's own group if there is one."""
        torch, dist = self.torch, self.dist
        self.rank, self.world_size, self._local_size = seat.rank, seat.world_size, seat.local_world_size
        if not dist.is_initialized():
            store = self._store(seat, timeout_s)
            # Our own supervisor decides when a call hangs; torch's limit lies behind it.
            limit = datetime.timedelta(hours=2)
            options: dict[str, Any] = {"device_id": self.torch_device} if self.name == "nccl" else {}
            dist.init_process_group(
                self.name, store=store, rank=self.rank, world_size=self.world_size, timeout=limit, **options
            )
            self._owns_world = True
        elif dist.get_world_size() != seat.world_size:
            raise LaunchError(f"the launcher says {seat.world_size} ranks, torch.distributed {dist.get_world_size()}")
        if self.is_gpu and dist.is_gloo_available():
            self.control = dist.new_group(backend="gloo", timeout=datetime.timedelta(hours=2))
            self.control_device = torch.device("cpu")
        else:
            self.control = dist.group.WORLD
            self.control_device = self.torch_device

    def _store(self, seat: Seat, timeout_s: float) -> Any:
        limit = datetime.timedelta(seconds=timeout_s)
        host = os.environ.get("MASTER_ADDR", "127.0.0.1") if seat.local_world_size < seat.world_size else "127.0.0.1"
        if seat.rank == 0:
            store = self.dist.TCPStore(host, 0, seat.world_size, True, limit, wait_for_workers=False)
            seat.publish("torch_store_port", str(store.port))
            return store
        return self.dist.TCPStore(host, int(seat.look_up("torch_store_port")), seat.world_size, False, limit)

    def versions(self) -> dict[str, str]:
        """torch, and the library under it."""
        found = {"torch": str(self.torch.__version__)}
        if self.name == "nccl":
            found["nccl"] = ".".join(map(str, self.torch.cuda.nccl.version()))
            found["cuda"] = str(self.torch.version.cuda or self.torch.version.hip)
        return found

    def supports(self, collective: Collective, dtype: str, redop: str | None, in_place: bool) -> str | None:
        """What torch offers, and for gloo what it implements (torch 2.13; `busbw selftest` shows whether it does)."""
        if not hasattr(self.torch, _TORCH_NAMES.get(dtype, dtype)):
            return f"this torch has no {dtype}"
        if collective.name in _ONE_TENSOR and not in_place:
            return f"torch has no out-of-place {collective.name}"
        if collective.name not in (*_ONE_TENSOR, "all_gather", "reduce_scatter") and in_place:
            return f"torch has no in-place {collective.name}"
        if self.name == "gloo":
            if dtype not in _GLOO_DTYPES:
                return f"gloo has no {dtype}"
            if redop is not None and redop not in _GLOO_REDOPS:
                return f"gloo has no {redop} reduction"
        elif self.name == "nccl" and collective.reduces and dtype.startswith("float8"):
            return "torch does not reduce float8 with nccl"
        return None

    def make_groups(self, groups: Sequence[Sequence[int]]) -> list[Group]:
        """One process group each; without a split, the world."""
        if len(groups) == 1:
            return [Group(tuple(groups[0]), 0, self.dist.group.WORLD)]
        limit = datetime.timedelta(hours=2)
        return [
            Group(tuple(ranks), index, self.dist.new_group(list(ranks), timeout=limit))
            for index, ranks in enumerate(groups)
        ]

    def _torch_dtype(self, dtype: str) -> Any:
        return getattr(self.torch, _TORCH_NAMES.get(dtype, dtype))

    def allocate(self, count: int, dtype: str) -> Any:
        """A tensor whose pages exist."""
        buffer = self.torch.empty(count, dtype=self._torch_dtype(dtype), device=self.torch_device)
        buffer.view(self.torch.uint8).zero_()
        return buffer

    def fill(self, buffer: Any, period: NDArray[Any]) -> None:
        """Write one period over the tensor."""
        torch = self.torch
        wide = torch.from_numpy(np.ascontiguousarray(period))
        values = (wide.double() if buffer.dtype.is_floating_point else wide).to(buffer.dtype).to(self.torch_device)
        whole = len(buffer) // len(values) * len(values)
        if whole:
            buffer[:whole].view(-1, len(values)).copy_(values.expand(whole // len(values), len(values)))
        buffer[whole:].copy_(values[: len(buffer) - whole])

    def download(self, part: Any) -> NDArray[Any]:
        """The values in numpy; bfloat16 and float8 widen to float32, exactly."""
        tensor = part.detach()
        if tensor.dtype.is_floating_point and tensor.dtype not in (self.torch.float32, self.torch.float64):
            tensor = tensor.float()
        result: NDArray[Any] = tensor.cpu().numpy()
        return result

    def prepare(self, item: Item, send: Any, recv: Any, group: Group) -> Issue:
        """torch's function for the collective, with its arguments bound."""
        dist, call, handle = self.dist, item.call, group.handle
        redop = getattr(dist.ReduceOp, _TORCH_REDOPS[call.redop or "sum"])
        root = group.ranks[call.root or 0]
        is_root = group.rank == (call.root or 0)
        name = call.collective
        if name == "barrier":
            return partial(dist.barrier, group=handle)
        if name == "all_reduce":
            return partial(dist.all_reduce, recv, redop, group=handle)
        if name == "broadcast":
            return partial(dist.broadcast, recv, root, group=handle)
        if name == "reduce":
            return partial(dist.reduce, send, root, redop, group=handle)
        if name == "all_gather":
            all_gather = _first_of(dist, "all_gather_single", "all_gather_into_tensor")
            return partial(all_gather, recv, send, group=handle)
        if name == "reduce_scatter":
            reduce_scatter = _first_of(dist, "reduce_scatter_single", "reduce_scatter_tensor")
            return partial(reduce_scatter, recv, send, redop, group=handle)
        if name == "scatter":
            parts = list(send.chunk(group.size)) if is_root else None
            return partial(dist.scatter, recv, parts, root, group=handle)
        if name == "gather":
            parts = list(recv.chunk(group.size)) if is_root else None
            return partial(dist.gather, send, parts, root, group=handle)
        if name == "all_to_all":
            return partial(dist.all_to_all_single, recv, send, group=handle)
        if name == "all_to_all_v":
            split = call.kind.split
            assert split is not None
            out = list(split(Place(item.count, group.size, group.rank)))
            back = [split(Place(item.count, group.size, r))[group.rank] for r in range(group.size)]
            return partial(dist.all_to_all_single, recv, send, back, out, group=handle)
        if name in ("send_recv", "send_recv_one_way"):
            return self._point_to_point(send, recv, group)
        raise NotImplementedError(f"the torch backend has no {name}")

    def _point_to_point(self, send: Any, recv: Any, group: Group) -> Issue:
        dist, handle, size = self.dist, group.handle, group.size
        after, before = group.ranks[(group.rank + 1) % size], group.ranks[(group.rank - 1) % size]
        operations = []
        if send is not None:
            operations.append(dist.P2POp(dist.isend, send, after, handle))
        if recv is not None:
            operations.append(dist.P2POp(dist.irecv, recv, before, handle))

        def issue() -> None:
            for work in dist.batch_isend_irecv(operations):
                work.wait()

        return issue if operations else lambda: None

    def supports_schedule(self, collective: Collective, dtype: str, redop: str | None) -> str | None:
        """Whatever torch can add: no float8, and gloo's own types only."""
        if not hasattr(self.torch, _TORCH_NAMES.get(dtype, dtype)):
            return f"this torch has no {dtype}"
        if self.name == "gloo" and dtype not in _GLOO_DTYPES:
            return f"gloo has no {dtype}"
        if redop is not None and (redop not in _COMBINERS or dtype.startswith("float8")):
            return f"a schedule has no {redop} reduction of {dtype}"
        return None

    def exchange(self, sends: Sequence[Post], receives: Sequence[Post], group: Group) -> Issue:
        """batch_isend_irecv of all, and a wait for each."""
        dist, handle = self.dist, group.handle
        operations = [dist.P2POp(dist.irecv, part, group.ranks[peer], handle) for part, peer in receives]
        operations += [dist.P2POp(dist.isend, part, group.ranks[peer], handle) for part, peer in sends]

        def issue() -> None:
            for work in dist.batch_isend_irecv(operations):
                work.wait()

        return issue

    def prepare_schedule(self, item: Item, send: Any, recv: Any, group: Group) -> Issue:
        """As the base's. NCCL joins all ranks at its first call, and a schedule's first round may not have them all."""
        if self.is_gpu:
            self.dist.barrier(group=group.handle)
        return super().prepare_schedule(item, send, recv, group)

    def combiner(self, redop: str) -> Callable[[Any, Any, Any], object]:
        """torch's; on a GPU a kernel on the stream that the calls follow."""
        combine = getattr(self.torch, _COMBINERS[redop])
        return lambda out, left, right: combine(left, right, out=out)

    def copy(self, target: Any, source: Any) -> object:
        """torch's."""
        return target.copy_(source)

    def time_batch(self, issue: Issue, calls: int, progress: Progress) -> float:
        """On a GPU between two events on the stream, otherwise on the monotonic clock."""
        if not self.is_gpu:
            return super().time_batch(issue, calls, progress)
        module = getattr(self.torch, self.device_type)
        start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        start.record()
        for progress.call in range(calls):
            issue()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    def time_isolated(self, issue: Issue, calls: int, progress: Progress) -> float:
        """On a GPU: a barrier of the hosts, then one call between two events."""
        if not self.is_gpu:
            return super().time_isolated(issue, calls, progress)
        module = getattr(self.torch, self.device_type)
        start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        total = 0.0
        for progress.call in range(calls):
            self.barrier()
            start.record()
            issue()
            end.record()
            end.synchronize()
            total += float(start.elapsed_time(end)) * 1e-3
        return total

    def aggregate(self, issue: Issue, calls: int, group: Group) -> Issue:
        """`calls` calls between ncclGroupStart and ncclGroupEnd."""
        manager = _first_of(self.dist, "_coalescing_manager")

        def issue_all() -> None:
            with manager(group=group.handle, device=self.torch_device):
                for _ in range(calls):
                    issue()

        return issue_all

    def capture(self, issue: Issue, calls: int) -> Issue:
        """`calls` calls as one CUDA graph, after a warm-up on a side stream as CUDA asks for."""
        if self.device_type != "cuda":
            raise UsageError(f"--cuda-graph needs a CUDA device, and --backend {self.name} runs on {self.device_type}")
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                issue()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(calls):
                issue()
        replay: Issue = graph.replay
        return replay

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.is_gpu:
            getattr(self.torch, self.device_type).synchronize()

    def barrier(self) -> None:
        """The device is idle, and every rank has arrived."""
        self.synchronize()
        self.dist.barrier(group=self.control)

    def gather(self, values: Sequence[float]) -> NDArray[np.float64]:
        """all_gather on the control group."""
        mine = self.torch.tensor(list(values), dtype=self.torch.float64, device=self.control_device)
        out = self.torch.empty(self.world_size * len(values), dtype=self.torch.float64, device=self.control_device)
        _first_of(self.dist, "all_gather_single", "all_gather_into_tensor")(out, mine, group=self.control)
        result: NDArray[np.float64] = out.cpu().numpy().reshape(self.world_size, len(values))
        return result

    def load(self, size: int) -> Load:
        """On a CUDA device a stream beside NCCL's; elsewhere a process."""
        if self.device_type == "cuda":
            from busbw.bench.backends.torch_load import StreamLoad

            return StreamLoad(self.torch, self.torch_device, size)
        if self.is_gpu:
            raise UsageError(f"--with-compute: there is no load for {self.device_type} yet, only for CUDA and CPUs")
        return super().load(size)

    def free_bytes(self) -> int:
        """90 % of the GPU's free memory, or this rank's share of half of the host's."""
        if self.device_type == "cuda":
            return int(self.torch.cuda.mem_get_info(self.torch_device)[0] * 0.9)
        return available_memory_bytes() // (2 * max(self._local_size, 1))

    def close(self) -> None:
        """Destroy the process groups that were made here."""
        if self._owns_world and self.dist.is_initialized():
            self.synchronize()
            self.dist.destroy_process_group()


def _first_of(module: Any, *names: str) -> Any:
    """The first of several names that a module has: the new one before the deprecated one."""
    for name in names:
        if hasattr(module, name):
            return getattr(module, name)
    raise UsageError(f"this torch has none of {', '.join(names)}: version 2.0 or newer is needed")


def share_through_store(rank: int, world_size: int, text: str, timeout_s: float) -> str:
    """Give rank 0's text to every rank through torchrun's store, or one that rank 0 opens at MASTER_ADDR:MASTER_PORT."""
    dist = import_torch().distributed
    is_host = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    port = int(os.environ.get("MASTER_PORT", "29500"))
    limit = datetime.timedelta(seconds=timeout_s)
    store = dist.TCPStore(os.environ["MASTER_ADDR"], port, world_size, is_host, limit, wait_for_workers=False)
    key = f"busbw/supervisor/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if rank == 0:
        store.set(key, text)
    shared: str = store.get(key).decode()
    if is_host:
        _KEPT.append(store)
    return shared


_KEPT: list[Any] = []
"""Stores that must live as long as this process: other ranks still read from them."""
