"""A user's own algorithm: a function of a Python file, `path/to/file.py:NAME`. Only the file that was named is imported.

The function takes the world size first, and `root` and `collective` where it has parameters of these names; its other parameters
are options with defaults. It returns a Schedule (`busbw.Sketch` writes one). NAME may also be an
`busbw.core.schedule.Algorithm`.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from busbw.core.collective import COLLECTIVES
from busbw.core.schedule import Algorithm, Builder, Schedule
from busbw.errors import BusbwError, FileError, UsageError


def load(path: str, name: str) -> Algorithm:
    """The algorithm `name` of the file; FileError where it cannot be read or run, UsageError where it is none."""
    module = _module(os.path.realpath(path), path)
    what = f"{path}:{name}"
    if not hasattr(module, name):
        there = [
            key
            for key, value in vars(module).items()
            if isinstance(value, Algorithm)
            or (inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_"))
        ]
        raise UsageError(f"algorithm {what}: the file has no {name}; it has {', '.join(there) or 'no function'}")
    found = getattr(module, name)
    if isinstance(found, Algorithm):
        return found
    if not callable(found):
        raise UsageError(f"algorithm {what} is {type(found).__name__}: it must be a function that returns a Schedule")
    return _algorithm(found, what)


@cache
def _module(real_path: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"busbw_user_{abs(hash(real_path))}", real_path)
    if not os.path.isfile(real_path) or spec is None or spec.loader is None:
        raise FileError(f"{path}: there is no such Python file; write PATH/FILE.py:NAME")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise FileError(f"{path}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        raise FileError(f"{_where(error, path)}: importing it raises {type(error).__name__}: {error}") from error
    return module


def _where(error: Exception, path: str) -> str:
    """`file.py:12`: the last line of the user's file that the error passed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if _same(frame.filename, path)]
    return f"{path}:{lines[-1]}" if lines else path


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


class _Every(Mapping[str, Builder]):
    """A builder for every collective: which one the function makes shows when it has run."""

    def __init__(self, builder: Callable[..., Schedule]) -> None:
        self.builder = builder

    def __getitem__(self, collective: str) -> Builder:
        if collective not in COLLECTIVES.names():
            raise KeyError(collective)
        return partial(self.builder, collective)

    def __iter__(self) -> Iterator[str]:
        return iter(COLLECTIVES.names())

    def __len__(self) -> int:
        return len(COLLECTIVES.names())


def _algorithm(function: Callable[..., Any], what: str) -> Algorithm:
    parameters = inspect.signature(function).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    given = [name for name in ("root", "collective") if name in parameters or takes_any]
    path = what.rpartition(":")[0]

    def build(collective: str, world_size: int, *, root: int = 0, **options: Any) -> Schedule:
        values = {"root": root, "collective": collective}
        try:
            schedule = function(world_size, **{name: values[name] for name in given}, **options)
        except BusbwError:
            raise
        except Exception as error:
            where = _where(error, path)
            raise UsageError(f"algorithm {what} at N={world_size}: {where}: {type(error).__name__}: {error}") from error
        if not isinstance(schedule, Schedule):
            raise UsageError(f"algorithm {what} returned {type(schedule).__name__}: it must return a Schedule")
        if (schedule.collective, schedule.world_size) != (collective, world_size):
            raise UsageError(
                f"algorithm {what} made a {schedule.collective} of {schedule.world_size} ranks, and a {collective} of "
                f"{world_size} was asked for"
            )
        if schedule.root != root and COLLECTIVES.get(collective).rooted:
            raise UsageError(
                f"algorithm {what} made a schedule for root {schedule.root}, and root {root} was asked for"
            )
        return schedule

    def supports(collective: str, world_size: int) -> str:
        try:
            build(collective, world_size)
        except UsageError as error:
            return str(error)
        return ""

    options = {
        name: "" if parameter.default is parameter.empty else f"default {parameter.default}"
        for name, parameter in list(parameters.items())[1:]
        if name not in ("root", "collective") and parameter.kind is not parameter.VAR_KEYWORD
    }
    summary = (inspect.getdoc(function) or "A user's own algorithm.").splitlines()[0]
    return Algorithm(what, summary, path, _Every(build), options, supports)
