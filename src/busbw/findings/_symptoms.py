"""What people say is wrong, brought to a few codes; and what they say about the machine, brought to facts."""

from __future__ import annotations

import re

from busbw.core.finding import Facts
from busbw.units import GB, parse_size

SYMPTOMS: dict[str, str] = {
    "hangs": r"\bhangs?\b|\bhung\b|dead ?lock|\bstuck\b|never (returns|finishes)|times? out|timeout",
    "network-error": r"network error|unhandled system error|remote error|ibv_|IBV_WC|completion with error|async(hronous)? error",
    "works-without-gdr": r"(unless|without|disabl\w+|off)\b.{0,40}(GPU ?Direct|GDR)|(GPU ?Direct|GDR)\w*(?: RDMA)?.{0,40}(is )?(switched |turned )?(off|disabled)",
    "works-without-p2p": r"P2P.{0,20}(disabled|off)|NCCL_P2P_DISABLE=1|without (P2P|peer)",
    "launch-failure": r"launch (failure|failed)|invalid argument|too much shared|shared memory|invalid device function|no kernel image",
    "wrong-values": r"wrong (value|result|data)|incorrect|\bFAILED\b|out of bounds|corrupt|#wrong",
    "kink": r"\bkink|anomal|\bbump\b|\bdip\b|zig-?zag|jump(s)? at",
    "drop-at-large": r"(drops?|falls?|halves|decreas\w+|lower|slower).{0,60}\b(above|from|beyond|larger than|over|at)\b.{0,20}\d+(\.\d+)? ?[KMG]i?B",
    "middle-sizes-fall": r"(middle|mid|medium|intermediate)[ -]?siz\w+.{0,80}(fall|drop|worse|lower|decreas)|(fall|drop|worse|lower)\w*.{0,60}(middle|mid|medium|intermediate)[ -]?siz",
    "subsets-differ": r"(different|other|some|which) (sub)?sets? of GPUs|different GPUs|depends on (the|which) GPU|GPU (pairs?|subsets?).{0,40}differ",
    "low": r"\blow\b|\bpoor\b|\bslow\b|\bhalf\b|\bonly\b.{0,20}GB/s|expected (more|higher)|not (reach|achiev)",
    "above-wire": r"(exceed|above|more than|higher than|over|faster than|on a)\b.{0,40}(line rate|wire|theoretical|network|\d+ ?Gb/s|\d+ ?GB/s)",
    "tree-against-ring": r"tree.{0,40}(beats|faster|better|ring)|ring.{0,40}(slower|worse|tree)",
    "about-protocols": r"\bLL128\b|\bLL\b|\bSimple protocol",
    "about-nvls": r"in-?switch reduction|NVLS|NVLink ?SHARP|\bSHARP\b",
    "about-average": r"\baverage\b|\bavg\b",
    "about-all-to-all": r"all-?to-?all",
    "p2p-made-it-slower": r"(with|enabl\w+) (peer access|P2P).{0,80}(from \d+ to \d+|slower|worse|drop)",
    "is-it-good": r"is (it|this|that|about).{0,60}(right|good|poor|normal|expected|ok)|what (should|is the right|is right)|expected\?|poor\?",
}
"""Code -> pattern, case-insensitive."""

_COMPILED = {code: re.compile(pattern, re.IGNORECASE | re.DOTALL) for code, pattern in SYMPTOMS.items()}


def says(facts: Facts, *codes: str) -> bool:
    """Whether the user's words name any of these symptoms."""
    return any(_COMPILED[code].search(text) for text in facts.symptoms for code in codes)


