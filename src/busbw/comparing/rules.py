"""A rule of `busbw check`: `40GB/s@all_reduce,N=8:>=256MiB`, the busbw that every row of a range has to reach."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.core.call import Call
from busbw.core.collective import find_collective
from busbw.core.dtype import find_dtype
from busbw.errors import UsageError
from busbw.units import parse_rate, parse_size

__all__ = ["EXAMPLE", "Rule"]

EXAMPLE = "40GB/s@all_reduce,N=8:>=256MiB"
_RANGE = re.compile(r"(>=|<=|>|<|=)?\s*([^-<>=]+?)(?:\s*-\s*([^-<>=]+?))?")


@dataclass(frozen=True, slots=True)
class Rule:
    """Every row of a collective (None: any), N, dtype and range of sizes reaches at least this busbw."""

    text: str
    busbw_Bps: float  # noqa: N815
    collective: str | None = None
    world_size: int | None = None
    dtype: str | None = None
    least_bytes: int = 0
    most_bytes: int = 2**63 - 1

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read `RATE[@COLLECTIVE][,N=RANKS][,dtype=TYPE][:RANGE]`; ranges are `>=256MiB`, `<1MiB`, `1MiB-64MiB`, `=1GiB`.

        Raises UsageError with the rule, what is wrong with it and an example.
        """
        rate, _, rest = text.partition("@")
        if not rest:
            rate, _, sizes = text.partition(":")
            what = ""
        else:
            what, _, sizes = rest.partition(":")
        try:
            least, most = _sizes(sizes.strip())
            collective, world_size, dtype = _filters(what)
            busbw = parse_rate(rate)
            if busbw <= 0:
                raise UsageError(f"the rate {rate.strip()} must be above 0")
        except UsageError as error:
            raise UsageError(f"rule {text!r}: {error}; an example: {EXAMPLE}") from None
        return cls(text, busbw, collective, world_size, dtype, least, most)

    def covers(self, call: Call) -> bool:
        """Whether the rule speaks of this call."""
        return (
            self.collective in (None, call.collective)
            and self.world_size in (None, call.world_size)
            and self.dtype in (None, call.dtype)
            and self.least_bytes <= call.size_bytes <= self.most_bytes
        )


def _filters(text: str) -> tuple[str | None, int | None, str | None]:
    collective: str | None = None
    world_size: int | None = None
    dtype: str | None = None
    for index, part in enumerate(part.strip() for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            if index > 0:
                raise UsageError(f"{part!r} after the collective must be N=RANKS or dtype=TYPE")
            collective = None if name in ("", "*", "all") else find_collective(name).name
        elif name.lower() == "n":
            if not value.isdecimal() or int(value) < 1:
                raise UsageError(f"N={value} must be a number of ranks")
            world_size = int(value)
        elif name.lower() == "dtype":
            dtype = find_dtype(value).name
        else:
            raise UsageError(f"{name!r} is no filter: use N=RANKS or dtype=TYPE")
    return collective, world_size, dtype


def _sizes(text: str) -> tuple[int, int]:
    largest = 2**63 - 1
    if not text:
        return 0, largest
    match = _RANGE.fullmatch(text)
    if match is None or (match[1] and match[3]):
        raise UsageError(f"{text!r} is not a range of sizes: write >=256MiB, <1MiB, =1GiB or 1MiB-64MiB")
    size = parse_size(match[2])
    if match[3]:
        most = parse_size(match[3])
        if most < size:
            raise UsageError(f"the range {text} ends before it begins")
        return size, most
    least_and_most: dict[str | None, tuple[int, int]] = {
        ">=": (size, largest),
        ">": (size + 1, largest),
        "<=": (0, size),
        "<": (0, size - 1),
        "=": (size, size),
        None: (size, size),
    }
    return least_and_most[match[1]]
