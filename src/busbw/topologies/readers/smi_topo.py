"""smi_topo: the matrix of `nvidia-smi topo -m`, as it is copied from terminals, logs and pages.

X is the device itself; NV# so many NVLinks bonded (behind NVSwitches: all links of the GPU); PIX at most one PCIe bridge;
PXB several, no host bridge; PHB a host bridge; NODE several host bridges of one NUMA node; SYS (once SOC) crosses sockets.
A matrix of `nvidia-smi topo -p2p` in the same text is left alone; alone it is no topology.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from busbw.core.log_text import LogText
from busbw.core.topology import Topology
from busbw.errors import FileError
from busbw.topologies.reading import TopologyFormat

DISTANCES = ("X", "NV", "C2C", "PIX", "PXB", "PHB", "NODE", "SYS")
"""From near to far."""
_P2P = frozenset(("OK", "NS", "CNS", "GNS", "TNS", "DR", "U"))
_CELL = re.compile(r"X|NV\d{1,3}|C2C|PIX|PXB|PHB|NODE|SYS|SOC|N/A")
_GPU = re.compile(r"GPU\d{1,4}")
_RULES = re.compile(r"[|│┃+]|\[\d{0,2}m")
"""Rules of tables, and what is left of colours when their escape is lost."""
_MOST_SHOWN = 4


def distance(cell: str) -> int:
    """How far a cell says two devices are from each other; larger than all for a cell that says nothing."""
    word = "NV" if cell.startswith("NV") else "SYS" if cell == "SOC" else cell
    return DISTANCES.index(word) if word in DISTANCES else len(DISTANCES)


@dataclass(frozen=True, slots=True)
class SmiMatrix:
    """One matrix as it stands: a cut one has fewer rows or cells than its header promises."""

    file: str
    line: int
    """Of its header."""
    columns: tuple[str, ...]
    """GPUs, then NICs, in the header's order."""
    rows: Mapping[str, Mapping[str, str]]
    """Row -> column -> cell, as far as they are there."""
    affinity: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """GPU -> the words after its cells: CPUs, NUMA node, ID of the GPU's own NUMA node."""
    nic_devices: Mapping[str, str] = field(default_factory=dict)
    """NIC0 -> mlx5_0, from the legend."""
    notes: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """GPUs of the header."""
        return tuple(name for name in self.columns if _GPU.fullmatch(name))

    @property
    def nics(self) -> tuple[str, ...]:
        """NICs of the header."""
        return tuple(name for name in self.columns if not _GPU.fullmatch(name))

    @property
    def rows_present(self) -> tuple[str, ...]:
        """GPUs that have a row."""
        return tuple(gpu for gpu in self.gpus if gpu in self.rows)

    @property
    def full_rows(self) -> bool:
        """Whether every row that is there has all of its cells."""
        return all(len(cells) == len(self.columns) for cells in self.rows.values())

    def cell(self, one: str, other: str) -> str:
        """What is said of two devices, in either row; "" where nothing is."""
        return self.rows.get(one, {}).get(other) or self.rows.get(other, {}).get(one, "")

    def pairs(self) -> Iterator[tuple[str, str, str]]:
        """Every pair of different GPUs that something is said of, with its cell."""
        for place, one in enumerate(self.gpus):
            for other in self.gpus[place + 1 :]:
                if cell := self.cell(one, other):
                    yield one, other, cell

    def gpu_pairs(self) -> dict[str, int]:
        """Cell -> how many pairs of GPUs have it."""
        return dict(Counter(cell for _, _, cell in self.pairs()))

    def asymmetric_pairs(self) -> list[tuple[str, str]]:
        """Pairs whose two rows disagree."""
        names = [name for name in self.columns if name in self.rows]
        return [
            (one, other)
            for place, one in enumerate(names)
            for other in names[place + 1 :]
            if self.rows[one].get(other, "") != self.rows[other].get(one, "")
            and other in self.rows[one]
            and one in self.rows[other]
        ]

    def nearest_nics(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """GPU -> the nearest cell to any NIC, and the NICs there; only GPUs whose row has all NICs."""
        found = {}
        for gpu in self.rows_present:
            cells = {nic: self.rows[gpu][nic] for nic in self.nics if nic in self.rows[gpu]}
            if cells and len(cells) == len(self.nics):
                best = min(cells.values(), key=distance)
                found[gpu] = (best, tuple(nic for nic, cell in cells.items() if distance(cell) == distance(best)))
        return found

    def nvlink_labels(self) -> dict[str, int]:
        """GPU -> the sum of the NV numbers of its row."""
        return {
            gpu: sum(int(c[2:]) for name, c in self.rows[gpu].items() if c.startswith("NV") and name != gpu)
            for gpu in self.rows_present
        }

    @property
    def switched(self) -> int:
        """The links of each GPU where all meet in NVSwitches; 0 where GPUs are wired to each other, or not at all.

        nvidia-smi prints the links of the GPU, not those of the pair, behind NVSwitches. So all pairs have one number, and
        there are more links than a GPU has (18), or as many as a whole GPU brings (8, 12, 18) between more than two.
        """
        labels = {cell for _, _, cell in self.pairs()}
        if len(labels) != 1 or not (label := labels.pop()).startswith("NV"):
            return 0
        links, others = int(label[2:]), len(self.gpus) - 1
        return links if links * others > 18 or (links in (8, 12, 18) and others > 1) else 0

    def links_per_gpu(self) -> dict[str, int]:
        """GPU -> its NVLinks."""
        labels = self.nvlink_labels()
        return dict.fromkeys(labels, self.switched) if self.switched else labels

    @property
    def stands_alone(self) -> bool:
        """It describes a machine, or nothing."""
        return False

    def topology(self) -> Topology:
        """The host that the matrix was printed on, rebuilt; FileError for a cut one, where pairs are missing."""
        from busbw.topologies.readers._rebuild import rebuild

        missing = len(self.gpus) * (len(self.gpus) - 1) // 2 - sum(1 for _ in self.pairs())
        if missing and not self.switched:
            raise FileError(
                f"{self.file}:{self.line}: the matrix is cut: {missing} pairs of its {len(self.gpus)} GPUs are not there; save "
                "the whole output: nvidia-smi topo -m > topo.txt"
            )
        return rebuild(self)

    def summary(self) -> list[str]:
        """Pairs, NICs, what is odd."""
        pairs = ", ".join(
            f"{count} {cell}" for cell, count in sorted(self.gpu_pairs().items(), key=lambda x: distance(x[0]))
        )
        lines = [f"nvidia-smi topo -m: {len(self.gpus)} GPUs, pairs: {pairs or 'none'}; {len(self.nics)} NICs"]
        near = self.nearest_nics()
        if near:
            cells = Counter(cell for cell, _ in near.values())
            lines.append(f"nearest NIC: {', '.join(f'{cell} for {n} GPUs' for cell, n in cells.items())}")
        return [*lines, *self.notes]

    def to_json(self) -> dict[str, Any]:
        """The matrix and what follows from it."""
        return {
            "format": "smi_topo",
            "line": self.line,
            "gpus": len(self.gpus),
            "nics": len(self.nics),
            "nic_names": list(self.nics),
            "nic_devices": dict(self.nic_devices),
            "rows_present": list(self.rows_present),
            "full_rows": self.full_rows,
            "gpu_pairs": self.gpu_pairs(),
            "nearest_nic": {gpu: [cell, list(nics)] for gpu, (cell, nics) in self.nearest_nics().items()} or None,
            "affinity_tokens": {gpu: list(words) for gpu, words in self.affinity.items()},
            "asymmetric_pairs": [list(pair) for pair in self.asymmetric_pairs()],
            "nvlink_labels_sum_per_gpu": self.nvlink_labels(),
            "links_per_gpu": self.links_per_gpu(),
            "notes": list(self.notes),
        }


def _header(words: list[str]) -> tuple[str, ...]:
    """The columns of a header line; nothing where it is none. It begins with a GPU, and names end before CPU Affinity."""
    if not words or not _GPU.fullmatch(words[0]):
        return ()
    columns = []
    for word in words:
        if word in ("CPU", "NUMA", "GPU", "Affinity", "CPU/NUMA"):
            break
        if _CELL.fullmatch(word) or word in _P2P or re.fullmatch(r"[A-Za-z][\w.:-]*", word) is None:
            return ()
        columns.append(word)
    has_digits = all(re.search(r"\d", word) for word in columns)
    return tuple(columns) if has_digits and len(set(columns)) == len(columns) else ()


@dataclass(slots=True)
class _Open:
    """A matrix that is being read."""

    line: int
    columns: tuple[str, ...]
    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    affinity: dict[str, tuple[str, ...]] = field(default_factory=dict)
    p2p: bool = False
    unknown: list[str] = field(default_factory=list)

    def take(self, number: int, words: list[str]) -> None:
        """One row."""
        cells: dict[str, str] = {}
        for column, word in zip(self.columns, words[1:], strict=False):
            if word in _P2P and column != words[0]:
                self.p2p = True
            elif not _CELL.fullmatch(word) and word not in _P2P:
                self.unknown.append(
                    f"line {number}: {word[:20]!r} is no cell of nvidia-smi topo -m; what follows it is left out"
                )
                break
            cells[column] = word
        self.rows[words[0]] = cells
        rest = tuple(words[1 + len(self.columns) :])
        if rest and len(cells) == len(self.columns):
            self.affinity[words[0]] = rest


def matrices(text: LogText) -> tuple[list[SmiMatrix], list[SmiMatrix]]:
    """Every matrix of links in a text, and every matrix of peer access (`nvidia-smi topo -p2p`)."""
    found: list[_Open] = []
    devices: dict[str, str] = {}
    for number, who, line in text.tagged_lines():
        label = re.search(r"NIC\d{1,3}:$", who)  # without blanks before it, it looks like a host's label
        legend = re.fullmatch(r"\s*(NIC\d{1,3})\s*:\s*(\S+)\s*", f"{label[0] if label else ''}{line}")
        if legend is not None:
            devices[legend[1]] = legend[2]
            continue
        words = _RULES.sub(" ", line).split()
        columns = _header(words)
        if columns:
            found.append(_Open(number, columns))
        elif found and words and words[0] in found[-1].columns and words[0] not in found[-1].rows and len(words) > 1:
            found[-1].take(number, words)
    whole = [one for one in found if one.rows]
    links = [one for one in whole if not one.p2p]
    return (
        [_close(text, one, devices, len(links)) for one in links],
        [_close(text, one, devices, 1) for one in whole if one.p2p],
    )


def _drop_cut_cells(one: _Open) -> list[str]:
    """Take out the last cell of a row that is cut, where it may be cut itself (NV1 of NV18); says which rows are cut."""
    notes = []
    for row, cells in one.rows.items():
        if len(cells) == len(one.columns) or not cells:
            continue
        notes.append(f"the matrix is cut in the row of {row}")
        last = list(cells)[-1]
        if last != row and one.rows.get(last, {}).get(row) != cells[last]:
            del cells[last]
    return notes[:_MOST_SHOWN]


def _close(text: LogText, one: _Open, devices: dict[str, str], count: int) -> SmiMatrix:
    notes = list(one.unknown[:_MOST_SHOWN]) + _drop_cut_cells(one)
    gpus = [name for name in one.columns if _GPU.fullmatch(name)]
    lost = [gpu for gpu in gpus if gpu not in one.rows]
    if lost:
        notes.append(
            f"the matrix is cut: no row of {', '.join(lost[:_MOST_SHOWN])}{' ...' if len(lost) > _MOST_SHOWN else ''}"
        )
    if count > 1:
        notes.append(f"{count} matrices in this text: the first is read")
    matrix = SmiMatrix(
        text.name,
        one.line,
        one.columns,
        one.rows,
        one.affinity,
        {nic: name for nic, name in devices.items() if nic in one.columns},
    )
    notes += [f"the rows of {a} and {b} disagree on each other" for a, b in matrix.asymmetric_pairs()[:_MOST_SHOWN]]
    return SmiMatrix(
        matrix.file, matrix.line, matrix.columns, matrix.rows, matrix.affinity, matrix.nic_devices, tuple(notes)
    )


def _recognises(text: LogText) -> bool:
    return (
        re.search(r"^[^\n]*\bGPU\d{1,4}\b", text.head, re.MULTILINE) is not None
        and not text.contains(b"<system", b"NCCL INFO")
        and any(matrices(text))
    )


def _read(text: LogText) -> SmiMatrix:
    links, p2p = matrices(text)
    if not links:
        raise FileError(
            f"{text.name}:{p2p[0].line}: a matrix of nvidia-smi topo -p2p: it says which pairs may use peer access, not how they are "
            "joined; save nvidia-smi topo -m instead"
        )
    return links[0]


FORMAT = TopologyFormat("smi_topo", "nvidia-smi topo -m", _recognises, _read)
