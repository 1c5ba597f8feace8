"""What else the plan could do, priced: the options that each parallelism names, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from busbw.core.bill import STEADY
from busbw.core.plan import Model
from busbw.errors import UsageError
from busbw.pricing.buckets import best_of, bucket_curve, has_buckets, with_option
from busbw.pricing.mesh import Mesh
from busbw.pricing.profile import Profile, price_of
from busbw.pricing.step import Priced, run_steps
from busbw.pricing.stream import lines_of
from busbw.pricing.timeline import Work, play
from busbw.units import format_decimal, format_time

LEAST_GAIN = 0.005
"""A change is worth a line when it saves this share of the step (of communication, where computation is not known)."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change of the plan, and what it saves in one steady step."""

    change: str
    why: str
    saved_s: float | None
    saved_bytes_per_rank: int

    @property
    def text(self) -> str:
        """One line."""
        time = "" if self.saved_s is None else f"{format_time(self.saved_s)} a step and "
        return f"{self.change}: saves {time}{format_decimal(self.saved_bytes_per_rank)} sent a rank; {self.why}"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}


def suggestions(
    model: Model, mesh: Mesh, profile: Profile | None, work: Work | None, settings: Mapping[str, Any] | None
) -> list[Suggestion]:
    """Those that save something, the most first."""
    base = run_steps(model, mesh, 0, settings)
    seconds, sent = _cost(base, profile, work)
    found = []
    for part in mesh.parts:
        for option, value, why in part.parallelism.tries:
            if part.options.get(option) == value:
                continue
            try:
                other = run_steps(model, with_option(mesh, part.parallelism.axis, **{option: value}), 0, settings)
            except UsageError:
                continue
            change = f"{option}={str(value).lower()}"
            found.append(_suggestion(change, why, seconds, sent, _cost(other, profile, work)))
    if has_buckets(mesh) and profile is not None and work is not None:
        best = best_of(bucket_curve(model, mesh, profile, work, settings))
        if best.step_s is not None and seconds is not None:
            why = f"{best.buckets} buckets"
            found.append(Suggestion(f"bucket_cap_mb={best.bucket_cap_mb:g}", why, seconds - best.step_s, 0))
    kept = [each for each in found if _counts(each, seconds, sent)]
    return sorted(kept, key=lambda each: (-(each.saved_s or 0.0), -each.saved_bytes_per_rank))


def _suggestion(change: str, why: str, seconds: float | None, sent: int, other: tuple[float | None, int]) -> Suggestion:
    saved = None if seconds is None or other[0] is None else seconds - other[0]
    return Suggestion(change, why, saved, sent - other[1])


def _counts(each: Suggestion, seconds: float | None, sent: int) -> bool:
    if each.saved_s is not None and seconds:
        return each.saved_s > LEAST_GAIN * seconds
    return each.saved_bytes_per_rank > LEAST_GAIN * sent


def _cost(priced: Priced, profile: Profile | None, work: Work | None) -> tuple[float | None, int]:
    """Seconds of the steady step (of its calls alone, where computation is not known), and bytes that a rank sends."""
    events = priced.steps[STEADY]
    lines = lines_of(events)
    sent = sum(line.sent_bytes_per_rank * line.count for line in lines)
    if profile is None:
        return None, sent
    if work is None:
        return sum(price_of(profile, line).seconds * line.count for line in lines), sent
    return play(events, profile, work, priced.bubble).step_s, sent
