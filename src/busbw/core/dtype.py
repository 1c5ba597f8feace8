"""Element types: size, family, and the range in which arithmetic on small whole numbers is exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from busbw.errors import UsageError


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    `exact_limit`: every whole number from 0 to it is represented exactly, and so is every sum that stays below it;
    the data that checks a reduction stays inside it.
    """

    name: str
    itemsize: int
    family: Literal["float", "int", "uint"]
    exact_limit: int
    aliases: tuple[str, ...] = ()


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("float32", 4, "float", 2**24, ("float", "f32", "fp32")),
        DType("float16", 2, "float", 2**11, ("half", "f16", "fp16")),
        DType("bfloat16", 2, "float", 2**8, ("bf16",)),
        DType("float64", 8, "float", 2**53, ("double", "f64", "fp64")),
        DType("int8", 1, "int", 2**7 - 1, ("char",)),
        DType("int32", 4, "int", 2**31 - 1, ("int",)),
        DType("int64", 8, "int", 2**53),
        DType("uint8", 1, "uint", 2**8 - 1),
        DType("uint32", 4, "uint", 2**32 - 1),
        DType("uint64", 8, "uint", 2**53),
        DType("float8_e4m3", 1, "float", 2**4, ("f8e4m3", "fp8", "fp8_e4m3", "float8_e4m3fn")),
        DType("float8_e5m2", 1, "float", 2**3, ("f8e5m2", "fp8_e5m2")),
    )
}
"""Every element type by its name. Aliases are those of nccl-tests and torch."""

_BY_ALIAS = {alias: dtype for dtype in DTYPES.values() for alias in (dtype.name, *dtype.aliases)}


def find_dtype(text: str) -> DType:
    """The element type of a name or alias (`float`, `half`, `bf16`, ...); UsageError lists the choices."""
    dtype = _BY_ALIAS.get(text.lower())
    if dtype is None:
        raise UsageError(f"unknown dtype {text!r}: choose from {', '.join(DTYPES)} (or half, float, double, bf16, fp8)")
    return dtype
