"""A measured call, and the run that it belongs to. Predicted results have the same type.

The time that a row stands for is `time_s`, seconds per call. Everything else says where it came from and how far it can
be trusted: raw samples of each rank, their summary, whether the data was right, and marks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from busbw.core.call import Call, is_whole
from busbw.core.summary import Summary
from busbw.units import GB


@dataclass(frozen=True, slots=True)
class Mark:
    """A reason not to trust a row, or to read it with care: a short code for programs and a sentence for people."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where a row was read: file and line (from 1)."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Printed:
    """What another tool printed for a row: rates in GB/s by its own definitions, None where it printed none.

    Where its GB is 2^30 the numbers stay as they are, and the row is marked `rate_is_gib`.

    Ours are derived from size and time; these tell whether the tool's columns agree, and what its averages rest on.
    """

    algbw_GBps: float | None = None  # noqa: N815 - the unit's own capitals
    busbw_GBps: float | None = None  # noqa: N815
    size: str = ""
    """The size as it stands there, where its meaning or its unit is not ours."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Other columns of the row, as printed: `time_min_us`, `iterations`, ... (labels are for what was set)."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Raw samples: `per_rank_s[rank][sample]` is the mean seconds of `calls_per_sample` calls on that rank's clock."""

    calls_per_sample: int
    per_rank_s: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Slowdown:
    """How many times as long something takes beside something else, with its 95 % interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Beside:
    """What ran beside the calls of a row, and how much each slowed the other; None where it could not be told."""

    what: str
    """`GEMM 512 float32`: matrix products, one after the other, on every rank."""
    alone_s: float
    """Seconds of a call alone, taken by turns with those beside it."""
    calls: Slowdown | None
    """Seconds of a call beside it over seconds of a call alone."""
    products: Slowdown | None
    """Seconds of a product beside the calls over seconds of a product alone."""

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return {
            "what": self.what,
            "alone_s": self.alone_s,
            "calls": None if self.calls is None else [self.calls.ratio, self.calls.low, self.calls.high],
            "products": None if self.products is None else [self.products.ratio, self.products.low, self.products.high],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Beside:
        """The inverse of `to_json`."""
        calls, products = (
            None if data.get(name) is None else Slowdown(*map(float, data[name])) for name in ("calls", "products")
        )
        return cls(str(data["what"]), float(data["alone_s"]), calls, products)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row: a Call, its time, and the evidence for it."""

    call: Call
    time_s: float
    summary: Summary | None = None
    samples: Samples | None = None
    wrong: int | None = None
    """Elements that were wrong over all ranks and checked calls; None when the data was not checked."""
    marks: tuple[Mark, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """What else was set or is known: backend, mode, sched, rank_time, group, algorithm, protocol, NCCL_ALGO, ..."""
    repeat: int = 0
    """Which launch of the same work, from 0."""
    source: Source | None = None
    """Where it was read; None for what was measured just now."""
    origin: str = "measured"
    """measured, read or simulated."""
    printed: Printed | None = None
    """The rates in the file; None for our own rows."""
    beside: Beside | None = None
    """Computation that ran beside the calls; None for calls alone."""

    @property
    def algbw_GBps(self) -> float | None:  # noqa: N802
        """S / t in GB/s (1e9)."""
        rate = self.call.algbw_Bps(self.time_s)
        return None if rate is None else rate / GB

    @property
    def busbw_GBps(self) -> float | None:  # noqa: N802
        """Algbw x bus factor in GB/s (1e9); None at N = 1."""
        rate = self.call.busbw_Bps(self.time_s)
        return None if rate is None else rate / GB

    def row(self) -> dict[str, Any]:
        """The flat row of `--json` (docs/json.md). Keys are stable."""
        summary = self.summary
        return {
            **self.call.to_json(),
            "time_s": self.time_s,
            "algbw_GBps": self.algbw_GBps,
            "busbw_GBps": self.busbw_GBps,
            "wrong": self.wrong,
            "time_low_s": None if summary is None else summary.low_s,
            "time_high_s": None if summary is None else summary.high_s,
            "mean_s": None if summary is None else summary.mean_s,
            "samples": None if summary is None else summary.samples,
            "stopped": None if summary is None else summary.stopped,
            "marks": [{"code": mark.code, "reason": mark.reason} for mark in self.marks],
            "labels": dict(self.labels),
            "repeat": self.repeat,
            "origin": self.origin,
            "source": None if self.source is None else {"file": self.source.file, "line": self.source.line},
            "beside": None if self.beside is None else self.beside.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """The row as it is saved: all fields, with the rates for readers that do not know the factors."""
        samples = self.samples
        return {
            "call": self.call.to_json(),
            "time_s": self.time_s,
            "algbw_GBps": self.algbw_GBps,
            "busbw_GBps": self.busbw_GBps,
            "wrong": self.wrong,
            "marks": [{"code": mark.code, "reason": mark.reason} for mark in self.marks],
            "labels": dict(self.labels),
            "repeat": self.repeat,
            "origin": self.origin,
            "summary": None if self.summary is None else self.summary.to_json(),
            "samples": None
            if samples is None
            else {"calls_per_sample": samples.calls_per_sample, "per_rank_s": [list(s) for s in samples.per_rank_s]},
            **({} if self.beside is None else {"beside": self.beside.to_json()}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], source: Source | None = None) -> Measurement:
        """The inverse of `to_json`; raises KeyError, TypeError, ValueError or UsageError for what is not a row."""
        samples = data.get("samples")
        summary = data.get("summary")
        time_s, wrong = data["time_s"], data.get("wrong")
        if not isinstance(time_s, int | float) or not 0 <= time_s < math.inf:
            raise ValueError(f"time_s {time_s!r} is not a number of seconds")
        if not (wrong is None or is_whole(wrong)) or not is_whole(data.get("repeat", 0)):
            raise ValueError(f"wrong {wrong!r} or repeat {data.get('repeat')!r} is not a whole number of 0 or more")
        return cls(
            call=Call.from_json(data["call"]),
            time_s=float(time_s),
            summary=None if summary is None else Summary.from_json(summary),
            samples=None
            if samples is None
            else Samples(
                int(samples["calls_per_sample"]), tuple(tuple(map(float, rank)) for rank in samples["per_rank_s"])
            ),
            wrong=wrong,
            marks=tuple(Mark(str(mark["code"]), str(mark["reason"])) for mark in data.get("marks", ())),
            labels={str(name): str(value) for name, value in data.get("labels", {}).items()},
            repeat=data.get("repeat", 0),
            source=source,
            origin=str(data.get("origin", "measured")),
            beside=None if data.get("beside") is None else Beside.from_json(data["beside"]),
        )


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that looks like a row and could not be read: where, its text (cut to 200 characters), and why."""

    source: Source
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Average:
    """A tool's own "average bus bandwidth", and what it is made of; GB/s (1e9).

    nccl-tests prints the plain mean over every printed row and both placements, sizes of 0 bytes included, so it says
    more about which sizes were asked for than about the wires.
    """

    reported_GBps: float | None  # noqa: N815 - the unit's own capitals
    """As the tool printed it; None when it did not come that far."""
    of_rows_GBps: float | None  # noqa: N815
    """The same mean over the rows that are in the file; None without rows."""
    rows: int = 0
    """How many numbers that mean is over."""


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked for, on which machine: one per results file (or per tool's output)."""

    tool: str = "busbw"
    version: str = ""
    started: str = ""
    """ISO 8601, UTC."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """From an allow-list; never the whole environment."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    launches: tuple[Mapping[str, Any], ...] = ()
    """One per start of the ranks: world_size, repeat, and rank -> host, pid, device."""
    notes: tuple[str, ...] = ()
    """What happened beside the rows: skipped sizes, a lost rank, lines that could not be read."""
    source: Source | None = None
    """Where it begins in the file it was read from."""
    collective: str | None = None
    """The collective of all rows, in core's spelling; None when there are several, or it is not known."""
    world_size: int | None = None
    """N of all rows; None when there are several, or it is not known."""
    complete: bool | None = None
    """It came to its own end; None when nothing tells."""
    failure: str | None = None
    """Why it ended early, or has no rows, with the line that says so."""
    average: Average | None = None
    out_of_bounds: tuple[int, str] | None = None
    """The tool's own count of wrong values (or rows) and its verdict, such as (0, "OK")."""
    unreadable: tuple[Unreadable, ...] = ()
    """Lines that look like rows and could not be read; at most 100 are kept."""
    unreadable_count: int = 0
    """How many there were."""


@dataclass(frozen=True, slots=True)
class Results:
    """What one file holds: a run and its measurements, in the file's order.

    Where a file holds several runs one after the other, `parts` has one Results for each, `measurements` the rows of
    all of them, and `run` what they share.
    """

    run: Run
    measurements: tuple[Measurement, ...]
    parts: tuple[Results, ...] = ()

    @property
    def runs(self) -> tuple[Results, ...]:
        """One Results for each run in the file, runs without rows included."""
        return self.parts or (self,)
