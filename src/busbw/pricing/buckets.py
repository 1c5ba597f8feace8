"""The limit of DDP's buckets: what each would cost, and which is best on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw.core.bill import STEADY
from busbw.core.plan import Model
from busbw.pricing.mesh import Mesh
from busbw.pricing.profile import Profile, price_of
from busbw.pricing.step import run_steps
from busbw.pricing.stream import lines_of
from busbw.pricing.timeline import Work, play

CAPS_MB = (1, 2, 5, 10, 15, 25, 35, 50, 75, 100, 150, 250, 500)
"""The limits that are tried, in MiB."""


@dataclass(frozen=True, slots=True)
class Cap:
    """One limit in MiB: how many buckets it makes, all their time, and the step's where computation is known."""

    bucket_cap_mb: float
    buckets: int
    communication_s: float
    exposed_s: float | None
    step_s: float | None

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}


def with_option(mesh: Mesh, axis: str, **options: Any) -> Mesh:
    """The mesh with options of one parallelism changed."""
    parts = tuple(
        replace(part, options={**part.options, **options}) if part.parallelism.axis == axis else part
        for part in mesh.parts
    )
    return replace(mesh, parts=parts)


def has_buckets(mesh: Mesh) -> bool:
    """The plan's data parallelism has a bucket_cap_mb."""
    part = mesh.part("data")
    return part is not None and "bucket_cap_mb" in part.options


def bucket_curve(
    model: Model,
    mesh: Mesh,
    profile: Profile,
    work: Work | None,
    settings: Mapping[str, Any] | None,
    caps: Sequence[float] = CAPS_MB,
) -> list[Cap]:
    """The steady step under each limit."""
    found = []
    for cap in caps:
        priced = run_steps(model, with_option(mesh, "data", bucket_cap_mb=float(cap)), 0, settings)
        events = priced.steps[STEADY]
        buckets = [line for line in lines_of(events) if line.name.startswith("bucket")]
        seconds = sum(price_of(profile, line).seconds for line in buckets)
        timeline = None if work is None else play(events, profile, work, priced.bubble)
        found.append(
            Cap(
                cap,
                len(buckets),
                seconds,
                None if timeline is None else timeline.exposed_s,
                None if timeline is None else timeline.step_s,
            )
        )
    return found


def best_of(curve: Sequence[Cap]) -> Cap:
    """The limit with the shortest step; without computation, the shortest communication."""
    return min(curve, key=lambda cap: (cap.communication_s if cap.step_s is None else cap.step_s, cap.bucket_cap_mb))
