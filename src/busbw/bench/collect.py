"""A run whose rows are kept in memory: for the library's `measure` and for `busbw selftest`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from busbw.bench.run import Launch, describe_run, run_launches
from busbw.bench.settings import Settings
from busbw.core.measurement import Measurement, Results, Run


class Collector:
    """Keeps everything that a run says."""

    def __init__(self) -> None:
        self.rows: list[Measurement] = []
        self.labels: list[str] = []
        self.notes: list[str] = []
        self.launches: list[dict[str, Any]] = []
        self.index = -1

    def launch(self, launch: Launch, ranks: list[dict[str, Any]]) -> None:
        """The ranks are there."""
        self.launches.append({"world_size": launch.world_size, "repeat": launch.repeat, "ranks": ranks})

    def plan(self, launch: Launch, labels: list[str], notes: list[str]) -> None:
        """The rows to come."""
        self.labels, self.index = labels, -1
        self.notes.extend(note for note in notes if note not in self.notes)

    def at(self, index: int, phase: str) -> None:
        """The run has come to this row."""
        self.index = index

    def row(self, measurement: Measurement) -> None:
        """A row was taken."""
        self.rows.append(measurement)

    def note(self, text: str) -> None:
        """Something happened beside the rows."""
        self.notes.append(text)


def collect(settings: Settings, launches: Sequence[Launch]) -> Results:
    """Run the launches and return what they measured."""
    collector = Collector()
    _outside_of_a_loop(lambda: run_launches(settings, launches, [collector]))
    run = describe_run(settings, sorted({launch.world_size for launch in launches}), 1, [])
    return Results(
        Run(
            version=run.version,
            started=run.started,
            environment=run.environment,
            settings=run.settings,
            launches=tuple(collector.launches),
            notes=tuple(collector.notes),
        ),
        tuple(collector.rows),
    )


def _outside_of_a_loop(work: Any) -> None:
    """Run `work`, which starts an event loop; in a notebook one runs already, so there it gets a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        work()
        return
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
