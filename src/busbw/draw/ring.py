"""Ranks around a ring: where each rank and slot stands, and a schedule as one panel a step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from busbw.draw.cells import replay_items
from busbw.draw.colours import letter
from busbw.draw.overlaps import crosses, meet
from busbw.draw.replay import Cell, Move, Replay
from busbw.draw.scene import Box, Item, Line, Point, Text, moved
from busbw.plots.text import text_width

TITLE_SIZE, SLOT_SIZE, LABEL_SIZE = 11.0, 8.5, 11.0
PAD, TITLE_ROOM, SLOT_ROOM = 7.0, 21.0, 13.0
GAP_X, GAP_Y, NARROW_GAP, DENSE_GAP = 44.0, 36.0, 26.0, 31.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where ranks and slots stand; `ranks` has the network as its last where it takes part."""

    width: float
    height: float
    ranks: tuple[Box, ...]
    cells: dict[Cell, Box]
    columns: int

    @property
    def centre(self) -> Point:
        """The middle of the ring."""
        return self.width / 2, self.height / 2


def ring_order(play: Replay) -> list[int] | None:
    """The ranks in the order in which they pass data on, where every step of every channel goes around one ring."""
    following: dict[int, int] = {}
    for step in play.steps:
        for move in step.moves:
            if following.setdefault(move.source, move.target) != move.target:
                return None
    order = [0]
    while len(order) < play.world_size and order[-1] in following:
        order.append(following[order[-1]])
    if sorted(order) != list(range(play.world_size)) or following.get(order[-1], order[0]) != order[0]:
        return None
    return order


def lay_out(
    play: Replay, order: list[int] | None = None, cell: tuple[float, float] | None = None, dense: bool = False
) -> Places:
    """Places for all ranks; in the order of the ring, or by number. `dense` leaves just the room that arrows need."""
    order = order or list(range(play.world_size))
    columns = _columns(play)
    wide, high = cell or _cell_size(play.slots)
    rows = math.ceil(play.slots / columns)
    gap = 2.0 if dense else 3.0
    width = max(
        columns * (wide + gap) - gap + 2 * PAD, text_width(_title(play.world_size - 1), TITLE_SIZE, bold=True) + 12
    )
    height = TITLE_ROOM + rows * (high + SLOT_ROOM) + PAD
    gap_x = NARROW_GAP if len(order) == 4 else DENSE_GAP if dense else GAP_X  # of four, no arrow goes from side to side
    points, (half_x, half_y) = _around(len(order), width + gap_x, height + GAP_Y, room=play.has_network)
    boxes: dict[int, Box] = {}
    for place, (x, y) in zip(order, points, strict=True):
        left, top = half_x + x, half_y + y
        boxes[place] = Box(left, top, width, height, "panel", f"rank {place}", 1.5, 5, name=f"rank {place}")
    if play.has_network:
        box = Box(half_x, half_y, width, height, "nvswitch", "nvswitch edge", 1.5, 5, name="network")
        boxes[play.world_size] = box
    cells = {}
    for place, box in boxes.items():
        left = box.x + (width - columns * (wide + gap) + gap) / 2
        for slot in range(play.slots):
            row, column = divmod(slot, columns)
            x, y = left + column * (wide + gap), box.y + TITLE_ROOM + row * (high + SLOT_ROOM)
            cells[(place, slot)] = Box(x, y, wide, high)
    total = (2 * half_x + width, 2 * half_y + height)
    return Places(*total, tuple(boxes[i] for i in sorted(boxes)), cells, columns)


def rank_items(play: Replay, places: Places) -> Iterator[Item]:
    """Each rank's frame, name and slot numbers: what stays the same in every step."""
    for index, box in enumerate(places.ranks):
        yield box
        x, y = box.centre[0], box.y + 11
        is_rank = index < play.world_size
        yield Text(x, y, _title(index) if is_rank else "switch", TITLE_SIZE, "middle", bold=True)
    for (_, slot), box in places.cells.items():
        yield Text(box.centre[0], box.bottom + 7.5, str(slot), SLOT_SIZE, "middle", "quiet")


def _title(rank: int) -> str:
    return f"rank {rank} · {letter(rank)}"


