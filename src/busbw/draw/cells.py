"""One slot of one rank as boxes: filled from below as contributions are added, each in the colour of the rank it is from."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.draw.replay import Cell, Content, Replay
from busbw.draw.scene import Box, Item, Text

SIGMA_SIZE = 13.0
"""Pixels that a cell must be wide for the sign of a sum to fit in it."""


def slot_items(
    box: Box, contributors: list[int], level: float, *, final: bool, is_sum: bool, is_old: bool, said: str = ""
) -> Iterator[Item]:
    """A slot that holds the sum of `contributors`: filled to `level`; framed where it is what the rank has to end with."""
    yield Box(box.x, box.y, box.width, box.height, "cell", radius=1.5, said=said, is_part=True)
    if contributors:
        part = box.height * level / len(contributors)
        for i, rank in enumerate(contributors):
            role = f"rank {rank} old" if is_old else f"rank {rank}"
            yield Box(box.x, box.bottom - part * (i + 1), box.width, part, role, radius=0, is_part=True)
    edge, wide = ("edge", 1.0) if is_old else ("done", 1.6) if final else ("cell edge", 1.0)
    dash = (2.0, 2.0) if is_old and box.width >= SIGMA_SIZE else ()
    yield Box(box.x, box.y, box.width, box.height, "", edge, wide, 1.5, dash)
    if is_sum and not is_old and box.width >= SIGMA_SIZE:
        x, y = box.centre
        yield Box(x - 5.5, y - 5.5, 11, 11, "cell", radius=5.5, is_part=True)
        yield Text(x, y, "Σ", 9, "middle", bold=True)


def replay_items(play: Replay, time: int, places: dict[Cell, Box]) -> Iterator[Item]:
    """Every slot at its place, as it is after step `time` (0: at the start)."""
    state, live = play.states[time], play.live[time]
    for cell, box in places.items():
        content = state.get(cell, frozenset())
        yield from slot_items(
            box,
            contributors(content),
            play.level(content),
            final=play.is_final(cell, content),
            is_sum=play.is_sum(content),
            is_old=cell not in live,
            said=said(play, cell, content),
        )


def contributors(content: Content) -> list[int]:
    """The ranks whose data is in it."""
    return sorted({rank for rank, _ in content})


def said(play: Replay, cell: Cell, content: Content) -> str:
    """A slot in words: `rank 1, slot 3: the sum of ranks 0 and 1, 2 of 4`."""
    place = f"rank {cell[0]}" if cell[0] < play.world_size else "the network"
    if not content:
        return f"{place}, slot {cell[1]}: empty"
    ranks = contributors(content)
    if len(ranks) == 1:
        what = f"data of rank {ranks[0]}"
    else:
        what = f"the sum of ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
    needed = round(len(content) / play.level(content))
    return f"{place}, slot {cell[1]}: {what}" + (f", {len(content)} of {needed}" if needed > 1 else "")
