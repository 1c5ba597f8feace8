"""switch: GPUs on one switch, each with a link of its own. The machine that closed forms are about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from busbw.core.routing import Routes, make_routes
from busbw.core.topology import PATH_CLASSES, Ints, Topology
from busbw.topologies.preset import Parameter, Preset
from busbw.topologies.regular import NumberedNames, kinds_of, machine, must_be_direct

_SWITCH = {"network": "network_switch", "nvlink": "nvswitch", "pcie": "pcie_switch"}


@dataclass(frozen=True, slots=True)
class StarRouter:
    """Up the link of the source, down the link of the target: link i is GPU i's, and leads to the switch."""

    path_class: int

    def routes(self, topology: Topology, source: Ints, target: Ints) -> Routes:
        """As `Router.routes`, between GPUs."""
        must_be_direct(topology, PATH_CLASSES[self.path_class])
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        away = np.flatnonzero(source != target)
        ways = np.stack([2 * source[away], 2 * target[away] + 1], axis=1)
        path_class = np.where(source != target, self.path_class, PATH_CLASSES.index("local"))
        return make_routes(topology, np.repeat(away, 2), ways.reshape(-1), path_class.astype(np.int8))


def build(*, name: str, gpus: int, bandwidth: float, latency: float, kind: str, reduces: bool) -> Topology:
    """GPUs 0 to N-1 and the switch as device N; half of the latency stands on each of the two links of a way."""
    alone = kind == "network"  # each GPU is a host of its own
    host_count = gpus if alone else 1
    return machine(
        name,
        names=NumberedNames(gpus + 1, lambda i: "switch" if i == gpus else f"gpu{i}"),
        kinds=kinds_of(("gpu", gpus), (_SWITCH[kind], 1)),
        hosts=NumberedNames(host_count, lambda i: f"host{i}"),
        device_host=np.append(np.arange(gpus) if alone else np.zeros(gpus), -1 if alone else 0).astype(np.int32),
        link_a=np.arange(gpus),
        link_b=np.full(gpus, gpus),
        link_kind=kind,
        rate_Bps=bandwidth,
        latency_s=latency / 2,
        ranks=np.arange(gpus),
        reduces=np.append(np.zeros(gpus, np.bool_), reduces),
        router=StarRouter(PATH_CLASSES.index(kind)),
        source="preset switch: speeds as given",
    )


PRESETS = (
    Preset(
        "switch",
        "GPUs on one switch that never blocks, each on a full-duplex link",
        "",
        (
            Parameter("gpus", "count", "8", "GPUs"),
            Parameter("bandwidth", "rate", "50GB/s", "of each GPU's link, one way"),
            Parameter("latency", "time", "0s", "of a message from GPU to GPU"),
            Parameter("kind", "choice", "network", "what the links are", tuple(_SWITCH)),
            Parameter("reduces", "flag", "off", "the switch reduces and multicasts (NVLS, SHARP)"),
        ),
        build,
    ),
)
