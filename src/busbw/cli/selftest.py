"""`busbw selftest`: every operation, dtype and reduction that each backend of this machine claims, small and checked.

A machine that we do not have: its user sends us what this prints.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping

from busbw.bench.collect import Collector
from busbw.bench.environment import environment
from busbw.bench.run import Launch, resolve_backend, run_launches
from busbw.bench.settings import Settings
from busbw.cli.progress import ProgressBar
from busbw.core.collective import COLLECTIVES
from busbw.core.dtype import DTYPES
from busbw.errors import BusbwError, Interrupted, LaunchError, MeasurementError, MissingDependency, UsageError

_SIZES = (1024, 98_304)
_FAKE_SIZES = (1024,)
_REDOPS = ("sum", "prod", "min", "max", "avg")
_MOST_RELAUNCHES = 40
_SHORT = {"bfloat16": "bf16", "float8_e4m3": "e4m3", "float8_e5m2": "e5m2"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which backends, how many ranks."""
    parser.add_argument("--backend", help="only these (default: what suits the devices, and mpi where it is installed)")
    parser.add_argument("--world", type=int, default=2, help="ranks (default: %(default)s)")
    parser.add_argument("--fake", default="", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="the matrix and the machine as JSON")


def run(args: argparse.Namespace) -> int:
    """Test each backend, print its matrix; 1 when anything claimed does not work."""
    if args.world < 1:
        raise UsageError(f"--world {args.world}: must be at least 1")
    names = [name.strip() for name in args.backend.split(",")] if args.backend else ["auto", "mpi"]
    found: dict[str, dict[str, str]] = {}
    unusable: dict[str, str] = {}
    for asked in names:
        name = asked
        try:
            name = resolve_backend(asked)
            found[name] = try_backend(name, args.world, args.fake)
        except (MissingDependency, LaunchError) as error:
            unusable[name] = str(error)
    failed = sum(value != "ok" for cells in found.values() for value in cells.values())
    if args.json:
        json.dump(
            {"environment": environment(), "world_size": args.world, "cells": found, "unusable": unusable},
            sys.stdout,
            indent=1,
        )
        sys.stdout.write("\n")
    else:
        for name, cells in found.items():
            sys.stdout.writelines(f"{line}\n" for line in matrix(name, args.world, cells))
        for name, reason in unusable.items():
            sys.stdout.write(f"{name}: not tested: {reason}\n")
        works = sum(len(cells) for cells in found.values()) - failed
        sys.stdout.write(f"{works} combinations work, {failed} do not\n")
    return 1 if failed or not found else 0


def try_backend(backend: str, world_size: int, fake: str = "") -> dict[str, str]:
    """Every combination that the backend claims -> ok, wrong or error: ...

    A combination that brings the ranks down is noted, and the rest goes on with new ranks.
    """
    settings = Settings(
        backend=backend,
        collectives=COLLECTIVES.names(),
        sizes=_FAKE_SIZES if backend == "fake" else _SIZES,
        dtypes=tuple(DTYPES),
        redops=_REDOPS,
        placement="both",
        iters=1,
        warmup=0,
        check=2,
        timeout_s=20.0,
        fake=fake,
    )
    cells: dict[str, str] = {}
    done: list[str] = []
    bar = ProgressBar(True)
    for _ in range(_MOST_RELAUNCHES):
        collector = _Barred(bar, backend)
        try:
            run_launches(settings, [Launch(world_size)], [collector], {(world_size, 0, ""): done})
        except (Interrupted, MissingDependency):
            raise
        except MeasurementError as error:
            if not 0 <= collector.index < len(collector.labels):
                raise
            _keep(collector, cells, done)
            broken = collector.labels[collector.index]
            cells[_cell(broken)] = f"error: {error}"
            done.append(broken)
            continue
        except BusbwError:
            raise
        finally:
            bar.close()
        _keep(collector, cells, done)
        return cells
    raise MeasurementError(f"{backend}: gave up after {_MOST_RELAUNCHES} combinations that brought the ranks down")


class _Barred(Collector):
    """A collector with a progress bar."""

    def __init__(self, bar: ProgressBar, name: str) -> None:
        super().__init__()
        self.bar, self.name = bar, name

    def plan(self, launch: Launch, labels: list[str], notes: list[str]) -> None:
        """Begin the bar."""
        super().plan(launch, labels, notes)
        self.bar.begin(self.name, labels)

    def at(self, index: int, phase: str) -> None:
        """Move the bar."""
        super().at(index, phase)
        self.bar.at(index, phase)


def _keep(collector: Collector, cells: dict[str, str], done: list[str]) -> None:
    for row, label in zip(collector.rows, collector.labels, strict=False):
        cell = _cell(label)
        if cells.get(cell, "ok") == "ok":
            cells[cell] = f"wrong: {row.wrong} elements" if row.wrong else "ok"
        done.append(label)


def _cell(label: str) -> str:
    """A row's label without its size, root and world: what the matrix has one cell for."""
    words = label.split()
    at = words.index("B") if "B" in words else 1
    rest = [word for word in words[at + 1 :] if not word.startswith("N=")]
    if "root" in rest:
        del rest[rest.index("root") : rest.index("root") + 2]
    return " ".join([words[0], *(word for word in rest if word != "None")])


def matrix(backend: str, world_size: int, cells: Mapping[str, str]) -> list[str]:
    """The cells as a table: operations down, dtypes across."""
    rows: dict[str, dict[str, str]] = {}
    for cell, value in cells.items():
        words = cell.split()
        dtype = next((word for word in words if word in DTYPES), "")
        name = " ".join(word for word in words if word != dtype)
        rows.setdefault(name, {})[dtype] = value
    present = [name for name in DTYPES if any(name in row for row in rows.values())]
    width = max((len(name) for name in rows), default=10) + 2
    lines = [f"{backend}, N={world_size}: ok, WRONG, ERROR, or - where it is not claimed"]
    lines.append(" " * width + " ".join(f"{_SHORT.get(name, name):>8}" for name in present))
    for name in sorted(rows):
        if "" in rows[name]:
            lines.append(f"{name:<{width}}{_mark(rows[name]['']):>8}")
            continue
        lines.append(f"{name:<{width}}" + " ".join(f"{_mark(rows[name].get(dtype)):>8}" for dtype in present))
    lines += [f"  {cell}: {value}" for cell, value in sorted(cells.items()) if value != "ok"]
    return lines


def _mark(value: str | None) -> str:
    return "-" if value is None else value if value == "ok" else value.split(":")[0].upper()
