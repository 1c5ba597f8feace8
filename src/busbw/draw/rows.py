"""Ranks as rows, time to the right: each column is the state after a step, with what moved drawn between the columns."""

from __future__ import annotations

import math

from busbw.draw.cells import replay_items
from busbw.draw.colours import letter
from busbw.draw.replay import Cell, Move, Replay
from busbw.draw.ring import marks
from busbw.draw.scene import Box, Item, Line, Text
from busbw.plots.text import text_width, wrap

GUTTER, BAND_GAP, CAPTION_SIZE, NAME_SIZE, SLOT_SIZE = 62.0, 20.0, 11.5, 10.5, 8.0
CAPTION_ROOM = 46.0
PAD = 5.0


def fits(play: Replay, columns: int) -> float:
    """Pixels that so many columns need side by side."""
    return _names(play) + columns * _sheet(play)[0] + (columns - 1) * GUTTER


def band_items(play: Replay, shown: int, width: float) -> tuple[list[Item], float]:
    """All columns up to step `shown`, in bands of as many as fit; and the height of all.

    A band after the first one begins with the column that ended the one before.
    """
    wide, high = _sheet(play)
    columns = max(int((width - _names(play) + GUTTER) // (wide + GUTTER)), 2)
    items: list[Item] = []
    y, first = 0.0, 0
    while True:
        last = min(first + columns - 1, shown)
        items += _band(play, first, last, y, wide, high)
        y += CAPTION_ROOM + _row_count(play) * high + SLOT_SIZE + 4
        if last == shown:
            return items, y
        y, first = y + BAND_GAP, last


def _band(play: Replay, first: int, last: int, top: float, wide: float, high: float) -> list[Item]:
    items: list[Item] = []
    names = _names(play)
    y0 = top + CAPTION_ROOM
    for place in range(_row_count(play)):
        name = f"rank {place} · {letter(place)}" if place < play.world_size else "switch"
        items.append(Text(names - 8, y0 + (place + 0.5) * high, name, NAME_SIZE, "end", bold=True))
    columns: list[tuple[dict[int, Box], dict[Cell, Box]]] = []
    for index, time in enumerate(range(first, last + 1)):
        x = names + index * (wide + GUTTER)
        boxes, cells = _column(play, x, y0, wide, high, f" {time} {top:.0f}")
        columns.append((boxes, cells))
        items += boxes.values()
        items += replay_items(play, time, cells)
        items += [
            Text(
                cells[(0, slot)].centre[0],
                y0 + _row_count(play) * high + SLOT_SIZE * 0.75,
                str(slot),
                SLOT_SIZE,
                "middle",
                "quiet",
            )
            for slot in range(play.slots)
            if _slot_width(play) >= 9 or slot % 4 == 0
        ]
        label = "start" if time == 0 else f"after step {time}"
        items.append(Text(x, top + CAPTION_ROOM - 9, label, CAPTION_SIZE, bold=True))
        if index and time:
            step = play.steps[time - 1]
            before = columns[-2][0]
            items += marks(step.moves, cells)
            items += _arrows(step.moves, before, boxes)
            words = wrap(step.label, GUTTER + wide - 10, CAPTION_SIZE)[:2]
            items += [
                Text(x, top + CAPTION_ROOM - 9 - 14 * (len(words) - i), word, CAPTION_SIZE, role="quiet")
                for i, word in enumerate(words)
            ]
    return items


def _column(
    play: Replay, x: float, y: float, wide: float, high: float, suffix: str
) -> tuple[dict[int, Box], dict[Cell, Box]]:
    boxes, cells = {}, {}
    slot_width = _slot_width(play)
    for place in range(_row_count(play)):
        top = y + place * high + 2
        is_rank = place < play.world_size
        fill, edge = ("panel", f"rank {place}") if is_rank else ("nvswitch", "nvswitch edge")
        boxes[place] = Box(x, top, wide, high - 4, fill, edge, 1.2, 4, name=f"place {place}{suffix}")
        for slot in range(play.slots):
            left = x + PAD + slot * (slot_width + 2) + _parting(play, slot)
            cells[(place, slot)] = Box(left, top + 4, slot_width, high - 12)
    return boxes, cells


def _arrows(moves: tuple[Move, ...], before: dict[int, Box], after: dict[int, Box]) -> list[Item]:
    """From the right edge of a sender to the left edge of the receiver; those of one rank spread over its edge."""
    pairs = sorted({(move.source, move.target, move.reduces) for move in moves if move.source != move.target})
    out: list[Item] = []
    for source, target, reduces in pairs:
        one, other = before[source], after[target]
        leaves = [pair for pair in pairs if pair[0] == source]
        comes = [pair for pair in sorted(pairs, key=lambda pair: pair[0]) if pair[1] == target]
        y0 = _spread(one, leaves.index((source, target, reduces)), len(leaves))
        y1 = _spread(other, comes.index((source, target, reduces)), len(comes))
        wide = 1.8 if len(pairs) <= 2 * len(before) else 1.0
        role = "adds" if reduces else "copies"
        points = ((one.right + 3, y0), (other.x - 3, y1))
        out.append(
            Line(points, role, wide, head=True, ends=(one.name, other.name), said=f"rank {source} to rank {target}")
        )
    return out


def _spread(box: Box, index: int, count: int) -> float:
    return box.y + box.height * (index + 1) / (count + 1)


def _row_count(play: Replay) -> int:
    return play.world_size + play.has_network


def _names(play: Replay) -> float:
    return text_width(f"rank {play.world_size - 1} · m", NAME_SIZE, bold=True) + 12


def _slot_width(play: Replay) -> float:
    return 15.0 if play.slots <= 4 else 11.0 if play.slots <= 8 else 9.0 if play.slots <= 16 else 6.0


def _parting(play: Replay, slot: int) -> float:
    """Room between the slots of two channels, and between what all_to_all sends and receives."""
    if play.schedule.collective == "all_to_all":
        return 6.0 if slot >= play.slots // 2 else 0.0
    edges = [sum(play.chunks[: i + 1]) for i in range(len(play.chunks) - 1)]
    return 5.0 * sum(slot >= edge for edge in edges)


def _sheet(play: Replay) -> tuple[float, float]:
    """Width of one column, height of one row."""
    last = play.slots - 1
    width = 2 * PAD + play.slots * (_slot_width(play) + 2) - 2 + _parting(play, last)
    return max(
        width, math.ceil(text_width("after step 99", CAPTION_SIZE, True))
    ), 34.0 if play.world_size <= 8 else 28.0
