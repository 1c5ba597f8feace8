"""Everything that the page says, as plain data: tests check it without a browser, and the template shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from busbw.core.cost_model import CostModel
from busbw.core.finding import Facts
from busbw.core.measurement import Measurement, Results
from busbw.costs import fit
from busbw.costs.report import FitReport
from busbw.errors import UsageError
from busbw.plots.lines import collective_order, has_bandwidth
from busbw.report.compared import ComparedPage, compare_sides
from busbw.report.data import look_colours, page_data
from busbw.report.derived import Derived, derive
from busbw.report.ring import RingPage, ring_page
from busbw.report.side_page import SidePage, side_page
from busbw.report.sides import Side, make_sides

MOST_ROWS = 4000
"""Rows in the page's table: with more of them it would grow beyond what a mail takes."""


@dataclass(frozen=True, slots=True)
class Content:
    """The page."""

    title: str
    subtitle: str
    sides: tuple[SidePage, ...]
    compared: tuple[ComparedPage, ...]
    ring: RingPage | None
    derived: Derived
    rows: int
    rows_shown: int
    undrawn: int
    """Rows that are in the table and not in the figures, having no busbw."""
    light: dict[str, str]
    dark: dict[str, str]
    """Variables of the style sheet."""
    data: dict[str, Any]
    """For the page's scripts."""


def make_content(
    inputs: Sequence[Sequence[Results]],
    facts: Facts | None = None,
    *,
    title: str = "",
    across: tuple[str, ...] = (),
    most_rows: int = MOST_ROWS,
) -> Content:
    """Sort the files into runs, explain, fit and compare them; UsageError when there is no row."""
    sides = make_sides(inputs, across)
    rows = [row for side in sides for row in side.rows]
    if not rows:
        raise UsageError("nothing to report: the files hold no row; busbw explain says what a run that failed tells")
    fits = {side.letter: _fit(side) for side in sides}
    models: dict[str, CostModel] = {
        letter: found.model for letter, (found, _) in fits.items() if isinstance(found, FitReport)
    }
    compared = compare_sides(sides, across)
    moving = [row for row in rows if has_bandwidth(row)]
    ops = sorted({row.call.collective for row in moving}, key=collective_order)
    world_sizes = sorted({row.call.world_size for row in moving})
    return Content(
        title or _title(rows),
        _subtitle(sides, rows),
        tuple(side_page(side, *fits[side.letter], facts or Facts()) for side in sides),
        compared,
        ring_page(rows),
        derive(rows),
        len(rows),
        min(len(rows), most_rows),
        len(rows) - len(moving),
        look_colours("light", sides, ops, world_sizes),
        look_colours("dark", sides, ops, world_sizes),
        page_data(sides, models, compared, most_rows),
    )


def _fit(side: Side) -> tuple[FitReport | None, str]:
    try:
        return fit(side.rows), ""
    except UsageError as error:
        return None, str(error)


def _title(rows: Sequence[Measurement]) -> str:
    names = sorted({row.call.collective for row in rows}, key=collective_order)
    world_sizes = sorted({row.call.world_size for row in rows if row.call.world_size})
    what = ", ".join(names) if len(names) <= 2 else f"{len(names)} collectives"
    return f"{what} on {_listed(world_sizes)} ranks" if world_sizes else what


def _subtitle(sides: Sequence[Side], rows: Sequence[Measurement]) -> str:
    hosts = sorted(
        {str(part.run.environment["host"]) for s in sides for part in s.files if "host" in part.run.environment}
    )
    days = sorted({part.run.started[:10] for side in sides for part in side.files if part.run.started})
    backends = sorted({row.labels["backend"] for row in rows if "backend" in row.labels})
    parts = [f"{len(rows)} row{'s' if len(rows) > 1 else ''}"]
    parts += [f"{len(sides)} runs compared"] if len(sides) > 1 else []
    parts += [f"on {_listed(backends)}"] if backends else []
    parts += [f"host {_listed(hosts)}"] if 0 < len(hosts) <= 4 else []
    parts += [days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"] if days else []
    return ", ".join(parts)


def _listed(values: Sequence[object]) -> str:
    words = [str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
