"""What explaining says and what it knows: findings with their numbers, and facts about the machine beside the rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from busbw.errors import UsageError
from busbw.units import format_rate, format_size, format_time, parse_rate, parse_size

Verdict = Literal["holds", "fails", "cannot_tell"]
Severity = Literal["wrong", "problem", "notice", "fact"]
"""wrong: data or outcome is broken; problem: time is lost and something can be done; notice: read the numbers with this
in mind; fact: a law, checked."""

SEVERITIES: tuple[Severity, ...] = ("wrong", "problem", "notice", "fact")
"""From the most to the least important."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number that a finding rests on: what it is, its value in `unit`, and where it came from (file:line, or a fact).

    Units: B/s, s, B, % (the value is already in per cent), x (a ratio), or "" for a count.
    """

    name: str
    value: float
    unit: str
    source: str

    @property
    def text(self) -> str:
        """The value with its unit, as a person writes it."""
        if self.unit == "B/s":
            return format_rate(self.value)
        if self.unit == "s":
            return format_time(self.value)
        if self.unit == "B":
            return format_size(round(self.value))
        if self.unit == "%":
            return f"{self.value:+.1f} %" if abs(self.value) < 10 else f"{self.value:+.0f} %"
        return f"{self.value:.3g}{f' {self.unit}' if self.unit else ''}"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {"name": self.name, "value": self.value, "unit": self.unit, "source": self.source}


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that would explain the numbers: a short code for programs, and a sentence for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about what was measured: whether it holds, on which numbers, why, and what to measure next."""

    law: str
    """The file of busbw.findings that found it."""
    statement: str
    verdict: Verdict
    severity: Severity
    numbers: tuple[Number, ...] = ()
    causes: tuple[Cause, ...] = ()
    """What explains the numbers. Several are rivals that fit as well: the numbers do not choose between them."""
    ruled_out: tuple[Cause, ...] = ()
    """What one might think of, and why these numbers (or a fact) refute it."""
    next: str = ""
    """The one next measurement (or look) that would tell the causes apart."""
    needs: tuple[str, ...] = ()
    """Facts that are not known and would decide; `FACT_KINDS` says how to get each."""
    advice: str = ""
    weight: float = 0.0
    """Among findings of one severity, the larger comes first (for example the share of time that is lost)."""
    headline: str = ""
    """The statement in a few words, for the top of a page; "" where the statement is short enough."""

    @property
    def cause_codes(self) -> frozenset[str]:
        """The codes of `causes`."""
        return frozenset(cause.code for cause in self.causes)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of what was found."""
        return {
            "law": self.law,
            "statement": self.statement,
            "verdict": self.verdict,
            "severity": self.severity,
            "headline": self.headline,
            "numbers": [number.to_json() for number in self.numbers],
            "causes": [{"code": cause.code, "text": cause.text} for cause in self.causes],
            "ruled_out": [{"code": cause.code, "text": cause.text} for cause in self.ruled_out],
            "next": self.next,
            "needs": [{"fact": name, "how": FACT_KINDS[name].how} for name in self.needs],
            "advice": self.advice,
        }


# --- facts -----------------------------------------------------------------------------------------------------------

FactValue = bool | float | str


@dataclass(frozen=True, slots=True)
class FactKind:
    """One thing that can be known beside the rows: its type, what it means, and how a user gets it."""

    kind: Literal["flag", "count", "rate", "size", "text"]
    meaning: str
    how: str = ""

    def parse(self, name: str, text: str) -> FactValue | None:
        """The value of a user's text; None for `unknown`. UsageError says what is allowed."""
        word = text.strip().lower()
        if word in ("unknown", "?", ""):
            return None
        if self.kind == "flag":
            if word in _YES or word in _NO:
                return word in _YES
            raise UsageError(f"--fact {name}={text}: say on, off or unknown")
        if self.kind == "count":
            whole = word.removesuffix(".0")
            if not (whole.isascii() and whole.isdecimal() and len(whole) < 16):
                raise UsageError(f"--fact {name}={text}: a number is expected")
            if name in _NEVER_NONE and int(whole) == 0:
                raise UsageError(f"--fact {name}={text}: at least 1, or unknown")
            return float(whole)
        if self.kind == "rate":
            rate_Bps = parse_rate(text)  # noqa: N806 - the unit's own capitals
            if not 0 < rate_Bps < math.inf:
                raise UsageError(f"--fact {name}={text}: a rate is above zero; say unknown where it is not known")
            return rate_Bps
        return float(parse_size(text)) if self.kind == "size" else text.strip()


