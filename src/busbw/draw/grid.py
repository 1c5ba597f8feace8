"""GPUs that are wired to each other alone, in one or two dimensions: a ring, a mesh, a torus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from busbw.core.topology import DEVICE_KINDS, Topology
from busbw.draw.scene import Box, Item, Text
from busbw.draw.wires import LABEL_SIZE, LABEL_STEP, Wires
from busbw.errors import UsageError

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, AROUND = 56.0, 32.0, 78.0, 66.0, 16.0
MOST_GPUS = 128
_GPU = DEVICE_KINDS.index("gpu")


def is_grid(topology: Topology) -> bool:
    """It has GPUs alone, which pass traffic on."""
    return topology.gpus_forward and bool((topology.device_kind == _GPU).all())


def draw_grid(topology: Topology, wires: Wires) -> tuple[list[Item], float, float]:
    """Items, width and height. UsageError for more than two dimensions, or too many GPUs."""
    shape = _shape(topology)
    rows, columns = (1, *shape) if len(shape) == 1 else shape
    if rows * columns > MOST_GPUS:
        raise UsageError(
            f"{topology.name}: {rows * columns} GPUs are too many to be read; {MOST_GPUS} are the most: the pattern is the same"
        )
    boxes: list[Box] = []
    for device in range(topology.device_count):
        row, column = divmod(device, columns)
        x, y = AROUND * 2 + column * (BOX_WIDTH + GAP_X), AROUND * 2 + row * (BOX_HEIGHT + GAP_Y)
        boxes.append(
            Box(
                x,
                y,
                BOX_WIDTH,
                BOX_HEIGHT,
                "gpu",
                "gpu edge",
                1.3,
                5,
                name=f"device {device}",
                said=topology.names[device],
            )
        )
    under: list[Item] = []
    for link in range(topology.link_count):
        under += _link(topology, wires, link, boxes, (rows, columns))
    over: list[Item] = []
    for device, box in enumerate(boxes):
        ranks = np.flatnonzero(topology.ranks == device)
        text = f"rank {ranks[0]}" if len(ranks) else topology.names[device]
        over += [box, Text(*box.centre, text, 10, "middle", bold=True)]
    width = boxes[-1].right + AROUND * 2
    height = boxes[-1].bottom + AROUND * 2
    return [*under, *over], width, height


def _shape(topology: Topology) -> tuple[int, ...]:
    grid = getattr(topology.router, "grid", None)
    shape: Sequence[int] = getattr(grid, "shape", ())
    long = tuple(size for size in shape if size > 1) or tuple(shape)
    if not shape or len(long) > 2:
        what = "×".join(map(str, shape)) or "of unknown shape"
        raise UsageError(f"{topology.name}: a grid {what} has no flat picture; draw one of two dimensions, such as 4x4")
    return long


def _link(topology: Topology, wires: Wires, link: int, boxes: list[Box], shape: tuple[int, int]) -> list[Item]:
    one, other = sorted((int(topology.link_a[link]), int(topology.link_b[link])))
    a, b = boxes[one], boxes[other]
    ends = (a.name, b.name)
    words = wires.words([link], [one])
    if a.y == b.y:
        y = a.centre[1]
        if other - one == 1:
            line = wires.line([link], ((a.right, y), (b.x, y)), ends)
            x = (a.right + b.x) / 2
            above = [
                Text(
                    x,
                    y - line.width / 2 - 7 - i * LABEL_STEP,
                    word.replace("↓", "→").replace("↑", "←"),
                    LABEL_SIZE,
                    "middle",
                    role,
                    bold,
                )
                for i, (word, role, bold) in enumerate(reversed(words))
            ]
            return [line, *above]
        y = a.bottom + AROUND * 0.8
        x0, x1 = a.x + 12, b.right - 12
        return [wires.line([link], ((x0, a.bottom), (x0, y), (x1, y), (x1, b.bottom)), ends)]
    x = a.centre[0]
    if other - one == shape[1]:
        items = list(wires.vertical([link], x, a.bottom, b.y, [one], ends))
        return [item.moved(0, AROUND / 2) if isinstance(item, Text) else item for item in items]  # below a line around
    x = a.x - AROUND * 0.9
    y0, y1 = a.y + 7, b.bottom - 7
    return [wires.line([link], ((a.x, y0), (x, y0), (x, y1), (b.x, y1)), ends)]
