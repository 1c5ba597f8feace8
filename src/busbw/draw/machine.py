"""Topology -> Scene: one host whole, its equals collapsed beside it, the switches between hosts as bands below."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from busbw.core.topology import LINK_KINDS, Topology
from busbw.draw.captions import LINK_NAMES, MARGIN, contents, described, foot, head
from busbw.draw.grid import draw_grid, is_grid
from busbw.draw.host import (
    LANE,
    LINK_ROOM,
    MEMORY,
    NAME_SIZE,
    NVSWITCH,
    RANKED,
    SMALL_SIZE,
    Host,
    clipped,
    plan_host,
    short_name,
    socket_links,
)
from busbw.draw.loads import Usage
from busbw.draw.network import Band, levels, shown_hosts
from busbw.draw.scene import Box, Item, Line, Scene, Text
from busbw.draw.wires import LABEL_SIZE, LABEL_STEP, Wires
from busbw.errors import UsageError

PAD, HOST_TITLE = 14.0, 22.0
COLLAPSED_WIDTH, COLLAPSED_HEIGHT, COLLAPSED_GAP = 92.0, 62.0, 12.0
BAND_HEIGHT = 26.0
LABEL_LEAN = 16.0
"""A line with its label to the right is centred as a whole."""
LEAST_WIDTH, MOST_LEAVES = 520.0, 72


def draw_topology(topology: Topology, usage: Usage | None = None) -> Scene:
    """The machine as a Scene; with `usage` how busy each link is, the busiest in red. UsageError where it can't be read."""
    wires = Wires(topology, usage, _fastest(topology))
    if is_grid(topology):
        wires = replace(wires, wide=4.0)  # all are alike, and they are many
        body, width, height = draw_grid(topology, wires)
    else:
        drawing = _Drawing(topology, wires)
        drawing.draw()
        body, width, height = drawing.items(), drawing.width, drawing.height
    inner = max(width, LEAST_WIDTH)
    above, top = head(topology, usage, inner)
    below, bottom = foot(topology, inner)
    left = MARGIN + (inner - width) / 2
    items = [*above, *(item.moved(left, top) for item in body)]
    items += [item.moved(MARGIN, top + height + 14) for item in below]
    title = topology.name
    return Scene(title, described(topology), inner + 2 * MARGIN, top + height + 14 + bottom + MARGIN, tuple(items))


def _fastest(topology: Topology) -> float:
    if not topology.link_count:
        return 1.0
    rates = np.maximum(topology.forward_Bps, topology.backward_Bps)
    return float(rates.max())