def panel_items(play: Replay, time: int, places: Places) -> list[Item]:
    """The ring after step `time`, with what moved in it."""
    items = [*rank_items(play, places), *replay_items(play, time, places.cells)]
    if time:
        moves = play.steps[time - 1].moves
        items += marks(moves, places.cells)
        items += arrows(moves, places)
    return items


def marks(moves: tuple[Move, ...], cells: dict[Cell, Box]) -> Iterator[Item]:
    """Frames around the slots that received something, one around those that lie side by side."""
    kinds = {target: move.reduces for move in moves for _, target in move.cells()}
    while kinds:
        cell = first = min(kinds)
        reduces = kinds.pop(cell)
        place, slot = cell
        box = cells[cell]
        while kinds.get((place, slot + 1)) == reduces and cells[(place, slot + 1)].y == box.y:
            slot += 1
            kinds.pop((place, slot))
        wide = replace(cells[first], width=cells[(place, slot)].right - box.x).grown(0.9)
        yield Box(wide.x, wide.y, wide.width, wide.height, "", "adds" if reduces else "copies", 1.7, 2.5)


def arrows(moves: tuple[Move, ...], places: Places) -> list[Item]:
    """An arrow for each pair of ranks, with the slots that move wherever there is room for them."""
    pairs: dict[tuple[int, int], list[Move]] = {}
    for move in moves:
        if move.source != move.target:
            pairs.setdefault((move.source, move.target), []).append(move)
    lines = {
        (source, target): _arrow(
            places.ranks[source], places.ranks[target], (target, source) in pairs, group[0].reduces, places
        )
        for (source, target), group in pairs.items()
    }
    paths = [line.path() for line in lines.values()]
    labels: list[Text] = []
    for pair, group in pairs.items():
        sign = "+" if group[0].reduces else "="
        text = f"{sign} {', '.join(_run(move) for move in group)}"
        for label in _labels(lines[pair], places.centre, text, (pair[1], pair[0]) in pairs):
            room = label.box.grown(1)
            taken = [*places.ranks, *(other.box for other in labels)]
            inside = room.x >= 0 and room.right <= places.width and room.y >= 0 and room.bottom <= places.height
            if inside and not any(meet(room, box) for box in taken) and not any(crosses(path, room) for path in paths):
                labels.append(label)
                break
    return [*lines.values(), *labels]


def _arrow(one: Box, other: Box, both: bool, reduces: bool, places: Places) -> Line:
    """Straight where no other rank is in the way, else bent towards the middle."""
    (x0, y0), (x1, y1) = one.centre, other.centre
    length = math.hypot(x1 - x0, y1 - y0)
    nx, ny = (y1 - y0) / length, -(x1 - x0) / length
    side = 9.0 if both else 0.0
    x0, y0, x1, y1 = x0 + nx * side, y0 + ny * side, x1 + nx * side, y1 + ny * side
    role, ends = "adds" if reduces else "copies", (one.name, other.name)
    start, end = leave(one, (x0, y0), (x1, y1)), leave(other, (x1, y1), (x0, y0))
    others = [box for box in places.ranks if box.name not in ends]
    if not any(crosses([start, end], box.grown(2)) for box in others):
        return Line((start, end), role, 2.0, head=True, ends=ends)
    middle = ((x0 + x1) / 2, (y0 + y1) / 2)
    for pull in (0.4, 0.7, 1.0, 1.3):
        via = tuple(m + (c - m) * pull + n * side * 2 for m, c, n in zip(middle, places.centre, (nx, ny), strict=True))
        start, end = leave(one, (x0, y0), (via[0], via[1])), leave(other, (x1, y1), (via[0], via[1]))
        line = Line((start, (via[0], via[1]), end), role, 2.0, head=True, curve=True, ends=ends)
        if not any(crosses(line.path(), box.grown(2)) for box in others):
            break
    return line


def leave(box: Box, start: Point, target: Point, margin: float = 3.0) -> Point:
    """Where the way from `start` inside the box to `target` leaves it, a little outside."""
    dx, dy = target[0] - start[0], target[1] - start[1]
    times = []
    if dx:
        times.append(((box.right + margin if dx > 0 else box.x - margin) - start[0]) / dx)
    if dy:
        times.append(((box.bottom + margin if dy > 0 else box.y - margin) - start[1]) / dy)
    t = min(times)
    return start[0] + dx * t, start[1] + dy * t


