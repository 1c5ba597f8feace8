"""nccl_log: what NCCL and RCCL print with NCCL_DEBUG=INFO: ranks, channels, rings, trees, transports, tuning.

Lines are found anywhere, behind launchers' labels and between other output. A line that two processes wrote into counts
for the last one. Wordings of NCCL 2.4 to 2.30 and of RCCL.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from busbw.core.log_text import LogText
from busbw.topologies.readers._nccl_noun import Connection, NcclLog, Place
from busbw.topologies.readers._nccl_tuning import Tuning
from busbw.topologies.readers._system_block import Block
from busbw.topologies.reading import TopologyFormat

_LINE = re.compile(r"([A-Za-z0-9][\w.-]*):(\d{1,9}):(\d{1,9}) \[(\d{1,9})\] (?:\S+:\d+ )?NCCL (INFO|WARN|TRACE) ?")
_BARE = re.compile(r"\bNCCL (INFO|WARN|TRACE) ?")
_VIA = re.compile(r" via ((?:P2P|SHM|NET|CollNet|COLLNET|GIN)\b(?:/[^/\n]+?)*?)(?= comm\b| *$)")
_CONNECTION = re.compile(
    r"(?:Channel|Ring) (\d{1,9})(?:/\d+)? : (\d{1,9})(?:\[[0-9a-f]+\])? -> (\d{1,9})(?:\[[0-9a-f]+\])?( \[(?:send|receive)\])?"
)
_LIST = re.compile(r"Channel (\d{1,9})/(\d{1,9}) : +(\d{1,9}(?: +\d{1,9})*) *$")
_RING = re.compile(r"Ring (\d{1,9}) : (\d{1,9}) -> (\d{1,9}) -> (\d{1,9})")
_TREES = re.compile(r"\bTrees? ")
_TREE = re.compile(r"\[(\d{1,9})\] (-?\d{1,9}(?:/-?\d{1,9})*)->(\d{1,9})->(-?\d{1,9})")
_COMM = re.compile(r"\brank (\d{1,9}) nranks (\d{1,9})\b", re.IGNORECASE)
_BUSID = re.compile(r"\bbusId ([0-9a-f]+)\b")
_VERSION = re.compile(r"\b(NCCL|RCCL) version\s*:?\s*(\d[\w.+-]*)")
_DAMAGED = re.compile(
    r"\bcomm 0x[0-9a-f]+ rank \d+ n[rR]anks \d+|\bChannel \d+(?:/\d+)? : \d+\[[0-9a-f]+\] -> \d+.* via "
)
_DEVICE = re.compile(r"#\s*Rank\s+(\d{1,9}) .*?\bon\s+(\S+) device\s+(\d{1,9}) \[([^\]]*)\]\s*(.*?)\s*$")
"""A line of the list that nccl-tests prints."""
_NODES = re.compile(r"\bnNodes (\d{1,9})")
_COLL = re.compile(r"\b(\d{1,9}) coll channels")
_NVLS = re.compile(r"\b(\d{1,9}) nvls channels")
_MULTICAST = re.compile(r"NVLS multicast support is (not )?available")
_THRESHOLDS = re.compile(r"threadThresholds ([^\n]*?) *$")
_ALGORITHM = re.compile(r"(\w+): (\d{1,18}) Bytes -> Algo (\w+) proto (\w+)")
_NETWORK = re.compile(r"Using network (\w[\w +-]*?) *$")
_PATTERN = re.compile(
    r"Pattern (\d{1,9}), crossNic (\d{1,9}), nChannels (\d{1,9}), (?:bw|speed) ([\d.]+)/([\d.]+), type (\w+)/(\w+)"
)
_NICS = re.compile(r"NET/(?:IB|Socket|OFI)\S* : Using((?: \[\d+\]\S+)+)")
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


class _Reader:
    """One log, line by line."""

    def __init__(self, text: LogText) -> None:
        self.text = text
        self.counts: Counter[str] = Counter()
        self.nranks: Counter[int] = Counter()
        self.seen: dict[str, dict[Any, None]] = {}
        self.ranks: dict[int, Place] = {}
        self.lists: dict[int, tuple[int, ...]] = {}
        self.following: dict[int, dict[int, int]] = {}
        self.guesses: dict[int, dict[int, int]] = {}
        self.trees: dict[int, dict[int, int]] = {}
        self.connections: dict[Connection, None] = {}
        self.transports: Counter[str] = Counter()
        self.choices: dict[tuple[str, str], Counter[int]] = {}
        self.with_rings: set[tuple[str, str]] = set()
        self.nvls: bool | None = None
        self.tuning = Tuning()
        self.blocks: dict[str, Block] = {}
        self.open: dict[tuple[str, str], Block] = {}

    def keep(self, kind: str, value: Any) -> None:
        """Note a value once, in order."""
        self.seen.setdefault(kind, {})[value] = None

    def read(self) -> NcclLog:
        for _, line in self.text.lines():
            marks = [match[1] for match in _BARE.finditer(line)]
            if marks:
                self.take(line, marks)
            elif version := _VERSION.search(line):
                self.keep(f"{version[1]} version", version[2])
            elif device := _DEVICE.search(line):
                self.ranks[int(device[1])] = Place(device[2], int(device[3]), device[4], device[5])
            elif _DAMAGED.search(line):  # the head is lost: what stands there is counted, whose it is can't be told
                self.counts["damaged"] += 1
                self.world_sizes(line)
                self.transport(line)
        return self.log()

    def take(self, line: str, marks: list[str]) -> None:
        if "INFO" in marks:
            self.counts["info"] += 1
        if "WARN" in marks:
            self.counts["warn"] += 1
        heads = list(_LINE.finditer(line))
        self.counts["damaged"] += len(marks) > 1
        head = heads[-1] if heads else None
        body = line[head.end() :] if head else line[max(m.end() for m in _BARE.finditer(line)) :]
        host, process, device = (head[1], f"{head[2]}:{head[4]}", int(head[4])) if head else ("", "", -1)
        if "TRACE" in marks[-1:]:
            return
        self.counts["gdrdma"] += line.count("GDRDMA")
        self.where(body, host, device)
        self.counted(body)
        self.routes(body, host, process, device)
        self.tuning.take((host, process), body)
        self.block(body, host, process)

    def where(self, body: str, host: str, device: int) -> None:
        self.world_sizes(body)
        comm_line = _COMM.search(body)
        if comm_line is not None and host:
            busid = _BUSID.search(body)
            self.place(int(comm_line[1]), host, device, busid[1] if busid else "")
        if nodes := _NODES.search(body):
            self.keep("nodes", int(nodes[1]))

    def world_sizes(self, body: str) -> None:
        for comm in re.finditer(r"\bnranks (\d{1,9})\b", body, re.IGNORECASE):
            self.nranks[int(comm[1])] += 1

    def transport(self, body: str) -> str:
        """The transport that a line names, counted; "" for none."""
        via = _VIA.search(body)
        if via is None:
            return ""
        self.transports[re.sub(r"/\d+(?:\(\d+\))?(?=/|$)", "/n", via[1])] += 1
        return via[1]

    def place(self, rank: int, host: str, device: int, busid: str = "") -> None:
        """Where a rank is; what is known already stays."""
        known = self.ranks.get(rank)
        if host and (known is None or (busid and not known.busid)):
            self.ranks[rank] = Place(host, device, busid)

    def counted(self, body: str) -> None:
        self.counts["rings"] += "Connected all rings" in body
        self.counts["alltrees"] += "Connected all trees" in body
        self.counts["complete"] += "Init COMPLETE" in body
        if version := _VERSION.search(body):
            self.keep(f"{version[1]} version", version[2])
        for kind, pattern in (("threshold", _THRESHOLDS), ("network", _NETWORK)):
            if match := pattern.search(body):
                self.keep(kind, match[1])
        for kind, pattern in (("coll", _COLL), ("nvls", _NVLS)):
            if match := pattern.search(body):
                self.keep(kind, int(match[1]))
        if match := _MULTICAST.search(body):
            self.nvls = bool(self.nvls) or not match[1]
        if match := _PATTERN.search(body):
            self.keep("pattern", " ".join(match.groups()[:5]))
        if match := _NICS.search(body):
            for nic in re.findall(r"\[\d+\]([\w.-]+)", match[1]):
                self.keep("nic", nic)
        if match := _ALGORITHM.search(body):
            how = f"{_word(match[3], _ALGORITHMS)}/{_word(match[4], _PROTOCOLS)}"
            self.choices.setdefault((match[1], how), Counter())[int(match[2])] += 1

    def routes(self, body: str, host: str, process: str, device: int) -> None:
        if "Connected all rings" in body:
            self.with_rings.add((host, process))
        if match := _LIST.search(body):
            self.counts["lists"] += 1
            self.lists.setdefault(int(match[1]), tuple(map(int, match[3].split())))
            return
        if match := _RING.search(body):
            channel, before, rank, after = map(int, match.groups())
            steps = self.following.setdefault(channel, {})
            steps[before], steps[rank] = rank, after
            self.place(rank, host, device)
            return
        if _TREES.search(body) and (found := _TREE.findall(body)):
            self.counts["trees"] += 1
            for channel_text, _, rank_text, parent in found:
                self.trees.setdefault(int(channel_text), {})[int(rank_text)] = int(parent)
            self.place(int(found[0][2]), host, device)
            return
        transport = self.transport(body)
        if not transport:
            return
        if match := _CONNECTION.search(body):
            connection = Connection(int(match[1]), int(match[2]), int(match[3]), transport)
            self.connections[connection] = None
            receives = match[4] is not None and "receive" in match[4]
            self.place(connection.target if receives else connection.source, host, device)
            if (host, process) not in self.with_rings:  # later ones belong to trees
                self.guesses.setdefault(connection.channel, {}).setdefault(connection.source, connection.target)

    def block(self, body: str, host: str, process: str) -> None:
        """The lines of `=== System`, of the first process of each host that prints them."""
        key = (host, process)
        if "=== System" in body:
            self.open[key] = Block()
        elif key in self.open and not self.open[key].take(body):
            block = self.open.pop(key)
            if block.lines:
                self.blocks.setdefault(host, block)

    def log(self) -> NcclLog:
        following = {channel: dict(steps) for channel, steps in self.guesses.items()}
        for channel, steps in self.following.items():
            following[channel] = steps
        return NcclLog(
            file=self.text.name,
            versions=self.all("NCCL version"),
            rccl_versions=self.all("RCCL version"),
            info_lines=self.counts["info"],
            warn_lines=self.counts["warn"],
            damaged_lines=self.counts["damaged"],
            nranks=dict(self.nranks),
            hosts_said=self.all("nodes"),
            ranks=dict(sorted(self.ranks.items())),
            channels=self.all("coll"),
            nvls_channels=self.all("nvls"),
            ring_lists=self.lists,
            ring_list_lines=self.counts["lists"],
            next_rank=following,
            trees=self.trees,
            tree_lines=self.counts["trees"],
            connections=tuple(self.connections),
            transports=dict(self.transports),
            connected_all_rings=self.counts["rings"],
            connected_all_trees=self.counts["alltrees"],
            gdrdma_mentions=self.counts["gdrdma"],
            nvls_available=self.nvls,
            thread_thresholds=self.all("threshold"),
            choices=self.choices,
            init_complete=self.counts["complete"],
            networks=self.all("network"),
            nics=self.all("nic"),
            patterns=tuple(sorted(self.all("pattern"))),
            tuning=self.tuning.usable(),
            blocks=self.blocks,
        )

    def all(self, kind: str) -> tuple[Any, ...]:
        """Values of a kind, in the order in which they came."""
        return tuple(self.seen.get(kind, {}))


def _word(text: str, names: tuple[str, ...]) -> str:
    """NCCL once printed numbers where it now prints names."""
    return names[int(text)] if text.isdecimal() and len(text) < 3 and int(text) < len(names) else text.upper()


FORMAT = TopologyFormat(
    "nccl_log",
    "output of NCCL_DEBUG=INFO",
    lambda text: text.contains(b"NCCL INFO", b"NCCL TRACE", b"NCCL WARN"),
    lambda text: _Reader(text).read(),
    order=2,
)