@dataclass(slots=True)
class _Drawing:
    """Collects what is drawn below, at and above the boxes of devices."""

    topology: Topology
    wires: Wires
    under: list[Item] = field(default_factory=list)
    bands: list[Item] = field(default_factory=list)
    over: list[Item] = field(default_factory=list)
    devices: list[Item] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0

    def items(self) -> list[Item]:
        """In the order of drawing."""
        return [*self.under, *self.bands, *self.over, *self.devices]

    def draw(self) -> None:
        """The host, its equals, and the network."""
        topology = self.topology
        shown = shown_hosts(topology)
        host = plan_host(topology, shown.devices)
        if len(host.leaves) > MOST_LEAVES:
            raise UsageError(
                f"{topology.name}: a host of {len(host.leaves)} GPUs and NICs is too wide to be read; {MOST_LEAVES} are the most"
            )
        left, top = (PAD, PAD + HOST_TITLE) if shown.name else (0.0, 0.0)
        for device, box in host.boxes.items():
            host.boxes[device] = box.moved(left, top)
        self.tree(host)
        self.sockets(host, top)
        for device, box in host.boxes.items():
            self.device(device, box)
        ports = _Ports(host)
        y = max((box.bottom for box in host.boxes.values()), default=0.0)
        y = self.direct(host, ports, y)
        y = self.switches(host, shown.devices, ports, y)
        self.width, bottom = left + host.width + (PAD if shown.name else 0.0), y + (PAD if shown.name else 0.0)
        if shown.name:
            self.under.insert(0, Box(0, 0, self.width, bottom, "host", "edge", 1.2, 8, name="host"))
            name = clipped(shown.name, self.width - 2 * PAD, 12, True)
            self.under.insert(1, Text(PAD, 16, name, 12, bold=True))
        self.network(host, shown.devices, shown.others, shown.more, ports, bottom)

    def device(self, device: int, box: Box) -> None:
        """A box with its name, and its rank."""
        topology, width = self.topology, box.width - 6
        name = clipped(short_name(topology, device), width, NAME_SIZE, True)
        self.devices.append(box)
        x, y = box.centre
        ranks = np.flatnonzero(topology.ranks == device)
        if int(topology.device_kind[device]) in RANKED and len(ranks):
            self.devices.append(Text(x, y - 6.5, name, NAME_SIZE, "middle", bold=True))
            self.devices.append(Text(x, y + 7.5, f"rank {ranks[0]}", SMALL_SIZE, "middle", "quiet"))
        else:
            self.devices.append(Text(x, y, name, NAME_SIZE, "middle", bold=True))

    def tree(self, host: Host) -> None:
        """Vertical links; a child hangs at its parent, which is at least as wide."""
        for link, upper, lower in host.tree:
            above, below = host.boxes.get(upper), host.boxes.get(lower)
            if above is None or below is None:
                continue
            x = (above if int(self.topology.device_kind[upper]) == MEMORY else below).centre[0]
            self.over += self.wires.vertical([link], x, above.bottom, below.y, [upper], (above.name, below.name))

    def sockets(self, host: Host, top: float) -> None:
        """Links between CPUs: straight to the next one, around the others above them."""
        lane = 0
        used: Counter[int] = Counter()
        for link, i, j in socket_links(self.topology, host):
            one, other = host.boxes[host.roots[i]], host.boxes[host.roots[j]]
            ends = (one.name, other.name)
            if j == i + 1 and one.y == other.y:
                y = one.centre[1]
                self.over.append(self.wires.line([link], ((one.right, y), (other.x, y)), ends))
                x, half = (one.right + other.x) / 2, self.wires.width([link]) / 2
                words = self.wires.words([link], [host.roots[i]])
                busy = words.pop() if words[-1][0].rstrip("↓↑").endswith("%") else None
                for index, (word, role, bold) in enumerate(reversed(words)):
                    place = y - half - 7 - index * LABEL_STEP
                    self.over.append(
                        Text(x, place, word.replace("↓", "→").replace("↑", "←"), LABEL_SIZE, "middle", role, bold)
                    )
                if busy:
                    word = busy[0].replace("↓", "→").replace("↑", "←")
                    self.over.append(Text(x, y + half + 8, word, LABEL_SIZE, "middle", busy[1], busy[2]))
                continue
            x0, x1 = one.right - 5 - 6 * used[i], other.x + 5 + 6 * used[j]
            used[i] += 1
            used[j] += 1
            y = top + 4 + lane * LANE
            lane += 1
            self.over.append(self.wires.line([link], ((x0, one.y), (x0, y), (x1, y), (x1, other.y)), ends))

    def direct(self, host: Host, ports: _Ports, y: float) -> float:
        """Links from GPU to GPU: a band where each has one to every other, else lines that go around below."""
        topology = self.topology
        kinds = topology.device_kind
        pairs: list[tuple[int, int, int]] = []
        for link in host.links:
            a, b = int(topology.link_a[link]), int(topology.link_b[link])
            if int(kinds[a]) in RANKED and int(kinds[b]) in RANKED:
                i, j = sorted((host.leaves.index(a), host.leaves.index(b)))
                pairs.append((i, j, link))
        if not pairs:
            return y
        places = sorted({place for i, j, _ in pairs for place in (i, j)})
        alike = {
            (float(topology.forward_Bps[i]), float(topology.backward_Bps[i]), int(topology.link_kind[i]))
            for _, _, i in pairs
        }
        every = len({(i, j) for i, j, _ in pairs}) == len(pairs) == len(places) * (len(places) - 1) // 2
        if len(places) > 2 and every and len(alike) == 1:
            kind = LINK_KINDS[alike.pop()[2]]
            links = {host.leaves[place]: [link for i, j, link in pairs if place in (i, j)] for place in places}
            return self.band(host, Band(f"{LINK_NAMES[kind]}, every GPU to every other", "", links), ports, y, y)
        return self.around(host, pairs, ports, y)

    def around(self, host: Host, pairs: list[tuple[int, int, int]], ports: _Ports, y: float) -> float:
        """Links that go around below the GPUs, the short ones above the long ones; the lowest of them is returned."""
        ends_at = ports.spread(pairs)
        deepest = y
        lanes: list[list[tuple[float, float]]] = []
        for i, j, link in sorted(pairs, key=lambda pair: pair[1] - pair[0]):
            one, other = host.leaves[i], host.leaves[j]
            x0, x1 = ends_at[link]
            lane = next((k for k, taken in enumerate(lanes) if all(x1 < a or b < x0 for a, b in taken)), len(lanes))
            if lane == len(lanes):
                lanes.append([])
            lanes[lane].append((x0, x1))
            wide = self.wires.width([link])
            low = y + 12 + lane * (LANE + 2)
            ends = (host.boxes[one].name, host.boxes[other].name)
            line = self.wires.line([link], ((x0, y), (x0, low), (x1, low), (x1, y)), ends)
            self.over.append(line)
            deepest = max(deepest, low + wide / 2)
        return deepest

    def switches(self, host: Host, devices: Sequence[int], ports: _Ports, y: float) -> float:
        """The host's NVSwitches as one band."""
        topology = self.topology
        found = [device for device in devices if int(topology.device_kind[device]) == NVSWITCH]
        if not found:
            return y
        down: dict[int, list[int]] = {}
        for link in host.links:
            a, b = int(topology.link_a[link]), int(topology.link_b[link])
            if a in found or b in found:
                leaf = b if a in found else a
                if leaf in host.boxes:
                    down.setdefault(leaf, []).append(link)
        text = short_name(topology, found[0]) if len(found) == 1 else f"{len(found)} NVSwitches"
        return self.band(host, Band(text, "nvswitch", down), ports, y, y)

    def band(self, host: Host, band: Band, ports: _Ports, start: float, y: float) -> float:
        """A band below y that the leaves of `band.links` reach; the lower edge is returned."""
        top = y + LINK_ROOM
        boxes = [host.boxes[leaf] for leaf in band.links if leaf in host.boxes]
        left, right = min(box.x for box in boxes), max(box.right for box in boxes)
        name = f"band {len(self.bands)}"
        role, edge = (band.kind, f"{band.kind} edge") if band.kind else ("", "edge")
        box = Box(
            left, top, right - left, BAND_HEIGHT, role, edge, 1.3, 5, () if band.kind else (4, 3), name, band.text
        )
        self.bands.append(box)
        for leaf, links in band.links.items():
            if leaf in host.boxes:
                above = host.boxes[leaf]
                x = ports.take(leaf)
                self.over += self.wires.vertical(links, x, above.bottom, top, [leaf], (above.name, name))
        ports.bands.append((box, band.text))
        return top + BAND_HEIGHT

    def network(
        self,
        host: Host,
        devices: Sequence[int],
        others: Sequence[tuple[str, list[int]]],
        more: int,
        ports: _Ports,
        bottom: float,
    ) -> None:
        """Collapsed hosts to the right, and a band for each level of switches, over the whole width."""
        found = levels(self.topology, devices)
        first = others[0][1] if others else []
        attached = [level for level in found if level.links_of(self.topology, first)]
        collapsed = self.collapsed(others, more, bottom, len(attached)) if found else []
        y = bottom
        for level in found:
            top = y + LINK_ROOM + LABEL_STEP
            box = Box(
                0, top, self.width, BAND_HEIGHT, level.kind, f"{level.kind} edge", 1.3, 5, name=f"level {top:.0f}",
                said=level.text,
            )  # fmt: skip
            self.bands.append(box)
            for leaf, links in level.down(self.topology, host.boxes).items():
                x = ports.take(leaf)
                self.cross(links, x, host.boxes[leaf], box, (y, top), ports, [leaf])
            for side, members in collapsed:
                links = level.links_of(self.topology, members)
                if links:
                    place = attached.index(level) if level in attached else 0
                    x = side.x + side.width * (0.5 + place) / max(len(attached), 1) - LABEL_LEAN
                    self.cross(links, x, side, box, (y, top), ports, members)
            if level.up:
                x = self.width * 0.06
                self.over += self.wires.vertical(
                    level.up, x, y, top, level.upper, (f"level {y - BAND_HEIGHT:.0f}", box.name)
                )
            ports.bands.append((box, level.text))
            y = top + BAND_HEIGHT
        self.height = y
        for box, text in ports.bands:
            self.band_text(box, text)

    def cross(
        self,
        links: Sequence[int],
        x: float,
        above: Box,
        below: Box,
        label: tuple[float, float],
        ports: _Ports,
        upper: Sequence[int],
    ) -> None:
        """A vertical link that crosses the host's edge, and over bands that it does not touch."""
        passed = [
            box for box, _ in ports.bands if box.y > above.bottom and box.bottom < below.y and box.x < x < box.right
        ]
        names = (above.name, below.name, "host", *(box.name for box in passed))
        drawn = list(self.wires.vertical(links, x, above.bottom, below.y, upper, names))
        shift = (label[0] + label[1]) / 2 - (above.bottom + below.y) / 2
        for item in drawn:
            if isinstance(item, Line):
                for box in passed:  # a gap on both sides: it goes over, it does not end here
                    halo = Line(((x, box.y - 1), (x, box.bottom + 1)), "host", item.width + 6, ends=names)
                    self.over.append(halo)
                self.over.append(item)
            elif isinstance(item, Text):
                self.over.append(item.moved(0, shift))
        for box in passed:
            ports.crossed.setdefault(box.name, []).append(x)

    def collapsed(
        self, others: Sequence[tuple[str, list[int]]], more: int, bottom: float, level_count: int
    ) -> list[tuple[Box, list[int]]]:
        """Boxes for other hosts, at the height of the host's lower edge."""
        wide = max(COLLAPSED_WIDTH, 66.0 * level_count)
        out = []
        for name, members in others:
            out.append((self.small_box(name, contents(self.topology, members), bottom, wide), members))
        if more:
            self.small_box(f"+ {more} more", ["not drawn"], bottom, wide)
        return out

    def small_box(self, name: str, lines: Sequence[str], bottom: float, wide: float) -> Box:
        """One of them: its name and what it holds."""
        x = self.width + COLLAPSED_GAP
        high = min(COLLAPSED_HEIGHT, bottom) if bottom > 40 else bottom
        box = Box(x, bottom - high, wide, high, "panel", "edge", 1.2, 6, name=f"small {x:.0f}", said=name)
        self.width = x + wide
        self.devices.append(box)
        shown = [name, *lines][: max(int(high // 14), 1)]
        first = box.centre[1] - (len(shown) - 1) * 7
        for index, line in enumerate(shown):
            text = clipped(line, box.width - 10, NAME_SIZE if index == 0 else SMALL_SIZE, index == 0)
            size, role = (NAME_SIZE, "ink") if index == 0 else (SMALL_SIZE, "quiet")
            self.devices.append(Text(box.centre[0], first + index * 14, text, size, "middle", role, index == 0))
        return box

    def band_text(self, box: Box, text: str) -> None:
        """The band's name in the widest stretch that no link crosses."""
        crossed = [x for item in self.over if isinstance(item, Line) for x in _crossing(item, box)]
        edges = [box.x, *sorted(crossed), box.right]
        gaps = [(right - left, left, right) for left, right in itertools.pairwise(edges)]
        room, left, right = max(gaps)
        words = clipped(text, room - 14, NAME_SIZE, True)
        self.devices.append(Text((left + right) / 2, box.centre[1], words, NAME_SIZE, "middle", bold=True))


def _crossing(line: Line, box: Box) -> list[float]:
    """Where a vertical line goes through the whole band."""
    (x, y0), (_, y1) = line.points[0], line.points[-1]
    through = len(line.points) == 2 and min(y0, y1) < box.y and max(y0, y1) > box.bottom
    return [x] if through and box.x < x < box.right else []


@dataclass(slots=True)
class _Ports:
    """Where links leave the lower edge of each leaf, and what bands lie below."""

    host: Host
    bands: list[tuple[Box, str]] = field(default_factory=list)
    crossed: dict[str, list[float]] = field(default_factory=dict)
    taken: dict[int, list[float]] = field(default_factory=dict)

    def take(self, leaf: int) -> float:
        """A place on the lower edge: the middle first, then beside it."""
        box = self.host.boxes[leaf]
        used = self.taken.setdefault(leaf, [])
        offset = next((t for t in (0.0, 13.0, -13.0, 20.0, -20.0) if all(abs(t - u) >= 4 for u in used)), 20.0)
        used.append(offset)
        return box.centre[0] + offset

    def spread(self, pairs: list[tuple[int, int, int]]) -> dict[int, tuple[float, float]]:
        """Link -> where it leaves its left and its right GPU, so that links of one GPU do not cross.

        From left to right: those to the left, the shortest first, a free middle, those to the right, the longest first.
        """
        out: dict[int, list[float]] = {link: [0.0, 0.0] for _, _, link in pairs}
        for place, leaf in enumerate(self.host.leaves):
            left = sorted((place - i, link) for i, j, link in pairs if j == place)
            right = sorted(((j - place, link) for i, j, link in pairs if i == place), reverse=True)
            box = self.host.boxes[leaf]
            step = (box.width - 8) / max(len(left) + len(right), 1)
            for index, (_, link) in enumerate([*left, *right]):
                out[link][index < len(left)] = box.x + 4 + step * (index + 0.5)
        return {link: (x0, x1) for link, (x0, x1) in out.items()}
