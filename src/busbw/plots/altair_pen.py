"""How one panel's numbers become positions, colours and texts in Altair; `altair_marks` draws with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from busbw.plots import layout as lay
from busbw.plots.axes import TICK_SIZE, Tick, axis_title
from busbw.plots.layout import PanelLayout
from busbw.plots.palette import DASHES, Look, Theme


@dataclass(frozen=True, slots=True)
class Pen:
    """The encodings of one panel. `alt` is the library, imported where it is known to be needed."""

    alt: Any
    theme: Theme
    looks: dict[str, Look]
    variants: tuple[int, ...]
    """Every dash of the chart, so that one dash means one thing in all panels."""
    sample: float
    """Pixels of the piece of line beside a label."""
    place: PanelLayout

    def chart(self, rows: list[dict[str, Any]]) -> Any:
        """A chart of these rows and nothing else."""
        return self.alt.Chart(self.alt.InlineData(values=rows))

    def x(self, field: str = "x") -> Any:
        """The x axis."""
        return self.alt.X(f"{field}:Q", scale=self._scale("x"), axis=self.x_axis())

    def y(self, field: str = "y") -> Any:
        """The y axis."""
        axis = self._axis(self.place.y.ticks, title=None, grid=True, domain=False, ticks=False, labelPadding=6)
        return self.alt.Y(f"{field}:Q", scale=self._scale("y"), axis=axis)

    def x_axis(self) -> Any:
        """The x axis's own look."""
        title = axis_title(self.place.panel.x)
        return self._axis(
            self.place.x.ticks, title=title, grid=False, domain=True, ticks=True, tickSize=5, titlePadding=6
        )

    def at(self, x: float, y: float) -> dict[str, float]:
        """The data values at pixels from the panel's top left, also outside the axes."""
        return {"x": self.place.x.value(x), "y": self.place.y.value(self.place.height - y)}

    def clamped(self, y: float) -> float:
        """A value of y, or the nearest that the axis shows."""
        return min(max(y, self.place.y.low), self.place.y.high)

    def colour(self, channel: Any = None) -> Any:
        """The colour of the field `colour`, in this theme."""
        colours = [look.colours[self.theme.name] for look in self.looks.values()]
        scale = self.alt.Scale(domain=list(self.looks), range=colours)
        return (channel or self.alt.Color)("colour:N", scale=scale, legend=None)

    def shape(self) -> Any:
        """The marker of the field `colour`."""
        scale = self.alt.Scale(domain=list(self.looks), range=[look.shape for look in self.looks.values()])
        return self.alt.Shape("colour:N", scale=scale, legend=None)

    def dash(self) -> Any:
        """The dash of the field `variant`."""
        dashes = [list(DASHES[variant % len(DASHES)]) for variant in self.variants]
        scale = self.alt.Scale(domain=list(self.variants), range=dashes)
        return self.alt.StrokeDash("variant:N", scale=scale, legend=None)

    def text(self, rows: list[dict[str, Any]], align: str, **look: Any) -> Any:
        """Texts of the field `text` at x and y."""
        style = {"fontSize": lay.LABEL_SIZE, "color": self.theme.ink, **look}
        mark = self.chart(rows).mark_text(align=align, baseline="middle", **style)
        return mark.encode(x=self.x(), y=self.y(), text="text:N", description="text:N")

    def _axis(self, places: tuple[Tick, ...], **more: Any) -> Any:
        theme, values = self.theme, [tick.value for tick in places]
        texts = json.dumps([tick.text for tick in places])
        return self.alt.Axis(
            values=values, labelExpr=f"{texts}[indexof({json.dumps(values)}, datum.value)]",
            labelOverlap=False, labelFlush=False,
            labelFontSize=TICK_SIZE, titleFontSize=TICK_SIZE, titleFontWeight="normal",
            labelColor=theme.quiet_ink, titleColor=theme.quiet_ink, gridColor=theme.grid, domainColor=theme.axis,
            tickColor=theme.axis, **more,
        )  # fmt: skip

    def _scale(self, which: str) -> Any:
        place = self.place
        of, axis = (place.x, place.panel.x) if which == "x" else (place.y, place.panel.y)
        kind = {"type": "log", "base": 2 if axis.scale == "log2" else 10} if of.is_log else {"type": "linear"}
        return self.alt.Scale(domain=[of.low, of.high], nice=False, zero=False, **kind)
