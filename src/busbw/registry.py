"""A folder of plug-ins: the file's name is the registered name, listed without importing any of them."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from busbw.errors import UsageError

T = TypeVar("T")


class Registry(Generic[T]):
    """The files of one package, each holding one object under a fixed attribute name.

    `package` is where the files lie, `attribute` the name that each defines, `kind` the word for error messages.
    Files that begin with an underscore, and those in `skip`, are helpers and not listed.
    """

    def __init__(self, package: str, attribute: str, kind: str, skip: tuple[str, ...] = ()) -> None:
        self.package, self.attribute, self.kind, self.skip = package, attribute, kind, skip
        self._names: tuple[str, ...] | None = None

    def names(self) -> tuple[str, ...]:
        """All registered names, sorted; nothing but the package itself is imported."""
        if self._names is None:  # the folder is listed once
            paths = importlib.import_module(self.package).__path__
            found = (module.name for module in pkgutil.iter_modules(paths))
            self._names = tuple(sorted(name for name in found if not name.startswith("_") and name not in self.skip))
        return self._names

    def get(self, name: str) -> T:
        """The object registered as `name`; raises UsageError that lists the choices."""
        if name not in self.names():
            close = difflib.get_close_matches(name, self.names(), n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"unknown {self.kind} {name!r}: choose from {', '.join(self.names())}{hint}")
        module = importlib.import_module(f"{self.package}.{name}")
        return cast(T, getattr(module, self.attribute))

    def __iter__(self) -> Iterator[T]:
        return (self.get(name) for name in self.names())