_NEVER_NONE = ("hosts", "gpus_per_host", "world_size", "sockets")
_YES = ("on", "yes", "true", "1", "enabled", "all")
_NO = ("off", "no", "false", "0", "disabled", "none")

FACT_KINDS: dict[str, FactKind] = {
    "hosts": FactKind("count", "hosts that the ranks are on", "the 'Rank ... on HOST' lines of the log, or --hosts"),
    "machine": FactKind("text", "a machine of the table in docs/findings.md, such as dgx-h100", "--machine"),
    "gpu": FactKind("text", "the GPU's name", "nvidia-smi -L"),
    "gpus_per_host": FactKind("count", "GPUs of each host that take part", "nvidia-smi -L on a host"),
    "sockets": FactKind("count", "CPU sockets of a host", "lscpu | grep Socket"),
    "pairs": FactKind(
        "flag",
        "ranks 2i and 2i+1 hang under one PCIe switch",
        "nvidia-smi topo -m: PIX between neighbours, and only between them",
    ),
    "link": FactKind("text", "what joins the GPUs of a host: nvlink, pcie, xgmi", "nvidia-smi topo -m"),
    "peak": FactKind("rate", "what one wire carries one way (between GPUs of a host, or of a NIC)", "--peak"),
    "nic_rate": FactKind("rate", "rate of one NIC", "ibstat | grep Rate (or ethtool DEVICE), or --nic 200Gb/s"),
    "nics": FactKind("count", "NICs of a host that take part", "the line 'NET/IB : Using [0]mlx5_0 ...', or --nics"),
    "network": FactKind("text", "infiniband, roce, efa or sockets", "the line 'NCCL INFO Using network ...'"),
    "gdr": FactKind(
        "flag",
        "GPUDirect RDMA: NICs read and write GPU memory",
        "NCCL_DEBUG=INFO: channel lines end in 'via NET/IB/0/GDRDMA' when it is on",
    ),
    "gdr_level": FactKind("text", "NCCL_NET_GDR_LEVEL", "NCCL_DEBUG=INFO: 'NCCL_NET_GDR_LEVEL set by environment to'"),
    "gdr_distance": FactKind(
        "text",
        "path between a GPU and its NIC: PIX, PXB, PHB, NODE, SYS",
        "nvidia-smi topo -m, the NIC columns; or NCCL's 'GPU Direct RDMA Enabled for GPU .. (distance 4 <= 4)'",
    ),
    "acs": FactKind(
        "flag",
        "PCIe access control (ACS) redirects peer traffic to the root complex",
        "sudo lspci -vvv | grep -i ACSCtl: ReqRedir+, CmpltRedir+ or EgressCtrl+ on a bridge means on",
    ),
    "iommu": FactKind("flag", "the IOMMU translates device traffic", "dmesg | grep -i -e iommu -e DMAR; /proc/cmdline"),
    "p2p": FactKind(
        "flag",
        "GPUs of a host reach each other's memory directly (otherwise through host memory, SHM)",
        "NCCL_DEBUG=INFO: channel lines 'via P2P/...' or 'via SHM/...'",
    ),
    "pcie_switch": FactKind("flag", "GPUs hang under PCIe switches, not under the CPU", "nvidia-smi topo -m: PIX, PXB"),
    "near_nics": FactKind(
        "flag",
        "every GPU that takes part has a NIC next to it (PIX or PXB)",
        "nvidia-smi topo -m: the NIC columns of each GPU's row",
    ),
    "same_environment": FactKind(
        "flag",
        "every host runs with the same NCCL_* variables",
        "NCCL_DEBUG=INFO: 'NCCL_... set by environment to' must appear for every host; mpirun needs -x for each",
    ),
    "algorithm": FactKind(
        "text", "Ring, Tree, NVLS, ...", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING: '... Bytes -> Algo RING proto'"
    ),
    "protocol": FactKind("text", "LL, LL128 or Simple", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING"),
    "forced_protocol": FactKind("text", "NCCL_PROTO, where it is set", "env | grep NCCL_PROTO, on every host"),
    "nvls": FactKind(
        "flag",
        "reduction inside the NVSwitch (NVLink SHARP)",
        "NCCL_DEBUG=INFO: 'NVLS multicast support is available', and TUNING for 'Algo NVLS'",
    ),
    "channels": FactKind("count", "channels that NCCL uses", "NCCL_DEBUG=INFO: 'Channel 00/24'"),
    "nccl_version": FactKind("text", "the library's version", "NCCL_DEBUG=VERSION"),
    "op": FactKind("text", "the operation", "--op"),
    "world_size": FactKind("count", "ranks", "-N"),
    "size": FactKind("size", "bytes of the tensor", "--size"),
    "busbw": FactKind("rate", "bus bandwidth that was reported without rows", "--busbw"),
    "algbw": FactKind("rate", "algorithm bandwidth that was reported without rows", "--algbw"),
    "avg_busbw": FactKind("rate", "the average over all sizes that nccl-tests prints", "--fact avg_busbw=33GB/s"),
    "raw_rate": FactKind(
        "rate", "what a raw test of one NIC reaches", "ib_write_bw --use_cuda (perftest), on each NIC in turn"
    ),
    "kink_at": FactKind("size", "size at which the curve has a kink"),
    "drop_at": FactKind("size", "size from which the bandwidth is lower"),
    "before": FactKind("rate", "busbw below the size of the drop"),
    "after": FactKind("rate", "busbw above the size of the drop"),
    "wrong": FactKind("count", "wrong values that the test reported"),
    "shared_memory_needed": FactKind("size", "shared memory that a kernel asks for"),
    "shared_memory_available": FactKind("size", "shared memory that the GPU offers to a block"),
}
"""Every fact that findings look at."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value and where it came from."""

    value: FactValue
    source: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known beside the rows. A name that is not in it is unknown, and nothing is assumed about it."""

    known: Mapping[str, Fact] = field(default_factory=dict)
    symptoms: tuple[str, ...] = ()
    """What the user says, in their own words."""

    def flag(self, name: str) -> bool | None:
        """True, False, or None for unknown."""
        value = self._value(name)
        return value if isinstance(value, bool) else None

    def number(self, name: str) -> float | None:
        """A count, a rate in B/s or a size in bytes; None for unknown."""
        value = self._value(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, name: str) -> str:
        """A text, or "" for unknown."""
        value = self._value(name)
        return value if isinstance(value, str) else ""

    def source(self, name: str) -> str:
        """Where the fact came from; "" for unknown."""
        fact = self.known.get(name)
        return "" if fact is None else fact.source

    def unknown(self, *names: str) -> tuple[str, ...]:
        """Those of the names that are not known."""
        return tuple(name for name in names if name not in self.known)

    def having(self, name: str, value: FactValue | None, source: str) -> Facts:
        """With one more fact, which replaces an older one; None makes it unknown again."""
        if name not in FACT_KINDS:
            raise UsageError(f"unknown fact {name!r}: choose from {', '.join(sorted(FACT_KINDS))}")
        known = {key: fact for key, fact in self.known.items() if key != name}
        if value is not None:
            known[name] = Fact(value, source)
        return replace(self, known=known)

    def or_else(self, other: Facts) -> Facts:
        """These facts, and the other's where nothing is known here."""
        return Facts({**other.known, **self.known}, (*self.symptoms, *other.symptoms))

    def _value(self, name: str) -> FactValue | None:
        assert name in FACT_KINDS, name
        fact = self.known.get(name)
        return None if fact is None else fact.value


def parse_facts(words: Iterable[str], source: str = "given") -> Facts:
    """Facts from `NAME=VALUE` words such as `gdr=on`, `nic_rate=200Gb/s`; UsageError for what is neither."""
    facts = Facts()
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().lower().replace("-", "_")
        if not equals or name not in FACT_KINDS:
            raise UsageError(f"--fact {word!r}: write NAME=VALUE with a name of {', '.join(sorted(FACT_KINDS))}")
        facts = facts.having(name, FACT_KINDS[name].parse(name, text), source)
    return facts
