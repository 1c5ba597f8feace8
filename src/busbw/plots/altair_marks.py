"""The marks of a panel, from back to front; each function returns Altair charts to be laid over each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from busbw.plots import layout as lay
from busbw.plots.altair_pen import Pen
from busbw.plots.axes import format_value


def marks(pen: Pen) -> list[Any]:
    """Everything that lies in a panel."""
    drawers = (
        _bands, _layers, _reference_lines, _boundaries, _leaders, _ribbons, _strips, _intervals, _series, _marked,
        _labels, _inner,
    )  # fmt: skip
    return [chart for draw in drawers for chart in draw(pen)]


def _bands(pen: Pen) -> Iterator[Any]:
    place = pen.place
    rows = [
        {
            "x": place.x.low if band.x_low is None else max(band.x_low, place.x.low),
            "x2": place.x.high if band.x_high is None else min(band.x_high, place.x.high),
            "y": place.y.low if band.y_low is None else pen.clamped(band.y_low),
            "y2": place.y.high if band.y_high is None else pen.clamped(band.y_high),
            "colour": band.colour,
        }
        for band in place.panel.bands
    ]
    coloured = [row for row in rows if row["colour"] is not None]
    neutral = [row for row in rows if row["colour"] is None]
    for chosen in (neutral, coloured):
        if chosen:
            chart = pen.chart(chosen).mark_rect(aria=False, opacity=0.14, fill=pen.theme.axis)
            chart = chart.encode(x=pen.x(), x2="x2:Q", y=pen.y(), y2="y2:Q")
            yield chart.encode(fill=pen.colour(pen.alt.Fill)) if chosen is coloured else chart


def _layers(pen: Pen) -> Iterator[Any]:
    panel = pen.place.panel
    below: tuple[float, ...] = (0.0,) * (len(panel.layers[0].x) if panel.layers else 0)
    for layer, edge in zip(panel.layers, panel.stack, strict=True):
        rows = [
            {"x": x, "y": high, "y2": low, "colour": layer.colour}
            for x, low, high in zip(layer.x, below, edge, strict=True)
        ]
        base = pen.chart(rows).encode(x=pen.x(), y=pen.y())
        area = base.mark_area(opacity=0.9, description=layer.label)
        yield area.encode(y2="y2:Q", fill=pen.colour(pen.alt.Fill))
        # Parts stay apart for those who see no colours.
        yield base.mark_line(color=pen.theme.background, strokeWidth=1.5, aria=False)
        below = edge


def _reference_lines(pen: Pen) -> Iterator[Any]:
    place = pen.place
    rows = [{"x": place.x.low, "x2": place.x.high, "y": line.y} for line in place.panel.lines]
    if rows:
        rule = pen.chart(rows).mark_rule(strokeWidth=1.5, strokeDash=[2, 3], color=pen.theme.quiet_ink, aria=False)
        yield rule.encode(x=pen.x(), x2="x2:Q", y=pen.y())


def _boundaries(pen: Pen) -> Iterator[Any]:
    place = pen.place
    rows = [{"x": line.x, "y": place.y.low, "y2": place.y.high} for line in place.panel.boundaries]
    if rows:
        rule = pen.chart(rows).mark_rule(strokeWidth=1.5, strokeDash=[5, 3], color=pen.theme.ink, aria=False)
        yield rule.encode(x=pen.x(), y=pen.y(), y2="y2:Q")


def _leaders(pen: Pen) -> Iterator[Any]:
    """From the end of each line to its label, where the label had to move."""
    place, rows = pen.place, []
    for index, label in enumerate(place.labels):
        if label.end is None:
            continue
        end_x, end_y = label.end
        stop = label.x - (4 if label.colour is None else lay.MARKER_GAP + 3 + pen.sample)
        corners = [(end_x, end_y), (max(end_x, place.width), end_y), (stop, label.y)]
        if abs(end_x - place.width) > 2 * lay.LABEL_GAP:  # the line ends early: go straight
            corners = [corners[0], corners[2]]
        rows += [{**pen.at(x, y), "leader": index, "order": order} for order, (x, y) in enumerate(corners)]
    if rows:
        line = pen.chart(rows).mark_line(strokeWidth=1, color=pen.theme.axis, opacity=0.8, aria=False)
        yield line.encode(x=pen.x(), y=pen.y(), detail="leader:N", order="order:Q")


def _ribbons(pen: Pen) -> Iterator[Any]:
    rows = [
        {"x": x, "y": y, "low": low, "high": high, "ribbon": index, "colour": ribbon.colour, "variant": ribbon.variant}
        for index, ribbon in enumerate(pen.place.panel.ribbons)
        for x, y, low, high in zip(ribbon.x, ribbon.y, ribbon.low, ribbon.high, strict=True)
    ]
    if rows:
        base = pen.chart(rows).encode(x=pen.x(), detail="ribbon:N")
        area = base.mark_area(opacity=0.2, aria=False)
        yield area.encode(y=pen.y("low"), y2="high:Q", fill=pen.colour(pen.alt.Fill))
        line = base.mark_line(strokeWidth=1.75, aria=False)
        yield line.encode(y=pen.y(), color=pen.colour(), strokeDash=pen.dash(), order="x:Q")


def _strips(pen: Pen) -> Iterator[Any]:
    place = pen.place
    inside: list[dict[str, Any]] = []
    outside: list[dict[str, Any]] = []
    rings = []
    for index, strip in enumerate(place.panel.strips):
        middle, last = place.x.pixel(strip.x), max(1, len(strip.y) - 1)
        for order, y in enumerate(strip.y):
            share = order / last - 0.5 if len(strip.y) > 1 else 0.0
            row = {"x": place.x.value(middle + share * place.slot), "y": pen.clamped(y), "colour": strip.colour}
            (inside if row["y"] == y else outside).append({**row, "strip": index, "below": y < place.y.low})
        if strip.marks:
            reason = "; ".join(mark.reason for mark in strip.marks)
            rings.append({"x": strip.x, "y": place.y.value(place.height - 9), "reason": reason})
    if inside:
        yield _dots(pen, inside, "circle", 9)
    for below, shape in ((False, "triangle-up"), (True, "triangle-down")):
        chosen = [row for row in outside if row["below"] == below]
        if chosen:
            yield _dots(pen, chosen, shape, 34)
    if rings:
        yield _rings(pen, rings, 90)


def _dots(pen: Pen, rows: list[dict[str, Any]], shape: str, size: int) -> Any:
    dots = pen.chart(rows).mark_point(filled=True, shape=shape, size=size, opacity=0.8, aria=False)
    return dots.encode(x=pen.x(), y=pen.y(), color=pen.colour())


def _intervals(pen: Pen) -> Iterator[Any]:
    place = pen.place
    rows = [
        {"x": place.shifted(x, i), "y": pen.clamped(low), "y2": pen.clamped(high), "colour": series.colour}
        for i, series in enumerate(place.panel.series)
        for x, low, high in zip(series.x, series.low, series.high, strict=False)
        if low is not None and high is not None
    ]
    if rows:
        bars = pen.chart(rows).mark_rule(strokeWidth=1.5, opacity=0.75, aria=False)
        yield bars.encode(x=pen.x(), y=pen.y(), y2="y2:Q", color=pen.colour())


def _series(pen: Pen) -> Iterator[Any]:
    panel, place = pen.place.panel, pen.place
    rows = [
        {
            "series": index, "label": series.label, "colour": series.colour, "variant": series.variant,
            "x": place.shifted(x, index), "y": pen.clamped(y), "joined": series.joined,
            "x_text": format_value(x, panel.x.unit), "y_text": format_value(y, panel.y.unit),
            "said": f"{series.label}, {format_value(x, panel.x.unit)}: {format_value(y, panel.y.unit)}",
        }
        for index, series in enumerate(panel.series)
        for x, y in zip(series.x, series.y, strict=True)
    ]  # fmt: skip
    joined = [row for row in rows if row.pop("joined")]
    if joined:
        line = pen.chart(joined).mark_line(strokeWidth=2, strokeJoin="round", aria=False)
        encoded = line.encode(x=pen.x(), y=pen.y(), color=pen.colour(), detail="series:N")
        yield encoded.encode(order="x:Q", strokeDash=pen.dash())
    if rows:
        points = pen.chart(rows).mark_point(filled=True, size=44, opacity=1)
        encoded = points.encode(x=pen.x(), y=pen.y(), color=pen.colour(), detail="series:N", shape=pen.shape())
        yield encoded.encode(description="said:N", tooltip=["label:N", "x_text:N", "y_text:N"])


def _marked(pen: Pen) -> Iterator[Any]:
    rows = [
        {
            "x": pen.place.shifted(point.x, index), "y": pen.clamped(point.y), "label": series.label,
            "reason": "; ".join(mark.reason for mark in point.marks),
        }
        for index, series in enumerate(pen.place.panel.series)
        for point in series.marked
    ]  # fmt: skip
    if rows:
        yield _rings(pen, rows, 190).encode(tooltip=["label:N", "reason:N"])


def _rings(pen: Pen, rows: list[dict[str, Any]], size: int) -> Any:
    ring = pen.chart(rows).mark_point(
        shape="circle", filled=False, size=size, color=pen.theme.alarm, opacity=1, strokeWidth=1.75
    )
    return ring.encode(x=pen.x(), y=pen.y(), description="reason:N", tooltip=["reason:N"])


def _labels(pen: Pen) -> Iterator[Any]:
    rows = [
        {
            **pen.at(label.x, label.y), "text": label.text, "colour": label.colour, "variant": label.variant,
            "marker": pen.place.x.value(label.x - lay.MARKER_GAP / 2 - 2 - pen.sample / 2),
            "from": pen.place.x.value(label.x - lay.MARKER_GAP - pen.sample), "to": pen.place.x.value(label.x - 5),
        }
        for label in pen.place.labels
    ]  # fmt: skip
    if rows:
        yield pen.text(rows, "left")
    named = [row for row in rows if row["colour"] is not None]
    if named and pen.sample:
        piece = pen.chart(named).mark_rule(strokeWidth=2, aria=False)
        yield piece.encode(x=pen.x("from"), x2="to:Q", y=pen.y(), color=pen.colour(), strokeDash=pen.dash())
    if named:
        points = pen.chart(named).mark_point(filled=True, size=60, opacity=1, aria=False)
        yield points.encode(x=pen.x("marker"), y=pen.y(), color=pen.colour(), shape=pen.shape())


def _inner(pen: Pen) -> Iterator[Any]:
    for align in ("left", "right"):
        rows = [{**pen.at(label.x, label.y), "text": label.text} for label in pen.place.inner if label.align == align]
        if rows:
            yield pen.text(rows, align, color=pen.theme.quiet_ink)
