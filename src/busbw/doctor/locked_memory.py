"""May this process lock the memory that RDMA needs?"""

from __future__ import annotations

import re

from busbw.core.finding import Cause, Finding, Number
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host
from busbw.host.pci import rdma_devices

NAME = "locked_memory"
SOURCE = "/proc/self/limits, Max locked memory"
ENOUGH_BYTES = 2**30
"""NCCL registers a few MiB for each channel and peer: a GiB is far beyond that, and user buffers may need more."""


def look(host: Host) -> Seen:
    """The soft limit of this process, which its children inherit."""
    match = re.search(r"^Max locked memory\s+(\S+)\s+(\S+)", host.text("/proc/self/limits"), re.MULTILINE)
    if match is None:
        return Seen(nothing="/proc/self/limits is not here")
    if match[1] == "unlimited":
        return Seen(
            (Finding(NAME, "Locked memory is unlimited", "holds", "fact", (Number("unlimited", 1, "", SOURCE),)),)
        )
    number = Number("locked memory", float(match[1]), "B", SOURCE)
    if not rdma_devices(host):
        text = f"Locked memory is limited to {number.text}; without an RDMA NIC nothing here needs more"
        return Seen((Finding(NAME, text, "holds", "fact", (number,)),))
    small = float(match[1]) < ENOUGH_BYTES
    found = Finding(
        NAME,
        f"Locked memory is limited to {number.text}: registering memory with the NIC fails"
        + ("" if small else " once buffers exceed it"),
        "fails",
        "problem" if small else "notice",
        (number,),
        (Cause("memlock", "RDMA locks the memory that it registers"),),
        advice="ulimit -l unlimited: '* - memlock unlimited' in /etc/security/limits.conf, LimitMEMLOCK=infinity for a daemon such as "
        "slurmd, --ulimit memlock=-1 for docker",
        weight=0.5,
        headline=f"locked memory is limited to {number.text}",
    )
    return Seen((found,))


PROBE = Probe(NAME, "May this process lock the memory that RDMA needs?", "/proc/self/limits", look)
