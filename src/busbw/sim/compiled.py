"""Compiled loops: numba where it is installed, and the very same Python where it is not.

numba is imported when a loop is first called, so that what needs none does not wait for it. Compiled code is kept
between runs beside the source, or, where that folder cannot be written, in the user's cache; where neither can, it is
compiled anew.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def has_numba() -> bool:
    """Whether loops will be compiled."""
    return importlib.util.find_spec("numba") is not None


def compiled(function: F) -> F:
    """The function, compiled by numba when it is first called; `.python` is the one that was given."""
    chosen: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        if not chosen:
            chosen.append(_compile(function))
        return chosen[0](*arguments)

    call.python = function  # type: ignore[attr-defined]
    return cast(F, call)


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    if not has_numba():
        return function
    try:
        import numba
    except ImportError:  # installed, and refuses to load: a numba that is too old for this numpy
        return function
    try:
        return cast(Callable[..., Any], numba.njit(cache=True)(function))
    except RuntimeError:  # no folder for the cache can be written
        return cast(Callable[..., Any], numba.njit(function))
