"""A schedule as an animation: an HTML fragment for other pages, or a page of its own. Nothing is loaded from elsewhere.

Python follows the schedule and lays it out; the script only shows one of the states, or flies what moves to where it goes.
"""

from __future__ import annotations

import html
import json
import re
import zlib
from importlib.resources import files
from typing import Any

from busbw.core.schedule import Schedule
from busbw.draw.cells import contributors
from busbw.draw.colours import colours, letter
from busbw.draw.replay import Replay, Step, replay
from busbw.draw.ring import Places, arrows, lay_out, ring_order
from busbw.draw.scene import Box, Line, Text
from busbw.draw.schedule import check_size, description, title
from busbw.errors import UsageError

MOST_BYTES = 2_000_000
THEMES = ("auto", "light", "dark")


def schedule_fragment(schedule: Schedule, *, theme: str = "auto", uid: str | None = None) -> str:
    """The animation as an HTML fragment with its own style and script, all names in it prefixed by `uid` or `bwa`.

    Of several in one page, each has a style of its own. `theme` "auto" follows the reader's preference, and a
    `data-theme` of "light" or "dark" on an element around it. UsageError where N is too large to be read.
    """
    if theme not in THEMES:
        raise UsageError(f"unknown theme {theme!r}: choose from {', '.join(THEMES)}")
    check_size(schedule)
    play = replay(schedule)
    places = lay_out(play, ring_order(play), _cell_size(play))
    data = json.dumps(_data(play, places), separators=(",", ":")).replace("<", "\\u003c")
    if len(data) > MOST_BYTES:
        raise UsageError(f"{title(schedule)}: {len(play.steps)} steps are too many for an animation; use a smaller N")
    assert uid is None or re.fullmatch(r"[A-Za-z][\w-]*", uid), f"uid {uid!r} is no identifier"
    name = uid or f"bwa-{zlib.crc32(data.encode()):08x}"
    said = f"{title(schedule)}. {description(play)}"
    steps = len(play.steps)
    return f"""<section class="bwa" id="{name}" tabindex="0" role="group" aria-label="{html.escape(title(schedule))}, animation">
<style>{_style(name, theme)}</style>
<p class="bwa-title"><strong>{html.escape(title(schedule))}</strong><br>{html.escape(description(play))}</p>
<svg class="bwa-stage" viewBox="-2 -2 {places.width + 4:.0f} {places.height + 4:.0f}" style="max-width:{places.width * 1.5:.0f}px" \
role="img" aria-label="{html.escape(said)}">{_stage(play, places)}</svg>
<div class="bwa-controls">
<button type="button" data-do="first" aria-label="to the start">|◀</button>
<button type="button" data-do="back" aria-label="one step back">◀</button>
<button type="button" data-do="play" class="bwa-play" aria-label="play">▶ play</button>
<button type="button" data-do="next" aria-label="one step on">▶|</button>
<label class="bwa-scrub">step <input type="range" min="0" max="{steps}" value="0" step="1" aria-label="step" \
aria-valuetext="start"></label>
<output class="bwa-count">0 / {steps}</output>
<label>speed <select aria-label="speed"><option value="0.5">½×</option><option value="1" selected>1×</option>\
<option value="2">2×</option><option value="4">4×</option></select></label>
</div>
<p class="bwa-say" aria-live="polite">start</p>
<p class="bwa-legend">{_legend(play)}</p>
<script type="application/json" class="bwa-data">{data}</script>
<script>{_asset("animation.js")}({json.dumps(name)});</script>
</section>"""


def schedule_page(schedule: Schedule, *, theme: str = "auto") -> str:
    """The animation as one self-contained HTML file."""
    scheme = {"auto": "light dark"}.get(theme, theme)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="{scheme}">
