"""Facts in other tools' output: NCCL_DEBUG lines, the device list of nccl-tests, and the matrix of nvidia-smi topo -m."""

from __future__ import annotations

import re
from collections import defaultdict

from busbw.core.finding import Facts
from busbw.core.log_text import LogText
from busbw.errors import FileError
from busbw.formats._nccl_info import algorithm_name, protocol_name
from busbw.topologies import describe_text
from busbw.topologies.readers._nccl_machine import FASTEST_NIC_MBPS
from busbw.topologies.readers._xml import root_of
from busbw.topologies.readers.nccl_xml import LINKS, NcclSystem, number
from busbw.topologies.readers.smi_topo import SmiMatrix, distance, matrices
from busbw.units import GB

_HOST = re.compile(r"([\w.-]+):\d+:\d+ \[\d+\] NCCL (?:INFO|WARN|TRACE)")
_RANK = re.compile(r"#\s*Rank\s+\d+ .*?\bon\s+(\S+) device\s+\d+ \[[^\]]*\]\s*(.*?)\s*$", re.MULTILINE)
_VIA = re.compile(r" via (NET|P2P|SHM|CollNet)\b[^\n]*")
_NETWORK = re.compile(r"Using network (\w[\w ]*)")
_NICS = re.compile(r"NET/IB : Using ((?:\[\d+\]\S+ ?)+)")
_ENVIRONMENT = re.compile(r"\b(NCCL_[A-Z0-9_]+) set by environment to (\S+)")
_GDR_OFF = re.compile(r"GPU Direct RDMA Disabled for")
_PATH = re.compile(r"GPU/\w+ :.*?\bNET/\d+ \(\d+/[\d.]+/(\w+)\)")
_NET_RATE = re.compile(r"\+ NET\[([\d.]+)\] - NET/")
_NODES = re.compile(r"\bnNodes (\d+)")
_VERSION = re.compile(r"\bNCCL version (\d[\w.+-]*)")
_CHANNELS = re.compile(r"Channel \d+/(\d{1,9}) :")
_CHOICE = re.compile(r"Bytes -> Algo (\w+) proto (\w+)", re.IGNORECASE)
_NO_NVLS = re.compile(r"NVLS multicast support is not available")
_READY = re.compile(r"Init COMPLETE|Connected all")
_NETWORKS = {"ib": "infiniband", "ibext": "infiniband", "socket": "sockets", "aws libfabric": "efa", "ofi": "efa"}


def facts_of_log(text: str, name: str) -> Facts:
    """What the NCCL lines of a log tell; a line that is absent tells nothing."""
    facts = Facts()
    source = f"{name}, NCCL lines"
    ranks = _RANK.findall(text)
    speakers = set(_HOST.findall(text))
    hosts = {host for host, _ in ranks}
    nodes = _NODES.findall(text)
    if nodes:
        facts = facts.having("hosts", float(max(map(int, nodes))), f"{source}: nNodes")
    elif hosts:
        facts = facts.having("hosts", float(len(hosts)), f"{name}, device list")
    gpus = {gpu for _, gpu in ranks if gpu}
    if len(gpus) == 1:
        facts = facts.having("gpu", gpus.pop(), f"{name}, device list")
    if hosts and len(ranks) % len(hosts) == 0:
        facts = facts.having("gpus_per_host", len(ranks) / len(hosts), f"{name}, device list")
    facts = _transports(facts, text, source)
    network = _NETWORK.search(text)
    if network is not None:
        word = network[1].strip().lower()
        facts = facts.having("network", _NETWORKS.get(re.sub(r"_v\d+$", "", word), word), f"{source}: {network[0]}")
    if facts.text("network") == "sockets" and not any(match[1] == "NET" for match in _VIA.finditer(text)):
        inside = (facts.number("hosts") or 1) <= 1
        facts = facts.having("network", None, "") if inside else facts
    nics = _NICS.search(text)
    if nics is not None and (facts.number("hosts") or 2) > 1:
        facts = facts.having("nics", float(len(re.findall(r"\[\d+\]\S+:", nics[1]))), f"{source}: NET/IB : Using")
    rate = {float(value) for value in _NET_RATE.findall(text)}
    if len(rate) == 1:
        facts = facts.having("nic_rate", rate.pop() * GB, f"{source}: + NET[..]")
    paths = _PATH.findall(text)
    if paths:
        facts = facts.having("gdr_distance", max(paths, key=_distance), f"{source}: GPU/.. : NET/..")
    version = _VERSION.search(text)
    if version is not None:
        facts = facts.having("nccl_version", version[1], source)
    channels = _CHANNELS.search(text)
    if channels is not None and int(channels[1]) > 0:
        facts = facts.having("channels", float(channels[1]), f"{source}: {channels[0]}")
    if _NO_NVLS.search(text):
        facts = facts.having("nvls", False, f"{source}: NVLS multicast support is not available")
    facts = _choices(facts, text, source)
    return _environment(facts, text, source, speakers)


def _transports(facts: Facts, text: str, source: str) -> Facts:
    network, inside = [], set()
    for match in _VIA.finditer(text):
        if match[1] == "NET":
            network.append("GDRDMA" in match[0])
        elif match[1] in ("P2P", "SHM"):
            inside.add(match[1])
    if network and (all(network) or not any(network)):
        on = network[0]
        facts = facts.having("gdr", on, f"{source}: channels via NET {'with' if on else 'without'} GDRDMA")
    elif _GDR_OFF.search(text):
        facts = facts.having("gdr", False, f"{source}: GPU Direct RDMA Disabled")
    if len(inside) == 1:
        kind = inside.pop()
        facts = facts.having("p2p", kind == "P2P", f"{source}: channels via {kind}")
    return facts


