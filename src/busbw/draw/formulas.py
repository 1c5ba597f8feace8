"""The formula in N behind a row of numbers, found by comparing and not by looking it up: (N-1)/N, 2(N-1)/N, 1/N ..."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

_KNOWN: tuple[tuple[str, Callable[[int], Fraction]], ...] = (
    ("0", lambda n: Fraction(0)),
    ("1", lambda n: Fraction(1)),
    ("1/N", lambda n: Fraction(1, n)),
    ("(N-1)/N", lambda n: Fraction(n - 1, n)),
    ("2(N-1)/N", lambda n: Fraction(2 * (n - 1), n)),
    ("N-1", lambda n: Fraction(n - 1)),
)
_SIZES = range(3, 34)


def formula(value: Callable[[int], Fraction]) -> str:
    """The formula that `value` agrees with for every N from 3 to 33; "" where it is none that we know."""
    found = {n: value(n) for n in _SIZES}
    return next((name for name, known in _KNOWN if all(known(n) == found[n] for n in _SIZES)), "")


def share_of_s(value: Callable[[int], Fraction], world_size: int) -> str:
    """A share of S as formula and number: `(N-1)/N S = 0.75 S`, `S`, `nothing`."""
    name, number = formula(value), value(world_size)
    if number == 0:
        return "nothing"
    text = f"{float(number):.4g} S"
    if name == "1":
        return "S"
    return f"{name} S = {text}" if name else text
