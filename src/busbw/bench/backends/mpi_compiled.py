"""Loops over MPI calls compiled by numba, so that small messages are timed without Python between two calls.

mpi4py checks and converts its arguments on each call, which takes about half a microsecond: more than a small message.
Here the arguments are converted once; the loop calls the C function of the MPI library that mpi4py has loaded. The row
says which loop it was taken with (label `loop`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

_POINTER = ctypes.c_void_p
_INT = ctypes.c_int


class CompiledCall:
    """One MPI call with its arguments bound; `run(n)` makes n of them in a compiled loop."""

    __slots__ = ("_arguments", "_kept", "_loop")

    def __init__(self, loop: Callable[..., None], arguments: tuple[int, ...], kept: object) -> None:
        self._loop, self._arguments, self._kept = loop, arguments, kept
        loop(0, *arguments)  # compile now, not in the first timed batch

    def __call__(self) -> None:
        """Make one call."""
        self._loop(1, *self._arguments)

    def run(self, calls: int) -> None:
        """Make `calls` calls, one after the other."""
        self._loop(calls, *self._arguments)


def bind(mpi: Any, name: str, arguments: Sequence[Any], kept: object) -> CompiledCall:
    """The C function `name` with its arguments: int, mpi4py handles, `pointer(...)`s. `kept` keeps buffers alive."""
    kinds: list[type[ctypes.c_int] | type[ctypes.c_void_p]] = []
    values: list[int] = []
    for argument in arguments:
        if isinstance(argument, Pointer):
            kinds.append(_POINTER)
            values.append(argument.address)
        elif isinstance(argument, int):
            kinds.append(_INT)
            values.append(argument)
        else:
            kind = _INT if mpi._sizeof(type(argument)) == ctypes.sizeof(_INT) else _POINTER
            kinds.append(kind)
            values.append(kind.from_address(mpi._addressof(argument)).value or 0)
    return CompiledCall(_loop(name, tuple(kinds)), tuple(values), kept)


class Pointer:
    """An address to hand over: a numpy array's data, or one of MPI's marker addresses."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        self.address = address


def pointer(buffer: Any) -> Pointer:
    """The address of a numpy array, of None (a null pointer), or of a marker such as MPI.IN_PLACE."""
    if buffer is None:
        return Pointer(0)
    return Pointer(buffer.ctypes.data if hasattr(buffer, "ctypes") else int(buffer))


@cache
def _library() -> ctypes.CDLL:
    """The MPI library that mpi4py has loaded into this process."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        for line in lines:
            path = line.split()[-1]
            if "/libmpi" in path and ".so" in path:
                library = ctypes.CDLL(path)
                if hasattr(library, "MPI_Allreduce"):
                    return library
    raise OSError("no MPI library is mapped into this process")


@cache
def _loop(name: str, kinds: tuple[Any, ...]) -> Callable[..., None]:
    """A compiled function (calls, *arguments) that calls the C function `calls` times."""
    import numba

    function = getattr(_library(), name)
    function.argtypes, function.restype = list(kinds), _INT
    names = ", ".join(f"a{index}" for index in range(len(kinds)))
    source = f"def loop(calls, {names}):\n    for _ in range(calls):\n        function({names})\n"
    scope: dict[str, Any] = {"function": function}
    exec(source, scope)
    compiled: Callable[..., None] = numba.njit(nogil=True)(scope["loop"])
    return compiled