def _labels(line: Line, centre: Point, text: str, both: bool) -> Iterator[Text]:
    """Places for a label beside the line: outside the ring first, or to the left of the way where another one goes back."""
    path = line.path()
    middle = len(path) // 2
    (x0, y0), (x1, y1) = (path[0], path[-1]) if not line.curve else (path[middle - 1], path[middle + 1])
    x, y = ((x0 + x1) / 2, (y0 + y1) / 2) if not line.curve else path[middle]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    nx, ny = (y1 - y0) / length, -(x1 - x0) / length
    if not both and (x + nx - centre[0]) ** 2 + (y + ny - centre[1]) ** 2 < (x - centre[0]) ** 2 + (y - centre[1]) ** 2:
        nx, ny = -nx, -ny
    room = Text(0, 0, text, LABEL_SIZE, bold=True).box
    away = 6.5 + abs(nx) * room.width / 2 + abs(ny) * room.height / 2
    for side in (away, -away):
        yield Text(x + nx * side, y + ny * side, text, LABEL_SIZE, "middle", line.role, bold=True)


def _run(move: Move) -> str:
    last = move.source_slot + move.length - 1
    return str(move.source_slot) if move.length == 1 else f"{move.source_slot}–{last}"


def _columns(play: Replay) -> int:
    """Slots of one row: a channel, or half of all_to_all, in each row where they fit."""
    natural = play.chunks[0] // 2 if play.schedule.collective == "all_to_all" else play.chunks[0]
    if len(set(play.chunks)) > 1 or natural > 8 or (natural < 3 and play.schedule.collective != "all_to_all"):
        return min(play.slots, 8)
    return max(natural, 1)


def _cell_size(slots: int) -> tuple[float, float]:
    if slots <= 4:
        return 18.0, 30.0
    return (15.0, 24.0) if slots <= 8 else (13.0, 19.0)


def _around(count: int, width: float, height: float, room: bool) -> tuple[list[Point], Point]:
    """Places on the edge of a rectangle, clockwise from the top (two: side by side), as near as boxes of this size allow.

    With `room`, one more box fits in the middle. Also returns half the rectangle's size.
    """
    first = 0.75 if count == 2 else 0.0
    units = [_on_square((first + k / count) % 1) for k in range(count)]
    fits = []
    for i in range(41):
        for j in range(41):
            half_x, half_y = i * width / 8, j * height / 8
            points = [(x * half_x, y * half_y) for x, y in units] + ([(0.0, 0.0)] if room else [])
            if _apart(points, width, height) and _free_ways(points[:count], width, height):
                fits.append(((2 * half_x + width) * (2 * half_y + height), half_x, half_y))
                break
    _, half_x, half_y = min(fits)
    return [(x * half_x, y * half_y) for x, y in units], (half_x, half_y)


def _on_square(share: float) -> Point:
    """The point at a share of the way around the square from -1 to 1, clockwise from the middle of the top."""
    u = share * 8
    if u <= 1 or u > 7:
        return (u if u <= 1 else u - 8), -1.0
    if u <= 3:
        return 1.0, u - 2
    return (4 - u, 1.0) if u <= 5 else (-1.0, 6 - u)


def _free_ways(points: list[Point], width: float, height: float) -> bool:
    """The straight ways from each rank to the next one cross no third."""
    boxes = [Box(x - width / 2, y - height / 2, width, height).grown(-6) for x, y in points]
    count = len(points)
    return not any(
        crosses([points[i], points[(i + 1) % count]], boxes[k])
        for i in range(count)
        for k in range(count)
        if k not in (i, (i + 1) % count)
    )


def _apart(points: list[Point], width: float, height: float) -> bool:
    return all(
        abs(x - a) >= width - 1e-6 or abs(y - b) >= height - 1e-6
        for i, (x, y) in enumerate(points)
        for a, b in points[:i]
    )


def shifted(items: list[Item], dx: float, dy: float, suffix: str) -> list[Item]:
    """The items elsewhere, with names of their own: one panel of several."""
    out: list[Item] = []
    for item in moved(items, dx, dy):
        if isinstance(item, Box) and item.name:
            item = replace(item, name=item.name + suffix)
        elif isinstance(item, Line):
            item = replace(item, ends=tuple(end + suffix for end in item.ends))
        out.append(item)
    return out
