"""The vocabulary on one page: each collective before and after, what it sends and its bus factor.

All of it comes from the collectives' own descriptions (`busbw.core.collective`): the cells from the postcondition, the
numbers from `sent_elements` and `bus_factor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from busbw.core.collective import COLLECTIVES, PRIMITIVES, Collective, Place
from busbw.draw.colours import letter
from busbw.draw.formulas import formula, share_of_s
from busbw.draw.scene import LEADING, Box, Item, Line, Scene, Text, moved, text_lines
from busbw.errors import UsageError
from busbw.plots.text import text_width, wrap

SHOWN = (*PRIMITIVES, "reduce", "all_to_all")
DEFAULT_WIDTH, LEAST_CARD = 760.0, 330.0
MARGIN, GAP, PAD = 16.0, 12.0, 12.0
TITLE_SIZE, NAME_SIZE, TEXT_SIZE, CELL_TEXT, RANK_TEXT = 17.0, 14.0, 11.5, 10.0, 10.5
CELL_HEIGHT, ROW_STEP, ARROW = 21.0, 25.0, 46.0

Sources = tuple[tuple[int, int], ...]
"""What a cell is the sum of: pairs of (rank, shard)."""


def draw_primitives(names: Sequence[str] = SHOWN, world_size: int = 4, width: float = DEFAULT_WIDTH) -> Scene:
    """A card for each collective. UsageError for one without a layout of shards, or for N that cells have no room for."""
    if not 2 <= world_size <= 8:
        raise UsageError(f"-N {world_size}: the primitives are drawn on 2 to 8 ranks")
    kinds = [_drawable(COLLECTIVES.get(name)) for name in names]
    inner = width - 2 * MARGIN
    columns = max(int((inner + GAP) // (max(_grid_width(world_size) * 2 + ARROW + 80, LEAST_CARD) + GAP)), 1)
    columns = min(columns, len(kinds))
    wide = (inner - (columns - 1) * GAP) / columns
    title = f"What each collective does, on {world_size} ranks"
    said = (
        "A row is a rank. Letter and colour say whose data it is, the number says which shard of the tensor of S bytes; "
        "stripes and Σ are the sum over all ranks, anything else is a copy."
    )
    lines = wrap(said, inner, TEXT_SIZE + 0.5)
    items = text_lines(MARGIN, MARGIN, [title], TITLE_SIZE, bold=True)
    y = MARGIN + TITLE_SIZE * LEADING + 2
    items += text_lines(MARGIN, y, lines, TEXT_SIZE + 0.5, "quiet")
    y += len(lines) * (TEXT_SIZE + 0.5) * LEADING + 12
    cards = [_card(kind, world_size, wide) for kind in kinds]
    for first in range(0, len(cards), columns):
        row = cards[first : first + columns]
        high = max(height for _, height in row)
        for column, (inside, _) in enumerate(row):
            x = MARGIN + column * (wide + GAP)
            items.append(Box(x, y, wide, high, "host", "edge", 1, 6))
            items += moved(inside, x + PAD, y + PAD)
        y += high + GAP
    return Scene(title, said, width, y - GAP + MARGIN, tuple(items))


def _drawable(kind: Collective) -> Collective:
    if kind.name in ("barrier", "all_to_all_v", "send_recv", "send_recv_one_way"):
        raise UsageError(f"{kind.name} has no shards to draw: choose from {', '.join(SHOWN)}")
    return kind


def _card(kind: Collective, world_size: int, width: float) -> tuple[list[Item], float]:
    inner = width - 2 * PAD
    factor = formula(lambda n: Fraction(kind.bus_factor(n)).limit_denominator(1000))
    number = f"{kind.bus_factor(world_size):.4g}"
    shown = f"bus factor {factor} = {number}" if factor and factor != "1" else f"bus factor {number}"
    items: list[Item] = [
        Text(0, 8, kind.name, NAME_SIZE, bold=True),
        Text(inner, 8, shown, TEXT_SIZE, "end", bold=True),
    ]
    y = 21.0
    for sentence in (kind.summary, sent_in_words(kind, world_size)):
        lines = wrap(sentence, inner, TEXT_SIZE)
        items += text_lines(0, y, lines, TEXT_SIZE, "ink" if sentence == kind.summary else "quiet")
        y += len(lines) * TEXT_SIZE * LEADING
    grid, height = _before_and_after(kind, world_size, inner)
    items += moved(grid, 0, y + 8)
    y += 8 + height
    lines = wrap(f"In training: {kind.role}.", inner, TEXT_SIZE)
    items += text_lines(0, y + 4, lines, TEXT_SIZE, "quiet")
    return items, y + 4 + len(lines) * TEXT_SIZE * LEADING + 2 * PAD


def _before_and_after(kind: Collective, world_size: int, width: float) -> tuple[list[Item], float]:
    names = text_width("rank 0", RANK_TEXT, True) + 8
    cell = min((width - names - ARROW) / 2 / world_size, 34.0)
    left = names + cell * world_size + ARROW
    items: list[Item] = [
        Text(names, 6, "before", RANK_TEXT, role="quiet"),
        Text(left, 6, "after", RANK_TEXT, role="quiet"),
    ]
    top = 16.0
    for rank in range(world_size):
        y = top + rank * ROW_STEP
        root = kind.rooted and rank == 0
        items.append(Text(0, y + CELL_HEIGHT / 2, "root" if root else f"rank {rank}", RANK_TEXT, bold=True))
        before, after = contents(kind, world_size, rank)
        items += _row(before, names, y, cell, world_size)
        items += _row(after, left, y, cell, world_size)
    middle = top + (world_size * ROW_STEP - (ROW_STEP - CELL_HEIGHT)) / 2
    x = names + cell * world_size
    items.append(Line(((x + 8, middle), (left - 10, middle)), "adds" if kind.reduces else "copies", 2.5, head=True))
    return items, top + world_size * ROW_STEP


def _row(cells: dict[int, Sources], x: float, y: float, wide: float, world_size: int) -> list[Item]:
    items: list[Item] = []
    for slot in range(world_size):
        box = Box(x + slot * wide, y, wide - 3, CELL_HEIGHT, radius=2)
        sources = cells.get(slot)
        if sources is None:
            items.append(Box(box.x, box.y, box.width, box.height, "", "edge", 0.8, 2, (2, 3)))
            continue
        part = box.height / len(sources)
        for i, (rank, _) in enumerate(sources):
            items.append(Box(box.x, box.y + i * part, box.width, part, f"rank {rank}", radius=0, is_part=True))
        items.append(Box(box.x, box.y, box.width, box.height, "", "done" if len(sources) > 1 else "cell edge", 1, 2))
        rank, shard = sources[0]
        if len(sources) > 1:
            text = Text(*box.centre, f"Σ{shard}", CELL_TEXT, "middle", bold=True)
            plate = text.box.grown(1.6)
            items.append(Box(plate.x, plate.y, plate.width, plate.height, "cell", radius=4, is_part=True))
            items.append(text)
        else:
            items.append(Text(*box.centre, f"{letter(rank)}{shard}", CELL_TEXT, "middle", f"on rank {rank}", bold=True))
    return items


def contents(kind: Collective, world_size: int, rank: int) -> tuple[dict[int, Sources], dict[int, Sources]]:
    """What a rank holds before and after, shard by shard: position -> what it is the sum or copy of. Root is rank 0."""
    place = Place(world_size, world_size, rank)
    before: dict[int, Sources] = {
        _start(kind, kind.send_count(place), place) + i: ((rank, _start(kind, kind.send_count(place), place) + i),)
        for i in range(kind.send_count(place))
    }
    after: dict[int, Sources] = {}
    begin = _start(kind, kind.recv_count(place), place)
    for piece in kind.postcondition(place):
        for i in range(piece.length):
            sources = []
            for source, first in piece.sources:
                there = Place(world_size, world_size, source)
                sources.append((source, _start(kind, kind.send_count(there), there) + first + i))
            after[begin + piece.start + i] = tuple(sources)
    return before, after


def _start(kind: Collective, count: int, place: Place) -> int:
    """Where a buffer of `count` shards lies in the whole tensor."""
    if not 0 < count < place.count or kind.in_place_offset is None:
        return 0
    return kind.in_place_offset(place)


def sent_in_words(kind: Collective, world_size: int) -> str:
    """What the ranks send, as formulas that are found in `sent_elements`: `Each rank sends (N-1)/N S = 0.75 S.`"""

    def sent(n: int) -> list[Fraction]:
        return [Fraction(kind.sent_elements(Place(n, n, rank)), n) for rank in range(n)]

    here = sent(world_size)
    if len(set(here)) == 1:
        return f"Each rank sends {share_of_s(lambda n: sent(n)[0], world_size)}."
    root, last = share_of_s(lambda n: sent(n)[0], world_size), share_of_s(lambda n: sent(n)[n - 1], world_size)
    if len(set(here[1:])) == 1:
        return f"The root sends {root}, each other rank {last}."
    if len(set(here[:-1])) == 1:
        return f"Each rank sends {root}, the last of the ring {last}."
    return f"A rank sends {share_of_s(lambda n: max(sent(n)), world_size)} or less."


def _grid_width(world_size: int) -> float:
    return world_size * 26.0
