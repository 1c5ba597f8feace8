"""Draws the post's figures and ours from the post's own results, and writes docs/the-post.md: what of the post holds.

    python examples/the_post/make.py [SEED] [--docs docs]

SEED is the folder with the post's CSV files (default: ../shared/data/seed beside this checkout). `make figures` does the
same. Run twice, it changes nothing.
"""

from __future__ import annotations

import argparse
import sys
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))

from statements import BESIDE, STATEMENTS, Judged, Post, Statement  # noqa: E402

from busbw.draw.images import write_docs_images  # noqa: E402
from busbw.findings.machines import find_machine  # noqa: E402
from busbw.formats import read_results  # noqa: E402
from busbw.plots.chart import Chart  # noqa: E402
from busbw.plots.figure import FIGURES, FigureOptions  # noqa: E402
from busbw.plots.render_altair import to_svg  # noqa: E402
from busbw.units import GB  # noqa: E402

MACHINE = "rtx-pro-6000-pcie"
SHOWN = {
    "busbw_over_size": "What the wires carry: busbw of the six primitives over message size at N = 2, 4 and 8.",
    "scaling_with_n": "What N costs: all-reduce at N = 2, 4 and 8, what the user feels, and what the wires carry.",
    "time_over_size": "Latency and bandwidth: time over message size, the latency floor up to the fitted boundary, then slope 1.",
    "all_reduce_against_halves": "One call or two: all-reduce against reduce-scatter and all-gather one after the other.",
    "where_the_time_goes": "Where the time goes: the fitted time of an all-reduce, parted into latency, bytes and what reducing adds.",
    "bucketed_sync": "Why gradients go in buckets: GPT-2's, from one call a tensor to one call in all.",
}
"""The figures that the post's rows allow, with the heading and what each shows."""


SCHEMATICS = {
    "primitives": "The primitives: what each rank holds before and after, what it sends, and the bus factor.",
    "ring_all_reduce": "The ring, step by step: N-1 steps of reduce-scatter, then N-1 of all-gather.",
    "topology": "The machine: with a ring all-reduce on it; speeds are nominal or assumed, not measured.",
}
"""What `busbw draw` makes from collectives, schedules and machines themselves, with the heading and what each shows."""


def charts(post: Post) -> dict[str, Chart]:
    """Every figure of `SHOWN`."""
    machine = find_machine(MACHINE)
    source = f"{machine.name}, one way, as scatter's root shows"
    wire = FigureOptions(wire_limit_Bps=machine.wire * GB, wire_source=source)
    asked = {"busbw_over_size": wire}  # where it says how far the plateaus are from it
    return {name: FIGURES.get(name).build(post.rows, asked.get(name, FigureOptions())) for name in SHOWN}


def page(post: Post) -> str:
    """docs/the-post.md."""
    judged = [(statement, statement.judge(post)) for statement in STATEMENTS]
    parts = [_INTRODUCTION, _table(judged)]
    for name in SCHEMATICS:
        parts += [f"## {_heading(name)}", _picture(name, _shown(name)), f"*{_shown(name)}*"]
    parts += _group("", [(s, j) for s, j in judged if not s.figure])
    with_figure = [(s, j) for s, j in judged if s.figure]
    ordered = sorted(with_figure, key=lambda pair: list(SHOWN).index(pair[0].figure))
    for figure, members in groupby(ordered, key=lambda pair: pair[0].figure):
        parts += _group(figure, list(members))
    parts += ["## Beside the text", "What the same rows say, and the post does not speak of."]
    said = (post.findings[law].statement for law in BESIDE)
    parts.append("\n".join(f"- {_marked(text[:1].upper() + text[1:])}" for text in said))
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """# The post, checked

<!-- Made by `make figures` (examples/the_post/make.py): edit that, not this. -->

This project began from a blog post, "The Price Of All-Reduce", and its results: 8 RTX PRO 6000 GPUs on PCIe Gen5, pairs under
switches, two sockets, NCCL 2.27.5, bfloat16; six collectives at N = 2, 4, 8 and six sizes, one mean a row. Here is each of its statements,
the number that it gives, and what its own rows say. The verdicts come from [findings](findings.md) and [fits](fitting.md);
every number but the post's is computed from the CSV files by `make figures`."""


def _table(judged: list[tuple[Statement, Judged]]) -> str:
    lines = ["| the post says | its number | from its rows | verdict |", "|---|---|---|---|"]
    lines += [f"| {s.title} | {s.says} | {j.numbers} | **{j.verdict}** |" for s, j in judged]
    return "\n".join(lines)


def _group(figure: str, members: list[tuple[Statement, Judged]]) -> list[str]:
    parts = [f"## {_heading(figure)}"]
    if figure:
        shown = _shown(figure)
        parts += [_picture(figure, shown), f"*{shown}*"]
    for statement, judged in members:
        text = f"**{statement.title}: {judged.verdict}.** The post: {statement.says}. {'Its rows' if figure else 'Counted'}: {judged.numbers}."
        parts.append(f"{text} {_marked(judged.more)}".rstrip())
    return parts


def _heading(figure: str) -> str:
    return (SHOWN | SCHEMATICS)[figure].partition(":")[0] if figure else "Bytes, counted"


def _shown(figure: str) -> str:
    text = (SHOWN | SCHEMATICS)[figure].partition(": ")[2]
    return text if text.startswith("busbw") else text[:1].upper() + text[1:]


def _picture(figure: str, alt: str) -> str:
    return (
        "<picture>\n"
        f'  <source media="(prefers-color-scheme: dark)" srcset="images/{figure}.dark.svg">\n'
        f'  <img alt="{alt}" src="images/{figure}.svg">\n'
        "</picture>"
    )


def _marked(text: str) -> str:
    """Plain text as Markdown: what would be markup is escaped."""
    for char in ("*", "_", "|", "<"):
        text = text.replace(char, f"\\{char}")
    return text


def main() -> int:
    """Draw, write, and say what was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", nargs="?", default=str(ROOT.parent / "shared" / "data" / "seed"))
    parser.add_argument("--docs", default=str(ROOT / "docs"), help="where the page goes, its images into images/")
    args = parser.parse_args()
    files = sorted(Path(args.seed).glob("*.csv"))
    if not files:
        print(f"make figures: no CSV in {args.seed}: name the folder of the post's results, SEED=DIR", file=sys.stderr)
        return 2
    post = Post([read_results(str(file)) for file in files])
    images = Path(args.docs) / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name, chart in charts(post).items():
        for theme, suffix in (("light", ""), ("dark", ".dark")):
            path = images / f"{name}{suffix}.svg"
            path.write_text(to_svg(chart, theme), encoding="utf-8")
            print(path)
    for path in write_docs_images(images):
        print(path)
    path = Path(args.docs) / "the-post.md"
    path.write_text(page(post), encoding="utf-8")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
