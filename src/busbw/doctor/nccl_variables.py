"""Does an NCCL_* variable, set here or in a configuration file, keep NCCL from its best?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host

NAME = "nccl_variables"
Test = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Hurt:
    """A setting that costs something, and why."""

    variable: str
    values: str
    """Which values, in words."""
    test: Test
    severity: Literal["wrong", "problem", "notice"]
    why: str
    advice: str = ""


def _is(*words: str) -> Test:
    return lambda value: value.strip().lower() in words


def _below(most: int) -> Test:
    return lambda value: value.strip().isdecimal() and int(value) < most


def _any(value: str) -> bool:
    return bool(value.strip())


_ON = _is("1", "true", "yes")

HURTS = (
    Hurt("NCCL_P2P_DISABLE", "1", _ON, "problem", "GPUs of one host send through host memory instead of directly"),
    Hurt("NCCL_P2P_LEVEL", "LOC or 0", _is("loc", "0"), "problem", "peer access between GPUs is off"),
    Hurt("NCCL_P2P_LEVEL", "SYS or 5", _is("sys", "5"), "notice", "peer access across sockets may be slower than host memory: a CPU is a poor PCIe switch"),
    Hurt("NCCL_SHM_DISABLE", "1", _ON, "problem", "pairs without peer access go through the network, even inside a host"),
    Hurt("NCCL_IB_DISABLE", "1", _ON, "problem", "RDMA NICs stay unused; traffic between hosts goes over TCP sockets"),
    Hurt("NCCL_NET", "Socket", _is("socket"), "problem", "RDMA NICs stay unused; traffic between hosts goes over TCP sockets"),
    Hurt("NCCL_NET_GDR_LEVEL", "LOC or 0", _is("loc", "0"), "problem", "GPUDirect RDMA is off: what goes between hosts is copied through host memory"),
    Hurt("NCCL_NET_GDR_READ", "0", _is("0"), "notice", "sends between hosts are copied through host memory (right on some PCIe machines, wrong with NVLink)"),
    Hurt("NCCL_ALGO", "any", _any, "problem", "the algorithm is forced for every size and operation, also where another is faster", "Unset it; to compare algorithms, set it for the one run"),
    Hurt("NCCL_PROTO", "with LL128", lambda value: "ll128" in value.lower() and not value.startswith("^"), "wrong", "forced LL128 gives wrong data, silently, on paths that do not keep 128-byte stores in order (PCIe, some networks)", "Unset it: NCCL uses LL128 itself where it is safe"),
    Hurt("NCCL_PROTO", "any other", lambda value: "ll128" not in value.lower() or value.startswith("^"), "problem", "the protocol is forced for every size: LL halves large messages, Simple slows small ones", "Unset it; to compare protocols, set it for the one run"),
    Hurt("NCCL_MAX_NCHANNELS", "below 8", _below(8), "problem", "so few channels do not fill NVLink, or several NICs", "Unset it, or give it 16 or more; fewer channels leave more of the GPU to compute"),
    Hurt("NCCL_MAX_CTAS", "below 8", _below(8), "problem", "so few blocks do not fill NVLink, or several NICs", "Unset it, or give it 16 or more; fewer leave more of the GPU to compute"),
    Hurt("NCCL_MIN_NCHANNELS", "any", _any, "notice", "more channels than NCCL chooses take multiprocessors from compute and slow small messages"),
    Hurt("NCCL_BUFFSIZE", "below 1 MiB", _below(2**20), "problem", "small buffers break the pipeline into pieces that do not fill the wire (the default is 4 MiB)"),
    Hurt("NCCL_NTHREADS", "below 256", _below(256), "problem", "so few threads a block do not fill NVLink"),
    Hurt("NCCL_CROSS_NIC", "1", _is("1"), "notice", "rings may change NIC between hosts, which loads the spine of a rail-optimised fabric"),
    Hurt("NCCL_NVLS_ENABLE", "0", _is("0"), "notice", "reduction inside the NVSwitch is off; all-reduce on one host is slower without it"),
    Hurt("NCCL_CUMEM_ENABLE", "0", _is("0"), "notice", "memory cannot be registered for NVLS and user buffers"),
    Hurt("NCCL_IB_HCA", "any", _any, "notice", "only the NICs that it names are used, if they exist under these names on every host", "Compare it with ls /sys/class/infiniband on every host"),
    Hurt("NCCL_SOCKET_IFNAME", "lo", lambda value: value.strip().lstrip("=") == "lo", "problem", "the loopback device does not reach another host"),
    Hurt("NCCL_IB_TIMEOUT", "below 14", _below(14), "notice", "a short time-out makes retransmissions, and aborts, more likely on a busy fabric"),
    Hurt("NCCL_TOPO_FILE", "any", _any, "notice", "NCCL believes this file instead of the machine", "Make sure that it describes this machine"),
    Hurt("NCCL_GRAPH_FILE", "any", _any, "notice", "NCCL takes its rings and trees from this file instead of searching", "Unset it after any change of the machine"),
    Hurt("NCCL_IGNORE_CPU_AFFINITY", "1", _ON, "notice", "NCCL's threads are placed by this setting, not by the launcher"),
    Hurt("NCCL_CHECK_POINTERS", "1", _ON, "problem", "every call checks its pointers, which adds to its latency"),
    Hurt("NCCL_LAUNCH_MODE", "GROUP", _is("group"), "notice", "an old way to launch, slower with one process for each GPU"),
    Hurt("NCCL_DEBUG", "TRACE", _is("trace"), "problem", "every call is logged; times hold the logging", "NCCL_DEBUG=INFO or WARN"),
    Hurt("NCCL_DEBUG", "INFO", _is("info"), "notice", "the log grows at start-up; fine for one run", "NCCL_DEBUG=WARN in production"),
    Hurt("NCCL_DEBUG_SUBSYS", "ALL or COLL", lambda value: bool({"all", "coll", "call"} & set(value.lower().split(","))), "notice", "with NCCL_DEBUG=INFO every call is logged; times hold the logging"),
    Hurt("CUDA_LAUNCH_BLOCKING", "1", _ON, "problem", "the host waits for each kernel: nothing overlaps"),
    Hurt("TORCH_NCCL_BLOCKING_WAIT", "1", _ON, "notice", "the host waits for each collective: launches cannot run ahead"),
    Hurt("TORCH_DISTRIBUTED_DEBUG", "DETAIL", _is("detail"), "problem", "torch checks every collective with a second one"),
)  # fmt: skip
"""Settings with a price. NCCL's documentation of environment variables says what each does."""


