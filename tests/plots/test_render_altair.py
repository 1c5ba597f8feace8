from __future__ import annotations

import builtins
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from busbw.core.measurement import Mark, Measurement
from busbw.errors import MissingDependency, UsageError
from busbw.formats import read_results
from busbw.plots.chart import Chart
from busbw.plots.figure import FIGURES, FigureOptions
from busbw.plots.palette import THEMES, collective_look

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from busbw.plots.render_altair import svg_to_png, to_png, to_spec, to_svg

from .boxes import overlapping, size, text_boxes
from .rows import row, two_runs

MIB = 2**20
PRIMITIVES = ("broadcast", "scatter", "gather", "all_gather", "reduce_scatter", "all_reduce")


def six_lines_ending_together(world_sizes: tuple[int, ...] = (8,)) -> list[Measurement]:
    """Every op ends within 2 % of 19 GB/s: the hardest case for labels at line ends."""
    rows = []
    for world_size in world_sizes:
        for index, op in enumerate(PRIMITIVES):
            for octave in range(10, 31):
                probe = row(op, world_size, 2**octave, 1.0)
                factor = probe.call.kind.bus_factor(world_size)
                time_s = 2e-5 + factor * 2**octave / (19e9 * (1 + 0.003 * index))
                marks = (Mark("drift", "the level drifts"),) if octave == 20 and index == 2 else ()
                rows.append(row(op, world_size, 2**octave, time_s, marks=marks, low_high=(time_s * 0.95, time_s * 1.1)))
    return rows


def texts(svg: str) -> list[str]:
    return [box.text for box in text_boxes(svg)]


@pytest.fixture(scope="module")
def golden_rows() -> list[Measurement]:
    golden = Path(__file__).resolve().parents[1] / "golden" / "plots.csv"
    return list(read_results(str(golden)).measurements)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("figure", FIGURES.names())
def test_every_figure_in_both_themes_is_well_formed_with_its_texts_as_text(figure: str, theme: str) -> None:
    chart = FIGURES.get(figure).build(two_runs(), FigureOptions(wire_limit_Bps=25e9))
    svg = to_svg(chart, theme)
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["aria-label"] == f"{chart.title}. {chart.subtitle}"
    assert root[0].attrib["fill"] == THEMES[theme].background
    found = texts(svg)
    assert chart.title in found
    for panel in chart.panels:
        assert panel.title in found
        for part in (*panel.series, *panel.layers, *panel.strips, *panel.boundaries):
            assert any(text.startswith(part.label) for text in found)
        assert {remark.text for remark in panel.remarks} <= set(found)
    assert {"1 MiB", "16 MiB"} & set(found)
    assert not {"4096", "1073741824"} & set(found)


@pytest.mark.parametrize("width", [340, 380, 760, 1280])
@pytest.mark.parametrize("figure", FIGURES.names())
def test_no_figure_has_texts_over_each_other_or_off_the_sheet(figure: str, width: float) -> None:
    rows = two_runs() if figure == "ratio_of_runs" else two_runs()[:38]
    svg = to_svg(FIGURES.get(figure).build(rows, FigureOptions(wire_limit_Bps=25e9)), width=width)
    boxes = text_boxes(svg)
    assert overlapping(boxes) == []
    sheet_width, sheet_height = size(svg)
    assert min(box.left for box in boxes) >= 0
    assert max(box.right for box in boxes) <= sheet_width
    assert max(box.bottom for box in boxes) <= sheet_height
    assert sheet_width <= width + 2


@pytest.mark.parametrize("width", [340, 380, 760, 1280])
@pytest.mark.parametrize("world_sizes", [(8,), (2, 4), (2, 4, 8), (2, 4, 8, 16)])
def test_no_text_lies_on_another_or_runs_off_the_sheet(width: float, world_sizes: tuple[int, ...]) -> None:
    options = FigureOptions(wire_limit_Bps=19.5e9)
    svg = to_svg(FIGURES.get("busbw_over_size").build(six_lines_ending_together(world_sizes), options), width=width)
    boxes = text_boxes(svg)
    assert overlapping(boxes) == []
    sheet_width, sheet_height = size(svg)
    assert min(box.left for box in boxes) >= 0
    assert max(box.right for box in boxes) <= sheet_width
    assert max(box.bottom for box in boxes) <= sheet_height
    assert sheet_width <= width + 2


