"""The schematics that README and docs show, drawn by one function: `make figures` calls it."""

from __future__ import annotations

from pathlib import Path

from busbw.core.schedule import ALGORITHMS
from busbw.draw.loads import count_flows
from busbw.draw.machine import draw_topology
from busbw.draw.primitives import draw_primitives
from busbw.draw.render_svg import to_svg
from busbw.draw.scene import Scene
from busbw.draw.schedule import draw_schedule
from busbw.topologies import read_topology


def docs_scenes() -> dict[str, Scene]:
    """Name -> drawing: the primitives, ring all-reduce on four ranks, and the post's machine with it on eight."""
    ring = ALGORITHMS.get("ring")
    machine = read_topology("pcie-8gpu")
    return {
        "primitives": draw_primitives(),
        "ring_all_reduce": draw_schedule(ring.build("all_reduce", 4)),
        "topology": draw_topology(machine, count_flows(ring.build("all_reduce", 8), machine)),
    }


def write_docs_images(folder: Path) -> list[Path]:
    """Write each drawing as NAME.svg and NAME.dark.svg into the folder; the paths are returned."""
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for name, scene in docs_scenes().items():
        for theme, ending in (("light", "svg"), ("dark", "dark.svg")):
            path = folder / f"{name}.{ending}"
            path.write_text(to_svg(scene, theme), encoding="utf-8")
            out.append(path)
    return out
