"""One collective call: the key of every measurement, price and prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from busbw.core.collective import COLLECTIVES, Collective
from busbw.core.dtype import DTYPES, find_dtype

UNKNOWN_COLLECTIVE = "unknown"
"""The collective of a row whose file does not tell what was called."""
UNKNOWN_WORLD_SIZE = 0
"""N of a row whose file does not tell how many ranks there were."""


@dataclass(frozen=True, slots=True)
class Call:
    """One collective call of S = size_bytes over N = world_size ranks.

    `size_bytes` is the whole logical tensor. None means "not known", or "does not apply": `redop` where nothing is
    reduced, `root` where there is none, `in_place` where there is one form only or the source does not say.
    A row that was read may have UNKNOWN_COLLECTIVE or UNKNOWN_WORLD_SIZE; it has no busbw then.
    """

    collective: str
    size_bytes: int
    world_size: int
    dtype: str | None = None
    redop: str | None = None
    root: int | None = None
    in_place: bool | None = None

    @property
    def kind(self) -> Collective:
        """The collective itself; UsageError where it is not known."""
        return COLLECTIVES.get(self.collective)

    @property
    def count(self) -> int | None:
        """Elements of the whole tensor; None when the dtype is unknown."""
        return None if self.dtype is None else self.size_bytes // DTYPES[self.dtype].itemsize

    def algbw_Bps(self, time_s: float) -> float | None:  # noqa: N802
        """S / t in bytes a second; None for a barrier, or when the time is not positive."""
        moves = self.collective == UNKNOWN_COLLECTIVE or self.kind.moves_data
        return self.size_bytes / time_s if moves and time_s > 0 else None

    def busbw_Bps(self, time_s: float) -> float | None:  # noqa: N802
        """Algbw x bus factor in bytes a second.

        None at N = 1, where nothing moves, for a barrier, and where N or op is unknown.
        """
        algbw = self.algbw_Bps(time_s)
        if algbw is None or self.world_size < 2 or self.collective == UNKNOWN_COLLECTIVE:
            return None
        return algbw * self.kind.bus_factor(self.world_size)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Call:
        """The inverse of `to_json`; keys that this version does not know are ignored.

        Raises KeyError, TypeError, ValueError or UsageError for what is not a call.
        """
        call = cls(**{name: data[name] for name in cls.__slots__ if name in data})
        if call.collective not in (*COLLECTIVES.names(), UNKNOWN_COLLECTIVE):
            COLLECTIVES.get(str(call.collective))  # raises, with the choices
        if call.dtype is not None:
            find_dtype(str(call.dtype))
        for name, least in (("size_bytes", 0), ("world_size", UNKNOWN_WORLD_SIZE)):
            value = getattr(call, name)
            if not is_whole(value, least):
                raise ValueError(f"{name} {value!r} is not a whole number of {least} or more (below 2^63)")
        if not (call.root is None or is_whole(call.root, -1)):
            raise ValueError(f"root {call.root!r} is not a rank")
        if not isinstance(call.redop, str | None) or not isinstance(call.in_place, bool | None):
            raise TypeError(f"redop {call.redop!r} is not a text, or in_place {call.in_place!r} neither true nor false")
        return call


def is_whole(value: object, least: int = 0) -> bool:
    """Whether a value from a file is an integer from `least` to 2^63 - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63
