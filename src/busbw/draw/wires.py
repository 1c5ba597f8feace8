"""A link, or several alike, as a line: as wide as it is fast, with its rate, and how busy it is where that is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from busbw.core.topology import LINK_KINDS, Topology, describe_link
from busbw.draw.loads import Usage
from busbw.draw.scene import Item, Line, Point, Text
from busbw.units import GB

LABEL_SIZE, LABEL_STEP = 9.5, 11.0
THIN, WIDE = 1.5, 10.0
"""Pixels of the slowest and of the fastest link."""
IDLE = 0.005
"""A link that is busy for less of the time gets no number."""


@dataclass(frozen=True, slots=True)
class Wires:
    """Draws the links of one machine."""

    topology: Topology
    usage: Usage | None
    fastest_Bps: float  # noqa: N815 - the unit's own capitals
    wide: float = WIDE

    def width(self, links: Sequence[int]) -> float:
        """Of a line for all these links together."""
        rate = float(np.maximum(self.topology.forward_Bps[links], self.topology.backward_Bps[links]).sum())
        return THIN + (self.wide - THIN) * min(rate / self.fastest_Bps, 1.0)

    def line(self, links: Sequence[int], points: tuple[Point, ...], ends: tuple[str, ...]) -> Line:
        """The line; red where one of the links is the busiest."""
        kind = LINK_KINDS[int(self.topology.link_kind[links[0]])]
        role = "memory link" if kind == "memory" else kind
        if self.is_full(links):
            role = "alarm"
        said = describe_link(self.topology.link(links[0]))
        link = self.topology.link(links[0])
        said = f"{link.a} - {link.b}: {said}" + (f", and {len(links) - 1} more" if len(links) > 1 else "")
        return Line(points, role, self.width(links), ends=ends, said=said)

    def is_full(self, links: Sequence[int]) -> bool:
        """One of the links' resources is the busiest of the machine."""
        return self.usage is not None and bool(self.usage.fullest[self._resources(links)].any())

    def vertical(
        self, links: Sequence[int], x: float, y0: float, y1: float, upper: Sequence[int], ends: tuple[str, ...]
    ) -> Iterator[Item]:
        """A line downwards from y0 to y1 with its labels to the right; `upper` are the devices at its upper end."""
        line = self.line(links, ((x, y0), (x, y1)), ends)
        yield line
        words = self.words(links, upper)
        y = (y0 + y1) / 2 - (len(words) - 1) * LABEL_STEP / 2
        for word, role, bold in words:
            yield Text(x + line.width / 2 + 4, y, word, LABEL_SIZE, role=role, bold=bold)
            y += LABEL_STEP

    def words(self, links: Sequence[int], upper: Sequence[int] = ()) -> list[tuple[str, str, bool]]:
        """Lines of its label: rates in GB/s, and how busy it is; as (text, role, bold)."""
        topology = self.topology
        first = links[0]
        times = f"{len(links)}×" if len(links) > 1 else ""
        rates = {(float(topology.forward_Bps[i]), float(topology.backward_Bps[i])) for i in links}
        if len(rates) > 1:
            total = float(topology.forward_Bps[links].sum())
            words = [f"Σ {_short(total)}"]
        elif topology.forward_Bps[first] == topology.backward_Bps[first]:
            words = [f"{times}{_short(float(topology.forward_Bps[first]))}"]
        else:
            down, up = float(topology.forward_Bps[first]), float(topology.backward_Bps[first])
            if int(topology.link_a[first]) not in upper:
                down, up = up, down
            words = [f"{times}{_short(down)}↓", f"{times}{_short(up)}↑"]
        duplex = float(topology.duplex_Bps[first])
        both = float(topology.forward_Bps[first] + topology.backward_Bps[first])
        if np.isfinite(duplex) and duplex < both:
            words.append(f"{_short(duplex)} both")
        out = [(word, "quiet", False) for word in words]
        if self.usage is not None and self.usage.busy[self._resources(links)].max() >= IDLE:
            out.append(self._busy(links, upper))
        return out

    def _busy(self, links: Sequence[int], upper: Sequence[int]) -> tuple[str, str, bool]:
        """How busy the busiest direction is, with its arrow where the other one is clearly less busy."""
        assert self.usage is not None
        busy, count = self.usage.busy, self.topology.link_count
        is_down = np.isin(self.topology.link_a[links], upper)
        forward, backward = busy[[2 * i for i in links]], busy[[2 * i + 1 for i in links]]
        down = float(np.where(is_down, forward, backward).max())
        up = float(np.where(is_down, backward, forward).max())
        both = float(busy[[2 * count + i for i in links]].max())
        top = max(down, up, both)
        sign = "" if not upper or abs(down - up) < 0.02 * top or both >= top else "↓" if down > up else "↑"
        full = self.is_full(links)
        return f"{100 * top:.0f} %{sign}", "alarm" if full else "ink", full

    def _resources(self, links: Sequence[int]) -> list[int]:
        count = self.topology.link_count
        return [resource for i in links for resource in (2 * i, 2 * i + 1, 2 * count + i)]


def _short(rate_Bps: float) -> str:  # noqa: N803 - the unit's own capitals
    """A rate in GB/s without its unit, to three digits."""
    value = rate_Bps / GB
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
