"""Do the CPUs, which launch every call and move data between hosts, run at full speed?"""

from __future__ import annotations

from collections import Counter

from busbw.core.finding import Cause, Finding, Number
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host

NAME = "cpu_governor"
CPUS = "/sys/devices/system/cpu"
_DYNAMIC = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
"""Drivers whose `powersave` still raises the clock under load."""


def look(host: Host) -> Seen:
    """The governors of all CPUs."""
    folders = [f"{CPUS}/{name}/cpufreq" for name in host.names(CPUS) if name[:3] == "cpu" and name[3:].isdecimal()]
    found = Counter(filter(None, (host.text(f"{folder}/scaling_governor") for folder in folders)))
    if not found:
        return Seen(nothing="the kernel does not govern the CPUs' clocks here (usual in a virtual machine)")
    driver = next(filter(None, (host.text(f"{folder}/scaling_driver") for folder in folders)), "unknown")
    numbers = tuple(
        Number(f"CPUs with {name}", count, "", f"{CPUS}/*/cpufreq/scaling_governor") for name, count in found.items()
    )
    slow = [name for name in found if name not in ("performance", "schedutil", "ondemand")]
    if not slow:
        return Seen(
            (Finding(NAME, f"The CPUs' governor is {', '.join(sorted(found))} ({driver})", "holds", "fact", numbers),)
        )
    fixed = driver not in _DYNAMIC
    text = f"{sum(found[name] for name in slow)} CPUs have the governor {', '.join(sorted(slow))} (driver {driver})"
    text += (
        ": they stay at their lowest clock"
        if fixed
        else ": their clock rises late, which adds to the latency of small calls"
    )
    return Seen(
        (
            Finding(
                NAME,
                text,
                "fails",
                "problem" if fixed and "powersave" in slow else "notice",
                numbers,
                (Cause("cpu-clock", "launches and proxy threads run on slow CPUs"),),
                advice="sudo cpupower frequency-set -g performance",
                weight=0.2,
                headline="the CPUs' clocks are held low" if fixed else "",
            ),
        )
    )


PROBE = Probe(
    NAME, "Do the CPUs run at full speed?", "/sys/devices/system/cpu/*/cpufreq (scaling_governor, scaling_driver)", look
)
