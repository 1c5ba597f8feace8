"""Figures of measurements: rows -> Chart (plain data) -> SVG and PNG.

    chart.py            the noun: panels, axes with units, series, bands, notes. Numbers stay in SI.
    lines.py            rows -> lines: what is one line, and what is one point of it
    fits.py             a line -> its fit, and the ribbon that shows it
    figures/            one file a figure, rows -> Chart
    layout.py           Chart -> pixels: panels and labels that do not overlap
    axes.py             ranges, ticks, and how numbers are printed beside them
    palette.py          one fixed colour and marker per collective; two themes
    render_altair.py    Chart -> SVG, PNG, Vega-Lite; with altair_pen.py and altair_marks.py all that knows a plotting library

To add a figure, drop one file into `busbw/plots/figures/`: its name is the name that users type. It defines `FIGURE`, a
`busbw.plots.figure.Figure` with a one-line summary and `build(measurements, options) -> Chart`. The command line, the
contract tests and the docs list it from there. `build` prints nothing, draws nothing and reads no clock; it raises
UsageError when no row can be drawn, and says in `Chart.notes` which rows it left out and why.
"""