@lru_cache(maxsize=8)
def settings(host: Host) -> dict[str, tuple[str, str]]:
    """NCCL's (and torch's) settings: value and place. A variable wins over ~/.nccl.conf, that over /etc/nccl.conf."""
    found: dict[str, tuple[str, str]] = {}
    variables = host.variables()
    home = variables.get("HOME", "")
    files = ["/etc/nccl.conf", *([f"{home}/.nccl.conf"] if home.startswith("/") else [])]
    for path in files:
        for line in host.text(path).splitlines():
            match = re.match(r"\s*(NCCL_\w+)\s*=\s*(.*?)\s*$", line)
            if match is not None:
                found[match[1]] = (match[2], path)
    known = {hurt.variable for hurt in HURTS}
    found.update(
        {name: (value, "environment") for name, value in variables.items() if name.startswith("NCCL_") or name in known}
    )
    return found


def look(host: Host) -> Seen:
    """Every setting against the table."""
    set_ = settings(host)
    findings = list(_hurts(set_))
    count = Number("variables that are set", len(set_), "", "environment, /etc/nccl.conf, ~/.nccl.conf")
    hurting = {hurt.variable for hurt in HURTS if hurt.variable in set_ and hurt.test(set_[hurt.variable][0])}
    if not set_:
        text = "No NCCL_* variable is set here: NCCL chooses for itself"
        findings.append(Finding(NAME, text, "holds", "fact", (count,)))
    elif len(set_) > len(hurting):
        rest = sorted(name for name in set_ if name not in hurting)
        text = f"No harm is known of {', '.join(f'{name}={_shown(set_[name][0])}' for name in rest)}"
        findings.append(Finding(NAME, text, "holds", "fact", (count,)))
    return Seen(tuple(findings), _facts(set_))


def _shown(value: str) -> str:
    return value if len(value) <= 40 else f"{value[:37]}..."


def _hurts(set_: dict[str, tuple[str, str]]) -> Iterator[Finding]:
    for hurt in HURTS:
        value, place = set_.get(hurt.variable, ("", ""))
        if place and hurt.test(value):
            yield Finding(
                NAME,
                f"{hurt.variable}={_shown(value)} ({place}): {hurt.why}",
                "fails",
                hurt.severity,
                (Number(hurt.variable, float(value), "", place),) if value.strip().isdecimal() else (),
                (Cause(f"{hurt.variable.lower().replace('_', '-')}", hurt.why),),
                advice=hurt.advice or f"Unset {hurt.variable}, unless you know why it is set",
                weight={"wrong": 0.9, "problem": 0.45, "notice": 0.05}[hurt.severity],
                headline=f"{hurt.variable}={_shown(value)}",
            )


def _facts(set_: dict[str, tuple[str, str]]) -> Facts:
    facts = Facts()
    for variable, fact in (("NCCL_PROTO", "forced_protocol"), ("NCCL_NET_GDR_LEVEL", "gdr_level")):
        if variable in set_:
            value, place = set_[variable]
            facts = facts.having(fact, value, f"{variable}, {place}")
    value, place = set_.get("NCCL_NVLS_ENABLE", ("", ""))
    return facts.having("nvls", False, f"NCCL_NVLS_ENABLE=0, {place}") if value.strip() == "0" else facts


PROBE = Probe(
    NAME,
    "Does an NCCL_* variable keep NCCL from its best?",
    "the environment (commands/env.txt of a copy), /etc/nccl.conf, ~/.nccl.conf",
    look,
)