<title>{html.escape(title(schedule))}</title>
<style>body {{ margin: 0 auto; max-width: 1100px; padding: 12px; background: Canvas; }}</style>
</head>
<body>
<main>
{schedule_fragment(schedule, theme=theme)}
</main>
</body>
</html>
"""


def _cell_size(play: Replay) -> tuple[float, float]:
    return (26.0, 40.0) if play.slots <= 4 else (18.0, 32.0) if play.slots <= 8 else (15.0, 25.0)


def _data(play: Replay, places: Places) -> dict[str, Any]:
    """All that the script needs. A cell is numbered place x slots + slot; a content is [ranks, level, is final, is sum]."""
    number = {cell: cell[0] * play.slots + cell[1] for cell in places.cells}
    boxes = {
        number[cell]: [round(v, 1) for v in (box.x, box.y, box.width, box.height)] for cell, box in places.cells.items()
    }

    def content(time: int, cell: tuple[int, int]) -> list[Any]:
        held = play.states[time].get(cell, frozenset())
        final, is_sum = play.is_final(cell, held), play.is_sum(held)
        return [contributors(held), round(play.level(held), 4) if held else 0, int(final), int(is_sum)]

    def left_over(time: int) -> list[int]:
        return [number[cell] for cell in places.cells if cell in play.states[time] and cell not in play.live[time]]

    steps = []
    for time, step in enumerate(play.steps, start=1):
        pairs = [pair for move in step.moves for pair in move.cells()]
        kinds = {target: move.reduces for move in step.moves for _, target in move.cells()}
        steps.append(
            {
                "say": f"step {time} of {len(play.steps)}"
                + (f", {step.label}" if step.label else "")
                + f": {_said(play, step)}",
                "fly": [[number[source], number[target]] for source, target in pairs if source != target],
                "kind": [[number[cell], int(reduces)] for cell, reduces in kinds.items()],
                "set": [[number[cell], content(time, cell)] for cell in kinds],
                "old": left_over(time),
                "lines": _lines(step, places),
            }
        )
    return {
        "cells": [boxes[index] for index in sorted(boxes)],
        "start": [[number[cell], content(0, cell)] for cell in places.cells if cell in play.states[0]],
        "old": left_over(0),
        "steps": steps,
    }


def _lines(step: Step, places: Places) -> list[Any]:
    """Arrows as [path, is it added] and their labels as [x, y, text, is it added]."""
    out: list[Any] = []
    for item in arrows(step.moves, places):
        if isinstance(item, Line):
            points = [f"{x:.1f},{y:.1f}" for x, y in item.points]
            path = f"M{points[0]}Q{points[1]} {points[2]}" if item.curve else f"M{'L'.join(points)}"
            out.append([path, int(item.role == "adds")])
        elif isinstance(item, Text):
            out.append([round(item.x, 1), round(item.y, 1), item.text, int(item.role == "adds")])
    return out


def _said(play: Replay, step: Step) -> str:
    """The step in words, for the line under the picture."""
    parts = []
    for move in step.moves[:4]:
        if move.source == move.target:
            continue
        ends = ["the switch" if place == play.world_size else f"rank {place}" for place in (move.source, move.target)]
        last = move.source_slot + move.length - 1
        one = move.length == 1
        slots = f"slot {move.source_slot}" if one else f"slots {move.source_slot}–{last}"
        added, replaced = ("is added", "replaces") if one else ("are added", "replace")
        done = added if move.reduces else replaced
        parts.append(f"{ends[0]} → {ends[1]}: {slots} {done}")
    more = len(step.moves) - 4
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")


def _stage(play: Replay, places: Places) -> str:
    """What stays: the ranks' frames, names and slot numbers, and the layers that the script fills."""
    out = []
    for index, box in enumerate(places.ranks):
        is_rank = index < play.world_size
        edge = f"rank-{index}" if is_rank else "nvswitch-edge"
        name = f"rank {index} · {letter(index)}" if is_rank else "switch"
        out.append(_rectangle(box, f"fill:var(--bwa-panel);stroke:var(--bwa-{edge});stroke-width:1.5", 5))
        out.append(f'<text x="{box.centre[0]:.1f}" y="{box.y + 15:.1f}" class="bwa-name">{name}</text>')
    for (_, slot), box in places.cells.items():
        out.append(f'<text x="{box.centre[0]:.1f}" y="{box.bottom + 11:.1f}" class="bwa-slot">{slot}</text>')
    layers = "".join(f'<g class="bwa-{layer}"></g>' for layer in ("slots", "lines", "marks", "flyers"))
    return "".join(out) + layers


def _rectangle(box: Box, style: str, radius: float) -> str:
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
    return f'<rect {place} rx="{radius}" style="{style}"/>'


def _legend(play: Replay) -> str:
    sums = any(count > 1 for count in play.need.values())
    words = []
    if sums:
        words.append("A slot fills up as ranks' data are added to it; Σ is the finished sum.")
    else:
        words.append("A slot has the colour of the rank that its data is from.")
    words.append("A strong frame: what the rank has to end with. Pale: left over, not read again.")
    if any(move.reduces for step in play.steps for move in step.moves):
        words.append('<b class="bwa-adds">+ slot</b>: arrives and is added.')
    if any(not move.reduces for step in play.steps for move in step.moves):
        words.append('<b class="bwa-copies">= slot</b>: arrives and replaces.')
    words.append("Keys: space plays, ← and → step, Home and End jump.")
    return " ".join(words)


def _style(name: str, theme: str) -> str:
    used = (
        "background",
        "ink",
        "quiet",
        "panel",
        "edge",
        "cell",
        "cell edge",
        "adds",
        "copies",
        "done",
        "nvswitch edge",
    )

    def block(which: str) -> str:
        paint = {role: colour for role, colour in colours(which).items() if role in used or role.startswith("rank ")}
        names = "".join(
            f"--bwa-{role.replace(' ', '-')}:{colour};" for role, colour in paint.items() if "old" not in role
        )
        return f"{names}color-scheme:{which};"

    rules = [_asset("animation.css").replace(".bwa{", f"#{name}{{", 1)]
    if theme == "auto":
        rules.append(f"#{name}{{{block('light')}}}@media(prefers-color-scheme:dark){{#{name}{{{block('dark')}}}}}")
        rules += [f"[data-theme={which}] #{name}{{{block(which)}}}" for which in ("light", "dark")]
        rules.append(f"@media print{{#{name}{{{block('light')}}}}}")
    else:
        rules.append(f"#{name}{{{block(theme)}}}")
    return "".join(rules)


def _asset(name: str) -> str:
    return (files("busbw.draw") / name).read_text(encoding="utf-8").strip()
