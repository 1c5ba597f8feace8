"""A Topology as TOML, in the format of `readers.busbw_toml`; what is written reads back as the same machine."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from busbw.core.topology import Topology
from busbw.errors import BusbwError, FileError, UsageError
from busbw.topologies.readers.busbw_toml import VERSION
from busbw.units import parse_rate, parse_time

MOST_DEVICES = 20_000
"""A larger machine is written as the expression that makes it."""


def write_topology(topology: Topology, path: str) -> None:
    """Write a machine as TOML to a file."""
    try:
        Path(path).write_text(to_toml(topology), encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error


def to_toml(topology: Topology) -> str:
    """A machine as TOML. UsageError for one of more than 20000 devices that no preset's expression makes."""
    lines = [f"busbw_topology = {VERSION}", f"name = {_string(topology.name)}"]
    if topology.source:
        lines.append(f"source = {_string(topology.source)}")
    if topology.notes:
        lines += ["notes = [", *(f"  {_string(note)}," for note in topology.notes), "]"]
    if topology.device_count > MOST_DEVICES:
        lines += [f"machine = {_string(_expression(topology))}"]
    else:
        lines += _parts(topology)
    for name, policy in topology.policies.items():
        lines += ["", f"[paths.{name}]", f"via = {_string(policy.via)}"]
        if not math.isinf(policy.cap_Bps):
            lines.append(f"cap = {_rate(policy.cap_Bps)}")
        if not math.isinf(policy.adding_cap_Bps):
            lines.append(f"adding_cap = {_rate(policy.adding_cap_Bps)}")
        lines += [f"latency = {_time(policy.latency_s)}", f"basis = {_string(policy.basis)}"]
    costs = topology.costs
    lines += ["", "[costs]", f"launch = {_time(costs.launch_s)}", f"message = {_time(costs.message_s)}"]
    lines += [f"reduce_s_per_byte = {costs.reduce_s_per_byte!r}", f"half_rate_bytes = {costs.half_rate_bytes!r}"]
    lines += [f"basis = {_string(costs.basis)}"]
    return "\n".join(lines) + "\n"


def _parts(topology: Topology) -> list[str]:
    lines = ["gpus_forward = true"] if topology.gpus_forward else []
    ranks = [topology.names[int(device)] for device in topology.ranks]
    gpus = [device.name for device in topology.devices() if device.kind == "gpu"]
    if ranks != gpus:
        lines += [f"ranks = [{', '.join(map(_string, ranks))}]"]
    lines.append("devices = [")
    for device in topology.devices():
        words = [f"name = {_string(device.name)}", f"kind = {_string(device.kind)}"]
        words += [f"host = {_string(device.host)}"] if device.host else []
        words += ["reduces = true"] if device.reduces else []
        words += [f"details = {_table(device.details)}"] if device.details else []
        lines.append(f"  {{{', '.join(words)}}},")
    lines += ["]", "links = ["]
    for link in topology.links():
        words = [f"between = [{_string(link.a)}, {_string(link.b)}]", f"kind = {_string(link.kind)}"]
        if link.forward_Bps == link.backward_Bps:
            words.append(f"bandwidth = {_rate(link.forward_Bps)}")
        else:
            words += [f"forward = {_rate(link.forward_Bps)}", f"backward = {_rate(link.backward_Bps)}"]
        words += [] if link.duplex_Bps is None else [f"both_ways = {_rate(link.duplex_Bps)}"]
        words += [f"latency = {_time(link.latency_s)}"] if link.latency_s else []
        lines.append(f"  {{{', '.join([*words, f'basis = {_string(link.basis)}'])}}},")
    return [*lines, "]"]


def _expression(topology: Topology) -> str:
    """The preset expression that makes these very links."""
    from busbw.topologies.spec import read_spec

    try:
        again = read_spec(topology.name)
        same = all(
            np.array_equal(getattr(again, field), getattr(topology, field))
            for field in ("link_a", "link_b", "forward_Bps", "backward_Bps", "duplex_Bps", "latency_s", "ranks")
        )
    except BusbwError:
        same = False
    if not same:
        raise UsageError(
            f"topology {topology.name}: {topology.device_count} devices are too many for a TOML file (at most "
            f'{MOST_DEVICES}): write machine = "a preset expression" there, with [paths...] and [costs]'
        )
    return topology.name


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _table(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_string(key)} = {_string(value)}" for key, value in values.items()) + "}"


def _rate(value: float) -> str:
    return _exact(value, 1e9, "GB/s", parse_rate)


def _time(value: float) -> str:
    return _exact(value, 1e-6, "us", parse_time)


def _exact(value: float, unit: float, word: str, parse: Callable[[str], float]) -> str:
    """A number with its unit where that reads back as the same number; the bare number otherwise."""
    for digits in (6, 12, 15, 16, 17):
        text = f"{value / unit:.{digits}g} {word}"
        try:
            if parse(text) == value:
                return _string(text)
        except UsageError:  # an exponent that the parser does not take
            break
    return "inf" if math.isinf(value) else repr(value)
