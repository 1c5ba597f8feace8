"""What a run was asked to do: one frozen record that travels to every rank and into the results file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from busbw.core.collective import PRIMITIVES
from busbw.units import GIB, KIB, MIB

RankTime = Literal["slowest", "avg", "min", "rank0"]

POST_SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB, GIB)
"""The six sizes of the post."""

BATCH_S = 0.02
"""A sample is the mean of back-to-back calls that last at least this long, in seconds (docs/how-it-measures.md)."""


OWN = "own"
"""Among the algorithms: the backend's own collective, not a schedule."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All that decides which rows are taken and how. Times in seconds, sizes in bytes."""

    backend: str = "auto"
    collectives: tuple[str, ...] = PRIMITIVES
    sizes: tuple[int, ...] = (8, *POST_SIZES)
    dtypes: tuple[str, ...] = ("float32",)
    redops: tuple[str, ...] = ("sum",)
    roots: tuple[int, ...] | None = (0,)
    """None: every rank in turn."""
    algorithms: tuple[str, ...] = (OWN,)
    """How each collective is carried out: `own`, or schedules run as point-to-point calls (`busbw.algorithms.spec`)."""
    placement: str = "auto"
    """auto (the backend's natural form), in-place, out-of-place or both."""
    mode: str = "pipelined"
    """pipelined: a sample is a batch of back-to-back calls; isolated: each call follows a barrier."""
    method: str = "busbw"
    """busbw, or post: the post's own way of timing."""
    iters: int | None = None
    """Timed calls per row; None: until the interval is within `precision` or the row's budget is spent."""
    warmup: int | None = None
    """Untimed calls before; None: until steady."""
    check: int = 2
    """Checked calls per row (half before timing, half after); 0: no checking."""
    precision: float | None = None
    """Half-width of the 95 % interval at which a row is good, as a share; None: 0.02 on GPUs, 0.05 on CPUs."""
    row_budget_s: float = 3.0
    time_budget_s: float | None = None
    """For the whole run; a row gets its share of what is left."""
    rank_time: RankTime = "slowest"
    """slowest, avg, min or rank0: how the ranks' times of one sample become the row's."""
    sched: str = "default"
    """Scheduling policy of the ranks' processes: default, batch or fifo."""
    rotate_buffers: bool = False
    cuda_graph: int = 0
    aggregate: int = 1
    """Calls per group launch (nccl-tests' -m); NCCL only."""
    with_compute: int = 0
    """Each row a second time, beside products of matrices of this size; 0: no."""
    register: bool = False
    """Buffers registered with NCCL (nccl-tests' -R 1); NCCL only."""
    split: str | None = None
    init_timeout_s: float = 120.0
    timeout_s: float | None = None
    """Seconds without progress before an operation counts as hung; None: scaled by size and N."""
    loop: str = "auto"
    """mpi: python (mpi4py's methods), compiled (numba), or auto: compiled where numba is installed."""
    fake: str = ""
    """The fake backend's cost model, noise and faults."""
    max_bytes_by_default: bool = False
    """The sizes are defaults, so gloo cuts them at 64 MiB."""

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Settings:
        """The inverse of `to_json`."""
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in data.items()
            if name in cls.__slots__
        }
        return cls(**known)

    def digest(self) -> str:
        """A short fingerprint: ranks whose fingerprints differ were started with different arguments."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]
