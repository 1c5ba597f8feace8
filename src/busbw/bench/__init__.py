"""Measuring: what to run, on which backend, how it is timed, checked, supervised and written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from busbw.core.measurement import Results


def measure(
    collectives: Sequence[str] = ("all_reduce",),
    sizes: Sequence[int] = (8, 4096, 65536, 1 << 20),
    worlds: Sequence[int] = (2,),
    *,
    backend: str = "auto",
    repeats: int = 1,
    **settings: Any,
) -> Results:
    """Measure collectives on this host, with ranks that are started for it, and return the rows.

    `sizes` are bytes of the whole tensor, `worlds` numbers of ranks. Other keywords are the fields of
    `busbw.bench.settings.Settings` (times in seconds): `dtypes`, `redops`, `time_budget_s`, `precision`, `sched`,
    `algorithms=("own", "ring")` to carry them out by schedules too, ...
    Raises UsageError for a value that breaks a rule, and RankLost, LaunchError or MeasurementError when the ranks end
    badly. Call it under `if __name__ == "__main__"` like everything that starts processes.
    """
    from busbw.bench.collect import collect
    from busbw.bench.run import plan_launches, resolve_backend
    from busbw.bench.settings import Settings
    from busbw.bench.work import check_ranks
    from busbw.core.collective import find_collective
    from busbw.errors import UsageError

    unknown = sorted(set(settings) - set(Settings.__slots__))
    if unknown:
        raise UsageError(f"unknown setting {unknown[0]!r}: choose from {', '.join(Settings.__slots__)}")
    wanted = Settings(
        backend=resolve_backend(backend),
        collectives=tuple(find_collective(name).name for name in collectives),
        sizes=tuple(sizes),
        **settings,
    )
    for world in worlds:
        check_ranks(wanted, world)
    return collect(wanted, plan_launches(worlds, repeats, ()))
