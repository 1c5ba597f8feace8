"""busbw_toml: our own description of a machine, version 1.

    busbw_topology = 1
    name = "two GPUs"
    devices = [
      {name = "gpu0", kind = "gpu", host = "host0"},
      {name = "gpu1", kind = "gpu", host = "host0"},
    ]
    links = [
      {between = ["gpu0", "gpu1"], kind = "nvlink", bandwidth = "50 GB/s", latency = "1 us", basis = "measured"},
    ]
    [paths.nvlink]
    cap = "43 GB/s"
    [costs]
    launch = "8 us"

`machine = "dgx-h100"` instead of devices and links takes those of a preset. Rates and times are texts with units, or
numbers of bytes a second and of seconds. What is written here reads back as the same machine, to the last bit.

Version 1 (2026): the first.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from busbw.core.log_text import LogText
from busbw.core.topology import Costs, Device, Link, PathPolicy, Topology, TopologyBuilder
from busbw.errors import FileError, UsageError
from busbw.topologies.preset import close_matches
from busbw.topologies.reading import TopologyFormat
from busbw.units import parse_rate, parse_time

T = TypeVar("T")
VERSION = 1
_TOP = (
    "busbw_topology",
    "name",
    "source",
    "notes",
    "machine",
    "gpus_forward",
    "ranks",
    "devices",
    "links",
    "paths",
    "costs",
)
_DEVICE = ("name", "kind", "host", "reduces", "details")
_LINK = ("between", "kind", "bandwidth", "forward", "backward", "both_ways", "latency", "basis")
_PATH = ("via", "cap", "adding_cap", "latency", "basis")
_COSTS = ("launch", "message", "reduce_s_per_byte", "half_rate_bytes", "basis")


@dataclass(frozen=True, slots=True)
class TomlMachine:
    """A machine that a TOML file describes."""

    machine: Topology

    @property
    def stands_alone(self) -> bool:
        """It describes a machine, or nothing."""
        return False

    def topology(self) -> Topology:
        """The machine."""
        return self.machine

    def summary(self) -> list[str]:
        """Nothing beyond the machine itself."""
        return []

    def to_json(self) -> dict[str, Any]:
        """Only the kind: the machine says all."""
        return {"format": "busbw_toml"}


def _recognises(text: LogText) -> bool:
    return re.search(r"^\s*busbw_topology\s*=", text.head, re.MULTILINE) is not None


def _read(text: LogText) -> TomlMachine:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    whole = text.whole()
    try:
        data = tomllib.loads(whole)
    except (tomllib.TOMLDecodeError, RecursionError) as error:  # its message names line and column
        raise FileError(f"{text.name}: not valid TOML: {error}") from error
    return TomlMachine(_Reader(text.name, whole).topology(data))


class _Reader:
    """One file's data -> Topology; every complaint names the file, and the line where it can be told."""

    def __init__(self, file_name: str, text: str) -> None:
        self.file_name, self.text = file_name, text

    def topology(self, data: dict[str, Any]) -> Topology:
        version = data.get("busbw_topology")
        if version != VERSION or isinstance(version, bool):
            self.fail(f"busbw_topology = {version!r}: this program reads version {VERSION}", "busbw_topology")
        self.keys(data, _TOP, "the file")
        try:
            machine = self._based(data) if "machine" in data else self._built(data)
        except UsageError as error:
            raise FileError(f"{self.file_name}: {error}") from error
        return machine

    def _based(self, data: dict[str, Any]) -> Topology:
        from busbw.topologies.spec import read_spec

        for key in ("devices", "links", "gpus_forward"):
            if key in data:
                self.fail(f"machine = ... brings its own {key}: leave one of them out", key)
        machine = read_spec(self.string(data, "machine", "the file"))
        fields: dict[str, Any] = {"policies": {**machine.policies, **self._paths(data)}}
        if "costs" in data:
            fields["costs"] = self._costs(data)
        for key in ("name", "source"):
            if key in data:
                fields[key] = self.string(data, key, "the file")
        if "notes" in data:
            fields["notes"] = tuple(self.strings(data, "notes"))
        if "ranks" in data:
            places = {machine.names[int(device)]: int(device) for device in machine.ranks}
            names = self.strings(data, "ranks")
            for name in names:
                if name not in places:
                    self.fail(f"ranks: {name!r} is no GPU of {machine.name}{close_matches(name, places)}", "ranks")
            if len(set(names)) < len(names) or not names:
                self.fail("ranks: it must have one GPU or more, each once", "ranks")
            import numpy as np

            fields["ranks"] = np.array([places[name] for name in names], np.int32)
        return machine.changed(**fields)

    def _built(self, data: dict[str, Any]) -> Topology:
        builder = TopologyBuilder(self.string(data, "name", "the file", self.file_name))
        for number, entry in self.tables(data, "devices"):
            where = f"devices[{number}]"
            self.keys(entry, _DEVICE, where)
            builder.add(
                Device(
                    self.string(entry, "name", where),
                    self.string(entry, "kind", where),
                    self.string(entry, "host", where, ""),
                    self.boolean(entry, "reduces", where),
                    self._details(entry, where),
                )
            )
        joined: set[tuple[frozenset[str], str]] = set()
        for number, entry in self.tables(data, "links"):
            link = self._link(entry, f"links[{number}]")
            pair = (frozenset((link.a, link.b)), link.kind)
            if pair in joined:
                self.fail(
                    f"links[{number}]: a second {link.kind} between {link.a} and {link.b}; write one with their sum"
                )
            joined.add(pair)
            builder.link(link)
        if "ranks" in data:
            builder.set_ranks(self.strings(data, "ranks"))
        return builder.build(
            policies=self._paths(data),
            costs=self._costs(data) if "costs" in data else None,
            gpus_forward=self.boolean(data, "gpus_forward", "the file"),
            notes=self.strings(data, "notes") if "notes" in data else (),
            source=self.string(data, "source", "the file", ""),
        )

    def _details(self, entry: dict[str, Any], where: str) -> Mapping[str, str]:
        details = entry.get("details", {})
        if not isinstance(details, dict) or not all(isinstance(value, str) for value in details.values()):
            self.fail(f'{where}: details must be texts, such as details = {{model = "H100"}}', "details")
        return details

    def _link(self, entry: dict[str, Any], where: str) -> Link:
        self.keys(entry, _LINK, where)
        ends = entry.get("between")
        if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
            self.fail(f'{where}: it needs between = ["one device", "the other"]')
        where = f"{where} ({ends[0]} - {ends[1]})"
        if "bandwidth" in entry and ("forward" in entry or "backward" in entry):
            self.fail(f"{where}: give bandwidth (each way), or forward and backward, not both")
        if "bandwidth" not in entry and not ("forward" in entry and "backward" in entry):
            self.fail(f'{where}: it needs bandwidth = "50 GB/s" (each way), or forward and backward')
        both = self.rate(entry, "both_ways", where) if "both_ways" in entry else None
        return Link(
            ends[0],
            ends[1],
            self.string(entry, "kind", where),
            self.rate(entry, "forward" if "forward" in entry else "bandwidth", where),
            self.rate(entry, "backward" if "backward" in entry else "bandwidth", where),
            both,
            self.time(entry, "latency", where),
            self.string(entry, "basis", where, "assumed"),
        )

    def _paths(self, data: dict[str, Any]) -> dict[str, PathPolicy]:
        from busbw.core.topology import PATH_CLASSES

        paths = data.get("paths", {})
        if not isinstance(paths, dict):
            self.fail("paths must be tables, such as [paths.pcie]", "paths")
        policies = {}
        for name, entry in paths.items():
            where = f"paths.{name}"
            if name not in PATH_CLASSES:
                self.fail(f"{where}: choose from {', '.join(PATH_CLASSES)}{close_matches(name, PATH_CLASSES)}")
            if not isinstance(entry, dict):
                self.fail(f"{where} must be a table")
            self.keys(entry, _PATH, where)
            policies[name] = self._path(entry, where)
        return policies

    def _path(self, entry: dict[str, Any], where: str) -> PathPolicy:
        return self.made(
            where,
            lambda: PathPolicy(
                self.string(entry, "via", where, "direct"),
                self.rate(entry, "cap", where) if "cap" in entry else math.inf,
                self.time(entry, "latency", where),
                self.basis(entry, where),
                self.rate(entry, "adding_cap", where) if "adding_cap" in entry else math.inf,
            ),
        )

    def _costs(self, data: dict[str, Any]) -> Costs:
        entry = data["costs"]
        if not isinstance(entry, dict):
            self.fail("costs must be a table", "costs")
        self.keys(entry, _COSTS, "costs")
        return self.made(
            "costs",
            lambda: Costs(
                self.time(entry, "launch", "costs"),
                self.time(entry, "message", "costs"),
                self.number(entry, "reduce_s_per_byte", "costs"),
                self.number(entry, "half_rate_bytes", "costs"),
                self.basis(entry, "costs"),
            ),
        )

    def made(self, where: str, make: Callable[[], T]) -> T:
        """What `make` returns; its UsageError with the place in the file."""
        try:
            return make()
        except UsageError as error:
            self.fail(str(error) if str(error).startswith(where) else f"{where}: {error}")

    # --- one value ---

    def keys(self, entry: dict[str, Any], known: tuple[str, ...], where: str) -> None:
        for key in entry:
            if key not in known:
                self.fail(
                    f"{where}: unknown key {key!r}: choose from {', '.join(known)}{close_matches(key, known)}", key
                )

    def tables(self, data: dict[str, Any], key: str) -> Iterator[tuple[int, dict[str, Any]]]:
        entries = data.get(key, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.fail(f"{key} must be tables: {key} = [{{...}}, ...] or [[{key}]]", key)
        yield from enumerate(entries)

    def string(self, entry: dict[str, Any], key: str, where: str, default: str | None = None) -> str:
        value = entry.get(key, default)
        if not isinstance(value, str):
            if key not in entry:
                self.fail(f"{where}: it needs a {key}")
            self.fail(f"{where}: {key} = {value!r} must be a text", key)
        return value

    def strings(self, data: dict[str, Any], key: str) -> list[str]:
        values = data[key]
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self.fail(f"{key} must be a list of texts", key)
        return values

    def boolean(self, entry: dict[str, Any], key: str, where: str) -> bool:
        value = entry.get(key, False)
        if not isinstance(value, bool):
            self.fail(f"{where}: {key} = {value!r} must be true or false", key)
        return value

    def basis(self, entry: dict[str, Any], where: str) -> str:
        from busbw.core.topology import BASES

        value = self.string(entry, "basis", where, "assumed")
        if value not in BASES:
            self.fail(f"{where}: basis {value!r}: choose from {', '.join(BASES)}")
        return value

    def number(self, entry: dict[str, Any], key: str, where: str) -> float:
        value = entry.get(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(f"{where}: {key} = {value!r} must be a number", key)
        return float(value)

    def rate(self, entry: dict[str, Any], key: str, where: str) -> float:
        value = self.measure(entry, key, where, parse_rate, "50 GB/s")
        if not value > 0:
            self.fail(f"{where}: {key} = {entry[key]!r}: a bandwidth must be above 0")
        if value == math.inf and key in ("bandwidth", "forward", "backward"):
            self.fail(f"{where}: {key} = {entry[key]!r}: a link's bandwidth must be a number", key)
        return value

    def time(self, entry: dict[str, Any], key: str, where: str) -> float:
        value = self.measure(entry, key, where, parse_time, "1 us")
        if not 0 <= value < math.inf:
            self.fail(f"{where}: {key} = {entry[key]!r}: a time must be 0 or more")
        return value

    def measure(self, entry: dict[str, Any], key: str, where: str, parse: Any, example: str) -> float:
        value = entry.get(key, 0.0)
        if isinstance(value, str):
            sign, rest = (-1.0, value[1:]) if value.startswith("-") else (1.0, value)
            return float(self.made(f"{where}: {key}", lambda: sign * parse(rest)))
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(f'{where}: {key} = {value!r} must be a text such as "{example}", or a number', key)
        return float(value)

    def fail(self, message: str, key: str = "") -> NoReturn:
        """FileError, with the line when the key stands on one line only."""
        found = [
            number
            for number, line in enumerate(self.text.splitlines(), start=1)
            if key and re.search(rf"(?<![\w.-]){re.escape(key)}\"?'?\s*=|^\s*\[+[^\]]*\b{re.escape(key)}\s*\]", line)
        ]
        place = f":{found[0]}" if len(found) == 1 else ""
        raise FileError(f"{self.file_name}{place}: {message}")


FORMAT = TopologyFormat("busbw_toml", "our own TOML", _recognises, _read, order=0)
