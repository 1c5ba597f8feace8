"""Data that proves a collective right: it depends on rank and position, and is fresh for each checked call.

Each rank's input is a table of PERIOD pseudo-random values, repeated. PERIOD is a prime, so no shard of a sensible size
is a multiple of it: two shards that are swapped, shifted or left over from the last call differ. Reductions use whole
numbers small enough that any order of summation is exact, so that every element is compared for equality and the count
of wrong elements is exact; only the average of floats is compared to two units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from busbw.core.collective import Collective, Piece, Place
from busbw.core.dtype import DTYPES, DType

PERIOD = 65521
"""Elements after which a rank's data repeats: the largest prime below 2**16."""

_CHUNK = 64 * PERIOD

_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
_EPSILON |= {"float8_e4m3": 2.0**-3, "float8_e5m2": 2.0**-2}

Table = NDArray[Any]


class Readable(Protocol):
    """A buffer that can be cut and counted."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice) -> Any: ...


def table(dtype: DType, redop: str | None, world_size: int, rank: int, seed: int) -> Table:
    """One period of `rank`'s input, as int64; `seed` makes it fresh."""
    random = np.random.default_rng((seed, rank, 0x6275))
    position = np.arange(PERIOD, dtype=np.int64)
    if redop in ("sum", "avg"):
        top = dtype.exact_limit // world_size
        if top >= 1:
            return random.integers(0, min(top, 1 << 20) + 1, PERIOD, dtype=np.int64)
        groups = -(-world_size // dtype.exact_limit)
        turn = (position + rank) % groups == 0
        return np.where(turn, random.integers(0, 2, PERIOD), 0).astype(np.int64)
    if redop == "prod":
        groups = -(-world_size // 3)
        turn = (position + rank) % groups == 0
        return np.where(turn, random.integers(1, 3, PERIOD), 1).astype(np.int64)
    return random.integers(0, min(dtype.exact_limit, 1 << 40) + 1, PERIOD, dtype=np.int64)


_REDUCE: dict[str, Callable[[Table, Table], Table]] = {
    "sum": np.add,
    "avg": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


class Expected:
    """What one rank must hold after one checked call."""

    def __init__(self, collective: Collective, place: Place, dtype: str, redop: str | None, seed: int) -> None:
        self.collective, self.place, self.redop, self.seed = collective, place, redop, seed
        self.dtype = DTYPES[dtype]
        self._reduced: dict[tuple[tuple[int, int], ...], Table] = {}

    def input(self) -> Table:
        """One period of this rank's input."""
        return self._table(self.place.rank)

    def poison(self) -> Table:
        """One period of values to lie in the output before the call: no call that does nothing passes."""
        return table(self.dtype, None, 1, self.place.rank + 1_000_003, self.seed)

    def wrong(self, output: Readable, download: Callable[[Any], Table]) -> int:
        """Wrong elements in this rank's output; `download` brings a part of it to numpy."""
        return sum(self._wrong_in(piece, output, download) for piece in self.collective.postcondition(self.place))

    def _table(self, rank: int) -> Table:
        return table(self.dtype, self.redop, self.place.world_size, rank, self.seed)

    def _wrong_in(self, piece: Piece, output: Readable, download: Callable[[Any], Table]) -> int:
        first = piece.sources[0][1]
        period = self._reduce(tuple((rank, start - first) for rank, start in piece.sources))
        doubled = np.concatenate([period, period])
        wrong = 0
        for begin in range(0, piece.length, _CHUNK):
            length = min(_CHUNK, piece.length - begin)
            got = download(output[piece.start + begin : piece.start + begin + length])
            phase = (first + begin) % PERIOD
            turn = doubled[phase : phase + PERIOD]
            whole = length // PERIOD * PERIOD
            if whole:
                wrong += self._differ(got[:whole].reshape(-1, PERIOD), turn)
            wrong += self._differ(got[whole:], turn[: length - whole])
        return wrong

    def _differ(self, got: Table, want: Table) -> int:
        if self.redop != "avg":
            return int(np.count_nonzero(got != want))
        exact = want / self.place.world_size
        if self.dtype.family != "float":
            return int(np.count_nonzero(~(np.abs(got - exact) < 1)))
        slack = 2 * _EPSILON[self.dtype.name] * np.abs(exact)
        return int(np.count_nonzero(~(np.abs(got.astype(np.float64) - exact) <= slack)))

    def _reduce(self, sources: tuple[tuple[int, int], ...]) -> Table:
        if sources not in self._reduced:
            total: Table | None = None
            for rank, shift in sources:
                part = np.roll(self._table(rank), -shift) if shift else self._table(rank)
                total = part if total is None else _REDUCE[self.redop or "sum"](total, part)
            assert total is not None
            self._reduced[sources] = total
        return self._reduced[sources]


def numpy_dtype(dtype: str) -> np.dtype[Any] | None:
    """The numpy type of an element type; None where numpy has none (bfloat16, float8)."""
    return None if dtype.startswith(("bfloat", "float8")) else np.dtype(dtype)