def _choices(facts: Facts, text: str, source: str) -> Facts:
    chosen = {(match[1], match[2]) for match in _CHOICE.finditer(text)}
    algorithms = {algorithm_name(algorithm) for algorithm, _ in chosen}
    protocols = {protocol_name(protocol) for _, protocol in chosen}
    if len(algorithms) == 1:
        facts = facts.having("algorithm", algorithms.pop(), f"{source}: Bytes -> Algo")
    if len(protocols) == 1:
        facts = facts.having("protocol", protocols.pop(), f"{source}: Bytes -> Algo .. proto")
    return facts


def _environment(facts: Facts, text: str, source: str, speakers: set[str]) -> Facts:
    setters: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        if "set by environment to" not in line:
            continue
        match, host = _ENVIRONMENT.search(line), _HOST.search(line)
        if match is None:
            continue
        name, value = match.groups()
        if host is not None:
            setters[name].add(host[1])
        value = value.rstrip(".,")
        if name == "NCCL_PROTO" and not value.startswith("^"):
            facts = facts.having("forced_protocol", protocol_name(value), f"{source}: {match[0]}")
        elif name == "NCCL_ALGO" and not value.startswith("^") and "," not in value:
            facts = facts.having("algorithm", algorithm_name(value), f"{source}: {match[0]}")
        elif name == "NCCL_NET_GDR_LEVEL":
            facts = facts.having("gdr_level", value, f"{source}: {match[0]}")
    # A variable is printed by each process that reads it; only those that every host reads tell anything.
    hosts = facts.number("hosts") or 0
    speakers &= {host[1] for line in text.splitlines() if _READY.search(line) and (host := _HOST.search(line))}
    if len(speakers) > 1 and len(speakers) >= hosts and "NCCL_NET_GDR_LEVEL" in setters:
        same = setters["NCCL_NET_GDR_LEVEL"] >= speakers
        facts = facts.having(
            "same_environment",
            same,
            f"{source}: NCCL_NET_GDR_LEVEL set on {len(setters['NCCL_NET_GDR_LEVEL'] & speakers)} of {len(speakers)} hosts",
        )
    return facts


_ORDER = ("LOC", "X", "NV", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "NODE", "SYS")


def _distance(path: str) -> int:
    word = "NV" if re.fullmatch(r"NV\d+", path) else path
    return _ORDER.index(word) if word in _ORDER else len(_ORDER)


def facts_of_topology(text: str, name: str) -> Facts:
    """What a description of a host tells: the matrix of nvidia-smi topo -m, or NCCL's topology XML.

    FileError, with the reason, for one that is known and cannot be read: a part of an XML file, a matrix of peer access.
    """
    log = LogText(text.encode(), name)
    try:
        found = describe_text(log)
    except FileError:
        if root_of(log) or any(matrices(log)):
            raise
        return Facts()
    if isinstance(found, NcclSystem):
        return _facts_of_system(found, name)
    return facts_of_matrix(found, name) if isinstance(found, SmiMatrix) else Facts()


def _facts_of_system(system: NcclSystem, name: str) -> Facts:
    source = f"{name}, NCCL topology"
    facts = Facts()
    gpus, hosts = len(system.gpu_functions), len(system.hosts()) or 1
    if gpus and hosts == 1:
        facts = facts.having("gpus_per_host", float(gpus), source)
        links = [tag for tag in LINKS if system.elements(tag)]
        if links or system.elements("gpu"):  # files for guests have no <gpu>, and leave NVLinks to NCCL
            facts = facts.having("link", links[0] if links else "pcie", source)
    speeds = [number(net.get("speed"), 0) for net in system.elements("net")]
    if speeds and hosts == 1:
        facts = facts.having("nics", float(len(speeds)), source)
        if len(set(speeds)) == 1 and 10_000 <= speeds[0] <= FASTEST_NIC_MBPS:  # files in the wild hold impossible ones
            facts = facts.having("nic_rate", speeds[0] * 1e6 / 8, f"{source}: net speed")
    return facts


def facts_of_matrix(matrix: SmiMatrix, name: str) -> Facts:
    """What a matrix of nvidia-smi topo -m tells about links between GPUs, and between GPUs and NICs."""
    source = f"{name}, nvidia-smi topo -m"
    facts = Facts()
    gpus = [gpu for gpu in matrix.rows_present if len(matrix.rows[gpu]) == len(matrix.columns)]
    between = {(a, b): matrix.rows[a][b] for a in gpus for b in gpus if a != b}
    if between:
        paths = set(between.values())
        if any(path.startswith("NV") for path in paths):
            facts = facts.having("link", "nvlink", source)
        else:
            facts = facts.having("link", "pcie", source)
            facts = facts.having("pcie_switch", bool(paths & {"PIX", "PXB"}), source)
            close = {(a, b) for (a, b), path in between.items() if path in ("PIX", "PXB")}
            neighbours = {(f"GPU{i}", f"GPU{i ^ 1}") for i in range(len(gpus))}
            facts = facts.having("pairs", close == neighbours and bool(close), source)
        facts = facts.having("gpus_per_host", float(len(gpus)), source)
        if len(gpus) > 1 and not paths & {"SYS", "SOC"} and facts.text("link") == "pcie":
            facts = facts.having("sockets", 1.0, source)
    if matrix.nics and gpus:
        best = [min((matrix.rows[gpu][nic] for nic in matrix.nics), key=distance) for gpu in gpus]
        facts = facts.having("near_nics", all(path in ("PIX", "PXB") for path in best), source)
        facts = facts.having("gdr_distance", max(best, key=distance), source)
        facts = facts.having("nics", float(len(matrix.nics)), source)
    return facts