_DESCRIPTIONS: tuple[tuple[str, str, bool | str], ...] = (
    (r"\bno PCIe switch|without (a )?(PCIe )?switch|\bPHB\b", "pcie_switch", False),
    (r"\bPCIe switch", "pcie_switch", True),
    (r"NVLink ?SHARP|in-?switch reduction|\bNVLS\b", "nvls", True),
    (r"\bNVLink|\bNVSwitch|\bSXM|\bDGX|\bHGX", "link", "nvlink"),
    (r"\bPCIe|\bPHB\b|\bPIX\b|RTX|GeForce|workstation", "link", "pcie"),
    (r"\bsockets\b|\bTCP\b", "network", "sockets"),
    (r"\bRoCE", "network", "roce"),
    (r"InfiniBand|\bIB\b", "network", "infiniband"),
    (r"\bEFA\b", "network", "efa"),
)
_GPU = re.compile(
    r"\b(RTX (?:PRO )?\w+|GeForce|[AVHBT]\d{1,3}0{1,2}\b|MI\d{3}X?|GB200|H20\b|L40S?|T4|workstation GPU)", re.IGNORECASE
)
_ONE_OF = re.compile(
    r"\bone of (?:the )?(?:\w+ )?(\d+ ?[GM]b/s)?[^.]{0,20}NICs? used|\bone (?:\d+ ?Gb/s )?(?:NIC|card)\b", re.IGNORECASE
)
_RATE = re.compile(r"(?:(\d+) ?x ?)?(\d+(?:\.\d+)?) ?Gb/s", re.IGNORECASE)
_NUMBER_WORDS = {"one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "eight": 8.0}
_CARDS = re.compile(r"\b(one|two|three|four|eight|\d+)x? ?(?:times )?(\d+) ?Gb/s (?:cards|NICs)", re.IGNORECASE)
_FORCED = re.compile(r"\bforc\w+ (LL128|LL|Simple)\b", re.IGNORECASE)
_PROTO = re.compile(r"NCCL_PROTO=\^?(LL128|LL|Simple)\b", re.IGNORECASE)
_HOSTS = re.compile(r"\b(two|three|four|six|eight|\d+)[ -](?:nodes?|hosts?)\b(?!\s*(?:GPU|x))", re.IGNORECASE)
_HOST_WORDS = {**_NUMBER_WORDS, "six": 6.0}
_HOSTS_OF = re.compile(r"\b(\d{1,6}) ?x (\d{1,3}) (?=[A-Z])")
"""`2x 8 H100`: hosts of GPUs."""
_DROP = re.compile(
    r"\b(?:above|from|beyond|larger than|over)\s+(?:about\s+)?(\d{1,9}(?:\.\d{1,3})? ?[KMG]i?B)\b", re.IGNORECASE
)
_ALGORITHM = re.compile(
    r"\b(?:with|forced|only) (Ring|Tree|NVLS)\b|\b(Ring|Tree|NVLS) only\b|NCCL_ALGO=(Ring|Tree|NVLS)", re.IGNORECASE
)


def facts_of(text: str, source: str) -> Facts:
    """Facts that a description in words holds, such as `4x RTX 4090, no PCIe switch` or `one of four 200 Gb/s NICs used`."""
    facts = Facts()
    for pattern, name, value in _DESCRIPTIONS:
        if name not in facts.known and re.search(pattern, text, re.IGNORECASE):
            facts = facts.having(name, value, source)
    gpu = _GPU.search(text)
    if gpu is not None:
        facts = facts.having("gpu", gpu[1], source)
    rate = _RATE.search(text)
    if rate is not None and re.search(r"NIC|card|per node|network", text, re.IGNORECASE):
        facts = facts.having("nic_rate", float(rate[2]) * GB / 8, source)
        if rate[1]:
            facts = facts.having("nics", float(rate[1]), source)
    cards = _CARDS.search(text)
    if cards is not None:
        facts = facts.having("nics", _NUMBER_WORDS.get(cards[1].lower()) or float(cards[1]), source)
    if _ONE_OF.search(text):
        facts = facts.having("nics", 1.0, source)
    forced = _FORCED.search(text) or _PROTO.search(text)
    if forced is not None:
        facts = facts.having("forced_protocol", forced[1], source)
    hosts = _HOSTS.search(text)
    if hosts is not None:
        facts = facts.having("hosts", _HOST_WORDS.get(hosts[1].lower()) or float(hosts[1]), source)
    hosts_of = _HOSTS_OF.search(text)
    if hosts_of is not None:
        facts = facts.having("hosts", float(hosts_of[1]), source).having("gpus_per_host", float(hosts_of[2]), source)
    drop = _DROP.search(text)
    if drop is not None and says(Facts(symptoms=(text,)), "drop-at-large"):
        facts = facts.having("drop_at", float(parse_size(drop[1])), source)
    algorithm = _ALGORITHM.search(text)
    if algorithm is not None:
        facts = facts.having("algorithm", next(word for word in algorithm.groups() if word).capitalize(), source)
    return facts
