"""A prediction as a timeline for Perfetto or chrome://tracing: one track a rank, one slice a message.

The format is Chrome's Trace Event Format (JSON): complete events ("X") with microseconds in `ts` and `dur`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from busbw.core.schedule import NETWORK
from busbw.errors import FileError, UsageError
from busbw.sim.dependencies import message_count
from busbw.sim.fluid import Fluid, Timeline
from busbw.sim.prediction import Prediction

MOST_MESSAGES = 200_000
"""Above it a viewer does not open the file in reasonable time; phases are written instead."""

_US = 1e6


def trace_events(prediction: Prediction) -> list[dict[str, Any]]:
    """The events: messages where there are not too many of them, and the phases otherwise."""
    schedule, timeline = prediction.schedule, prediction.timeline
    title = f"{prediction.call.collective} {prediction.call.size_bytes} B, {prediction.algorithm}"
    events: list[dict[str, Any]] = [_name(0, f"{title} on {prediction.topology.name}")]
    if timeline is None and schedule is not None and message_count(schedule) <= MOST_MESSAGES:
        try:
            timeline = Fluid(schedule, prediction.topology).predict(prediction.call, prediction.algorithm).timeline
        except UsageError:  # too many slots to follow each
            timeline = None
    if timeline is None or len(timeline.source) > MOST_MESSAGES:
        for span in prediction.spans:
            name = f"{span.label or 'steps'} x {span.times}"
            events.append(_slice(name, 0, 0, span.begin_s, span.end_s, {"waits for": span.binding}))
        return events
    labels = _labels(prediction)
    events += _messages(timeline, labels)
    return events


def write_trace(prediction: Prediction, path: str) -> None:
    """Write the timeline of a prediction as JSON."""
    text = json.dumps({"traceEvents": trace_events(prediction), "displayTimeUnit": "ns"})
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error


def _messages(timeline: Timeline, labels: list[str]) -> Iterator[dict[str, Any]]:
    """Sends on the track of their source, one lane a channel and target, so that slices of a lane do not overlap."""
    lanes: dict[tuple[int, int, int], int] = {}
    per_rank: dict[int, int] = {}
    columns = (
        timeline.source,
        timeline.target,
        timeline.channel,
        timeline.round,
        timeline.size_bytes,
        timeline.start_s,
        timeline.end_s,
        timeline.done_s,
    )
    for source, target, channel, number, size, start, end, done in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        pid = source + 2  # a switch that reduces is -1; 0 is the title
        if pid not in per_rank:
            yield _name(pid, "switch" if source == NETWORK else f"rank {source}")
            per_rank[pid] = 0
        key = (source, channel, target)
        if key not in lanes:
            lanes[key] = per_rank[pid]
            per_rank[pid] += 1
            where = "switch" if target == NETWORK else f"rank {target}"
            told = f"to {where}" + (f", channel {channel}" if channel else "")
            yield {
                "ph": "M",
                "name": "thread_name",
                "pid": pid,
                "tid": lanes[key],
                "args": {"name": told},
            }
        label = labels[number] if number < len(labels) else f"round {number}"
        yield _slice(label, pid, lanes[key], start, end, {"bytes": size, "counts_us": done * _US})


def _labels(prediction: Prediction) -> list[str]:
    """A name for each round."""
    schedule = prediction.schedule
    assert schedule is not None
    longest = max((part for _, part in schedule.parts), key=lambda part: part.round_count, default=schedule)
    return [f"{phase.label or 'step'} {repetition}" for phase in longest.phases for repetition in range(phase.times)]


def _slice(name: str, pid: int, tid: int, begin_s: float, end_s: float, told: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": begin_s * _US,
        "dur": (end_s - begin_s) * _US,
        "args": told,
    }


def _name(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
