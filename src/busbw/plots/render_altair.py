"""Chart -> SVG and PNG with Altair and vl-convert: no browser, no network. The only file that knows either."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

from busbw.errors import MissingDependency
from busbw.plots import layout as lay
from busbw.plots.chart import Chart, Series
from busbw.plots.layout import Layout, PanelLayout, Tick, axis_title, format_value, lay_out
from busbw.plots.palette import DASHES, Look, Theme, find_theme, looks
from busbw.plots.text import FONT

PNG_SCALE = 2.0
"""Pixels of a PNG for each pixel of the layout."""


def to_svg(chart: Chart, theme: str = "light", width: float = lay.DEFAULT_WIDTH) -> str:
    """The figure as SVG, its text kept as text. `width` is that of the sheet in pixels; fonts do not scale with it."""
    buffer = io.StringIO()
    to_altair(chart, theme, width).save(buffer, format="svg")
    said = quoteattr(_description(chart))  # for readers who listen
    return buffer.getvalue().replace("<svg ", f'<svg role="graphics-document" aria-label={said} ', 1)


def to_png(chart: Chart, theme: str = "light", width: float = lay.DEFAULT_WIDTH, scale: float = PNG_SCALE) -> bytes:
    """The figure as PNG, `scale` pixels for each pixel of the sheet."""
    return svg_to_png(to_svg(chart, theme, width), scale)


def svg_to_png(svg: str, scale: float = PNG_SCALE) -> bytes:
    """A picture of an SVG that `to_svg` made."""
    _, vl_convert = _libraries()
    return bytes(vl_convert.svg_to_png(svg, scale=scale))


def to_altair(chart: Chart, theme: str = "light", width: float = lay.DEFAULT_WIDTH) -> Any:
    """The figure as an Altair chart, for those who want to go on from there."""
    alt, _ = _libraries()
    names = looks(series.colour for panel in chart.panels for series in panel.series)
    return _Renderer(alt, find_theme(theme), lay_out(chart, width), names, lay.sample_length(chart)).draw(chart)


def to_spec(chart: Chart, theme: str = "light", width: float = lay.DEFAULT_WIDTH) -> dict[str, Any]:
    """The figure as a Vega-Lite specification, its data inside: what a page hands to vega-embed. It reacts to nothing
    but tooltips; a page adds what it wants."""
    spec: dict[str, Any] = to_altair(chart, theme, width).to_dict()
    return spec


def _description(chart: Chart) -> str:
    return f"{chart.title}. {chart.subtitle}"


def _libraries() -> tuple[Any, Any]:
    try:
        import altair
        import vl_convert
    except ImportError as error:
        raise MissingDependency("altair and vl-convert-python", "plot", "drawing figures") from error
    return altair, vl_convert


@dataclass(frozen=True, slots=True)
class _Renderer:
    alt: Any
    theme: Theme
    layout: Layout
    looks: dict[str, Look]
    sample: float

    def draw(self, chart: Chart) -> Any:
        alt, theme = self.alt, self.theme
        sheet = alt.concat(
            *(self.panel(panel) for panel in self.layout.panels), columns=self.layout.columns, spacing=16
        )
        if self.layout.notes:
            sheet = alt.vconcat(sheet, self.notes(), spacing=10)
        title = alt.TitleParams(
            text=list(self.layout.title), subtitle=list(self.layout.subtitle), anchor="start", offset=14,
            fontSize=lay.TITLE_SIZE, subtitleFontSize=lay.SUBTITLE_SIZE, subtitlePadding=5,
            color=theme.ink, subtitleColor=theme.quiet_ink,
        )  # fmt: skip
        return (
            sheet.properties(title=title, description=_description(chart), background=theme.background)
            .properties(padding=lay.PADDING)
            .configure(font=FONT)
            .configure_view(stroke=None)
            .configure_concat(spacing=0)
        )

    def panel(self, place: PanelLayout) -> Any:
        alt, theme, panel = self.alt, self.theme, place.panel
        layers = [
            *self.bands(place),
            *self.reference_lines(place),
            *self.leaders(place),
            *self.intervals(place),
            self.lines(place),
            *self.marked(place),
            *self.labels(place),
        ]
        title = alt.TitleParams(
            text=panel.title or axis_title(panel.y), subtitle=axis_title(panel.y) if panel.title else [],
            anchor="start", frame="group", fontSize=14, subtitleFontSize=lay.TICK_SIZE, color=theme.ink,
            subtitleColor=theme.quiet_ink, fontWeight="bold" if panel.title else "normal", offset=8,
        )  # fmt: skip
        return alt.layer(*layers).properties(width=place.width, height=place.height, title=title)

    def notes(self) -> Any:
        alt, step = self.alt, lay.NOTE_SIZE * 1.4
        rows = [{"text": text, "y": step * (i + 0.5)} for i, text in enumerate(self.layout.notes)]
        return (
            alt.Chart(self.data(rows))
            .mark_text(align="left", baseline="middle", fontSize=lay.NOTE_SIZE, color=self.theme.quiet_ink)
            .encode(
                x=alt.value(-self.layout.panels[0].left),
                y=alt.Y("y:Q", scale=None, axis=None),
                text="text:N",
                description="text:N",
            )
            .properties(width=self.layout.width - self.layout.panels[0].left, height=step * len(rows))
        )

    # ------------------------------------------------------------------ what is in a panel

    def lines(self, place: PanelLayout) -> Any:
        rows = [row for index, series in enumerate(place.panel.series) for row in self.rows(place, index, series)]
        base = self.alt.Chart(self.data(rows)).encode(
            x=self.x(place), y=self.y(place), color=self.colour(), detail="series:N"
        )
        line = base.mark_line(strokeWidth=2, strokeJoin="round", aria=False).encode(order="x:Q", strokeDash=self.dash())
        points = base.mark_point(filled=True, size=44, opacity=1).encode(
            shape=self.shape(), description="said:N", tooltip=["label:N", "x_text:N", "y_text:N"]
        )
        return self.alt.layer(line, points)

    def rows(self, place: PanelLayout, index: int, series: Series) -> list[dict[str, Any]]:
        panel = place.panel
        return [
            {
                "series": index, "label": series.label, "colour": series.colour, "variant": series.variant,
                "x": x, "y": y, "x_text": format_value(x, panel.x.unit), "y_text": format_value(y, panel.y.unit),
                "said": f"{series.label}, {format_value(x, panel.x.unit)}: {format_value(y, panel.y.unit)}",
            }
            for x, y in zip(series.x, series.y, strict=True)
        ]  # fmt: skip

    def intervals(self, place: PanelLayout) -> list[Any]:
        rows = [
            {"x": x, "y": low, "y2": high, "colour": series.colour}
            for series in place.panel.series
            for x, low, high in zip(series.x, series.low, series.high, strict=False)
            if low is not None and high is not None
        ]
        if not rows:
            return []
        bars = self.alt.Chart(self.data(rows)).mark_rule(strokeWidth=1.5, opacity=0.75, aria=False)
        return [bars.encode(x=self.x(place), y=self.y(place), y2="y2:Q", color=self.colour())]

    def bands(self, place: PanelLayout) -> list[Any]:
        rows = [
            {
                "x": place.x.low if band.x_low is None else band.x_low,
                "x2": place.x.high if band.x_high is None else band.x_high,
                "y": place.y.low if band.y_low is None else band.y_low,
                "y2": place.y.high if band.y_high is None else band.y_high,
                "colour": band.colour,
            }
            for band in place.panel.bands
        ]
        out = []
        coloured = [row for row in rows if row["colour"] is not None]
        neutral = [row for row in rows if row["colour"] is None]
        for chosen in (neutral, coloured):
            if chosen:
                chart = self.alt.Chart(self.data(chosen)).mark_rect(aria=False, opacity=0.14, fill=self.theme.axis)
                chart = chart.encode(x=self.x(place), x2="x2:Q", y=self.y(place), y2="y2:Q")
                out.append(chart.encode(fill=self.colour(self.alt.Fill)) if chosen is coloured else chart)
        return out

    def reference_lines(self, place: PanelLayout) -> list[Any]:
        rows = [{"x": place.x.low, "x2": place.x.high, "y": line.y} for line in place.panel.lines]
        if not rows:
            return []
        rule = self.alt.Chart(self.data(rows)).mark_rule(
            strokeWidth=1.5, strokeDash=[2, 3], color=self.theme.quiet_ink, aria=False
        )
        return [rule.encode(x=self.x(place), x2="x2:Q", y=self.y(place))]

    def marked(self, place: PanelLayout) -> list[Any]:
        rows = [
            {
                "x": point.x,
                "y": point.y,
                "reason": "; ".join(mark.reason for mark in point.marks),
                "label": series.label,
            }
            for series in place.panel.series
            for point in series.marked
        ]
        if not rows:
            return []
        base = self.alt.Chart(self.data(rows)).encode(
            x=self.x(place), y=self.y(place), description="reason:N", tooltip=["label:N", "reason:N"]
        )
        ring = base.mark_point(
            shape="circle", filled=False, size=190, color=self.theme.alarm, opacity=1, strokeWidth=1.75
        )
        return [ring]

    def leaders(self, place: PanelLayout) -> list[Any]:
        """From the end of each line to its label, where the label had to move."""
        rows = []
        for index, label in enumerate(place.labels):
            stop = label.x - (4 if label.colour is None else lay.MARKER_GAP + 3 + self.sample)
            corners = [(label.end_x, label.end_y), (max(label.end_x, place.width), label.end_y), (stop, label.y)]
            if abs(label.end_x - place.width) > 2 * lay.LABEL_GAP:  # the line ends early: go straight
                corners = [corners[0], corners[2]]
            rows += [
                {"x": place.x.value(x), "y": place.y.value(place.height - y), "leader": index, "order": order}
                for order, (x, y) in enumerate(corners)
            ]
        line = self.alt.Chart(self.data(rows)).mark_line(strokeWidth=1, color=self.theme.axis, opacity=0.8, aria=False)
        return [line.encode(x=self.x(place), y=self.y(place), detail="leader:N", order="order:Q")]

    def labels(self, place: PanelLayout) -> list[Any]:
        alt = self.alt
        rows = [
            {
                "text": label.text, "colour": label.colour, "x": place.x.value(label.x),
                "marker": place.x.value(label.x - lay.MARKER_GAP / 2 - 2 - self.sample / 2),
                "y": place.y.value(place.height - label.y), "variant": label.variant,
                "from": place.x.value(label.x - lay.MARKER_GAP - self.sample), "to": place.x.value(label.x - 5),
            }
            for label in place.labels
        ]  # fmt: skip
        text = alt.Chart(self.data(rows)).mark_text(
            align="left", baseline="middle", fontSize=lay.LABEL_SIZE, color=self.theme.ink
        )
        out = [text.encode(x=self.x(place), y=self.y(place), text="text:N", description="text:N")]
        named = [row for row in rows if row["colour"] is not None]
        if named:
            if self.sample:
                piece = alt.Chart(self.data(named)).mark_rule(strokeWidth=2, aria=False)
                start = alt.X("from:Q", scale=self.scale(place, "x"), axis=self.x_axis(place))
                piece = piece.encode(x=start, x2="to:Q", y=self.y(place), color=self.colour(), strokeDash=self.dash())
                out.append(piece)
            points = alt.Chart(self.data(named)).mark_point(filled=True, size=60, opacity=1, aria=False)
            x = alt.X("marker:Q", scale=self.scale(place, "x"), axis=self.x_axis(place))
            out.append(points.encode(x=x, y=self.y(place), color=self.colour(), shape=self.shape()))
        return out

    # ------------------------------------------------------------------ encodings

    def data(self, rows: list[dict[str, Any]]) -> Any:
        return self.alt.InlineData(values=rows)

    def x(self, place: PanelLayout) -> Any:
        return self.alt.X("x:Q", scale=self.scale(place, "x"), axis=self.x_axis(place))

    def y(self, place: PanelLayout) -> Any:
        axis = self.axis(place.y.ticks, title=None, grid=True, domain=False, ticks=False, labelPadding=6)
        return self.alt.Y("y:Q", scale=self.scale(place, "y"), axis=axis)

    def x_axis(self, place: PanelLayout) -> Any:
        return self.axis(
            place.x.ticks,
            title=axis_title(place.panel.x),
            grid=False,
            domain=True,
            ticks=True,
            tickSize=5,
            titlePadding=6,
        )

    def axis(self, places: tuple[Tick, ...], **more: Any) -> Any:
        theme, values = self.theme, [tick.value for tick in places]
        texts = json.dumps([tick.text for tick in places])
        return self.alt.Axis(
            values=values, labelExpr=f"{texts}[indexof({json.dumps(values)}, datum.value)]",
            labelOverlap=False, labelFlush=False,
            labelFontSize=lay.TICK_SIZE, titleFontSize=lay.TICK_SIZE, titleFontWeight="normal",
            labelColor=theme.quiet_ink, titleColor=theme.quiet_ink, gridColor=theme.grid, domainColor=theme.axis,
            tickColor=theme.axis, **more,
        )  # fmt: skip

    def scale(self, place: PanelLayout, which: str) -> Any:
        of, axis = (place.x, place.panel.x) if which == "x" else (place.y, place.panel.y)
        kind = {"type": "log", "base": 2 if axis.scale == "log2" else 10} if of.is_log else {"type": "linear"}
        return self.alt.Scale(domain=[of.low, of.high], nice=False, zero=False, **kind)

    def colour(self, channel: Any = None) -> Any:
        scale = self.alt.Scale(
            domain=list(self.looks), range=[look.colours[self.theme.name] for look in self.looks.values()]
        )
        return (channel or self.alt.Color)("colour:N", scale=scale, legend=None)

    def shape(self) -> Any:
        scale = self.alt.Scale(domain=list(self.looks), range=[look.shape for look in self.looks.values()])
        return self.alt.Shape("colour:N", scale=scale, legend=None)

    def dash(self) -> Any:
        variants = sorted({series.variant for place in self.layout.panels for series in place.panel.series})
        scale = self.alt.Scale(domain=variants, range=[list(DASHES[variant % len(DASHES)]) for variant in variants])
        return self.alt.StrokeDash("variant:N", scale=scale, legend=None)
