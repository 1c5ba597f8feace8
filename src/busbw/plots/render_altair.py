"""Chart -> SVG and PNG with Altair and vl-convert: no browser, no network. The only file that knows either."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

from busbw.errors import MissingDependency
from busbw.plots import layout as lay
from busbw.plots.altair_marks import marks
from busbw.plots.altair_pen import Pen
from busbw.plots.axes import TICK_SIZE, axis_title
from busbw.plots.chart import Chart
from busbw.plots.layout import Layout, PanelLayout, lay_out
from busbw.plots.palette import Look, Theme, find_theme, looks
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
    names = looks(colour for panel in chart.panels for colour in panel.colours)
    variants = tuple(sorted({variant for panel in chart.panels for variant in panel.variants}))
    place, sample = lay_out(chart, width), lay.sample_length(chart)
    return _Renderer(alt, find_theme(theme), place, names, variants, sample).draw(chart)


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
    variants: tuple[int, ...]
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
        layers = marks(Pen(alt, theme, self.looks, self.variants, self.sample, place))
        title = alt.TitleParams(
            text=panel.title or axis_title(panel.y), subtitle=axis_title(panel.y) if panel.title else [],
            anchor="start", frame="group", fontSize=14, subtitleFontSize=TICK_SIZE, color=theme.ink,
            subtitleColor=theme.quiet_ink, fontWeight="bold" if panel.title else "normal", offset=8,
        )  # fmt: skip
        return alt.layer(*layers).properties(width=place.width, height=place.height, title=title)

    def notes(self) -> Any:
        alt, step = self.alt, lay.NOTE_SIZE * 1.4
        rows = [{"text": text, "y": step * (i + 0.5)} for i, text in enumerate(self.layout.notes)]
        return (
            alt.Chart(alt.InlineData(values=rows))
            .mark_text(align="left", baseline="middle", fontSize=lay.NOTE_SIZE, color=self.theme.quiet_ink)
            .encode(
                x=alt.value(-self.layout.panels[0].left),
                y=alt.Y("y:Q", scale=None, axis=None),
                text="text:N",
                description="text:N",
            )
            .properties(width=self.layout.width - self.layout.panels[0].left, height=step * len(rows))
        )