@pytest.mark.parametrize("figure", ["scaling_with_n", "time_over_size"])
def test_many_world_sizes_do_not_overlap(figure: str) -> None:
    rows = six_lines_ending_together((2, 3, 4, 6, 8, 16, 32, 64, 128, 256))
    boxes = text_boxes(to_svg(FIGURES.get(figure).build(rows, FigureOptions())))
    assert overlapping(boxes) == []
    assert sum(box.text.startswith("N = ") for box in boxes) == 10 * (2 if figure == "scaling_with_n" else 1)


def test_a_collective_has_its_colour_in_each_theme(golden_rows: list[Measurement]) -> None:
    chart = FIGURES.get("busbw_over_size").build(golden_rows, FigureOptions())
    for theme in THEMES:
        svg = to_svg(chart, theme)
        for name in ("all_reduce", "all_gather"):
            assert collective_look(name).colours[theme] in svg


def test_variants_are_dashed_and_show_their_dash_beside_the_label() -> None:
    rows = [
        row("all_reduce", 8, size, 1e-5 + size / 1e10, labels={"NCCL_ALGO": algorithm})
        for algorithm in ("Ring", "Tree")
        for size in (1024, MIB)
    ]
    svg = to_svg(FIGURES.get("busbw_over_size").build(rows, FigureOptions()))
    assert {"all_reduce Ring", "all_reduce Tree"} <= set(texts(svg))
    assert svg.count('stroke-dasharray="6,3"') == 2  # the line, and the piece of it beside its label


def test_marks_and_intervals_are_drawn() -> None:
    plain = row("all_reduce", 8, MIB, 1e-3)
    marked = row("all_reduce", 8, MIB, 1e-3, marks=(Mark("drift", "the level drifts"),), low_high=(0.9e-3, 1.2e-3))
    alarm = THEMES["light"].alarm
    build = FIGURES.get("busbw_over_size").build
    assert alarm not in to_svg(build([plain], FigureOptions()))
    svg = to_svg(build([marked], FigureOptions()))
    assert svg.count(f'stroke="{alarm}"') == 1  # the ring
    assert "the level drifts" in svg


def test_text_from_files_is_escaped() -> None:
    rows = [row("all_reduce", 8, MIB, 1e-3, labels={"host": host}) for host in ("<script>alert(1)</script>", "b & c")]
    svg = to_svg(FIGURES.get("busbw_over_size").build(rows, FigureOptions()))
    assert "<script" not in svg
    assert "all_reduce <script>alert(1)</script>" in texts(svg)


def test_a_point_says_its_numbers_to_a_screen_reader(golden_rows: list[Measurement]) -> None:
    svg = to_svg(FIGURES.get("time_over_size").build(golden_rows, FigureOptions()))
    assert 'aria-label="N = 2, 4 KiB: 10.2 us"' in svg
    assert not re.search(r'aria-label="x: ', svg)


def test_png_has_two_pixels_for_each_of_the_svg(golden_rows: list[Measurement]) -> None:
    chart: Chart = FIGURES.get("time_over_size").build(golden_rows, FigureOptions())
    svg = to_svg(chart)
    png = svg_to_png(svg)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    assert (width, height) == pytest.approx([2 * side for side in size(svg)], abs=2)
    assert to_png(chart, scale=1.0)[16:20] != png[16:20]


def test_the_specification_holds_its_data_and_is_the_same_each_time(golden_rows: list[Measurement]) -> None:
    chart = FIGURES.get("time_over_size").build(golden_rows, FigureOptions())
    spec = to_spec(chart, "dark", 380)
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
    assert spec["background"] == THEMES["dark"].background
    seconds = {row["y"] for rows in spec["datasets"].values() for row in rows if row.get("label") == "N = 2"}
    assert seconds == set(chart.panels[0].series[0].y)
    assert json.loads(json.dumps(spec)) == spec == to_spec(chart, "dark", 380)


def test_an_unknown_theme_is_refused(golden_rows: list[Measurement]) -> None:
    with pytest.raises(UsageError, match="unknown theme"):
        to_svg(FIGURES.get("time_over_size").build(golden_rows, FigureOptions()), "sepia")


def test_without_the_libraries_the_message_is_the_install_command(
    golden_rows: list[Measurement], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **more: Any) -> Any:
        if name.split(".")[0] in ("altair", "vl_convert"):
            raise ImportError(name)
        return real(name, *args, **more)

    chart = FIGURES.get("time_over_size").build(golden_rows, FigureOptions())
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingDependency, match=r"altair and vl-convert-python.*pip install 'busbw\[plot\]'"):
        to_svg(chart)
