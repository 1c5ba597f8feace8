"""Where the seconds of a line come from: a fitted cost model, results to fit, a machine, or alpha and bandwidth as given."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from busbw.core.bill import Line
from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.cost_model import CostModel, Estimate
from busbw.core.measurement import Measurement
from busbw.errors import BusbwError, FileError, UsageError
from busbw.pricing.contention import Contention, measured_contention
from busbw.pricing.links import ranks_of
from busbw.pricing.machine import OnMachine, is_preset, read_machine
from busbw.units import format_rate, format_time, parse_rate, parse_time

STEPS: Mapping[str, Callable[[int], int]] = {
    "all_reduce": lambda n: 2 * (n - 1),
    "send_recv": lambda n: 1,
    "send_recv_one_way": lambda n: 1,
}
"""Steps one after the other on a ring of N ranks; N - 1 for every other collective."""

SUBSTITUTES: Mapping[str, tuple[str, ...]] = {
    "all_to_all_v": ("all_to_all", "all_gather"),
    "all_to_all": ("all_to_all_v", "all_gather"),
    "send_recv_one_way": ("send_recv", "broadcast"),
    "send_recv": ("send_recv_one_way", "broadcast"),
    "all_gather": ("reduce_scatter",),
    "reduce_scatter": ("all_gather",),
    "reduce": ("broadcast",),
    "broadcast": ("reduce", "all_gather"),
    "gather": ("scatter", "all_gather"),
    "scatter": ("gather", "all_gather"),
}
"""What stands in for a collective that a profile lacks, the closest first; then all_reduce, then any other."""


class Profile(Protocol):
    """Anything that prices a call."""

    def estimate(self, call: Call) -> Estimate:
        """Seconds of one call with their interval."""


@dataclass(frozen=True, slots=True)
class Rates:
    """T = launch_s + steps alpha_s + f(N) S / bandwidth_Bps, with f the bus factor: the textbook's straight line."""

    alpha_s: float
    bandwidth_Bps: float  # noqa: N815 - the unit's own capitals
    launch_s: float = 0.0

    def estimate(self, call: Call) -> Estimate:
        """Seconds of one call; given numbers have no interval."""
        n = call.world_size
        if n < 2:
            return Estimate(0.0, 0.0, 0.0, 0.0, 0.0)
        steps = STEPS[call.collective](n) if call.collective in STEPS else n - 1
        latency = self.launch_s + steps * self.alpha_s
        wire = COLLECTIVES.get(call.collective).bus_factor(n) * call.size_bytes / self.bandwidth_Bps
        return Estimate(latency + wire, latency + wire, latency + wire, latency, wire)

    @property
    def words(self) -> str:
        """As a sentence."""
        launch = f", launch {format_time(self.launch_s)}" if self.launch_s else ""
        return (
            f"alpha {format_time(self.alpha_s)} a step, bandwidth {format_rate(self.bandwidth_Bps)}{launch}, as given"
        )


class Fitted:
    """A cost model that lends a missing collective the curve of its closest relative, and says so."""

    def __init__(self, model: CostModel, contention: Contention | None = None) -> None:
        self.model = model
        self.contention = contention
        self.known = {curve.collective for curve in model.curves}
        self._found: dict[Call, Estimate] = {}

    def estimate(self, call: Call) -> Estimate:
        """Seconds of one call; UsageError where neither the collective nor a relative was fitted."""
        found = self._found.get(call)
        if found is None:
            found = self._found[call] = self._estimate(call)
        return found

    def _estimate(self, call: Call) -> Estimate:
        if call.collective in self.known or call.world_size < 2:
            return self.model.estimate(call)
        n, moves = call.world_size, call.kind.moves_data and call.size_bytes > 0
        others = sorted(self.known, key=lambda name: (name != "all_reduce", name))
        for other in (*SUBSTITUTES.get(call.collective, ()), *others) if moves else ():
            kind = COLLECTIVES.get(other)
            if other not in self.known or not kind.moves_data:
                continue
            # Of the size at which it carries as many bytes on a wire.
            size = max(round(call.size_bytes * call.kind.bus_factor(n) / kind.bus_factor(n)), 1)
            found = self.model.estimate(
                replace(call, collective=other, size_bytes=size, root=None, redop=None, in_place=None)
            )
            same = "of the same S" if size == call.size_bytes else "with as many bytes on a wire"
            reason = f"the profile has no {call.collective}: priced as {other} {same}"
            return replace(found, extrapolates=(reason, *found.extrapolates))
        return self.model.estimate(call)  # raises, and names what is known


@dataclass(frozen=True, slots=True)
class ByLink:
    """One profile for groups inside a host, another for those that span hosts, whose slowest hop is the network."""

    inside: Profile
    across: Profile
    ranks_per_host: int

    def estimate(self, call: Call) -> Estimate:
        """Seconds of a call whose ranks are not known: as inside a host where it fits in one."""
        return (self.inside if call.world_size <= self.ranks_per_host else self.across).estimate(call)

    def of_line(self, line: Line) -> Estimate:
        """Seconds of one call of a line, by where its ranks are."""
        found = self._of_ranks(ranks_of(line))
        return found.of_line(line) if isinstance(found, OnMachine) else found.estimate(line.call)

    @property
    def contention(self) -> Contention | None:
        """What hidden calls cost: as measured inside a host, else across."""
        return getattr(self.inside, "contention", None) or getattr(self.across, "contention", None)

    def of_group(self, ranks: Sequence[int]) -> Profile:
        """What prices calls between these ranks."""
        return of_group(self._of_ranks(ranks), ranks)

    def _of_ranks(self, ranks: Sequence[int]) -> Profile:
        spans = len({rank // self.ranks_per_host for rank in ranks}) > 1
        return self.across if spans else self.inside


def price_of(profile: Profile, line: Line) -> Estimate:
    """Seconds of one call of a line: by its ranks, where the profile tells links apart."""
    return profile.of_line(line) if isinstance(profile, ByLink | OnMachine) else profile.estimate(line.call)


def of_group(profile: Profile, ranks: Sequence[int]) -> Profile:
    """The profile for calls that do not say their ranks, which are these."""
    return profile.of_group(ranks) if isinstance(profile, ByLink | OnMachine) else profile


def read_profile(text: str) -> tuple[Profile, str, tuple[str, ...]]:
    """A profile from `alpha=5us,bandwidth=20GB/s[,launch=10us]`, results (a file, a folder), a cost model, TOML, a machine.

    A machine is a file that `busbw calibrate` wrote, or a preset such as `dgx-h100`. Returns the profile, what it is in
    words, and notes. UsageError or FileError name what is wrong with it.
    """
    path = Path(text)
    if not path.exists() and is_preset(text):
        return _machine(read_machine(text))
    if "=" in text and not path.exists():
        rates = _rates(text)
        return rates, rates.words, ()
    if path.suffix == ".toml":
        data = _toml(path)
        if "busbw_topology" in data:
            return _machine(read_machine(text))
        rates = _table(data, path)
        return rates, f"{rates.words} in {path}", ()
    if path.is_dir():
        return _results(sorted(each for each in path.iterdir() if each.is_file()), str(path))
    if path.suffix == ".json" and _is_cost_model(path):
        return Fitted(CostModel.load(path)), f"cost model {path}", ()
    return _results([path], str(path))


def _rates(text: str) -> Rates:
    values: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip().lower() in values:
            raise UsageError(f"profile {text!r}: {name.strip()} is given twice")
        values[name.strip().lower()] = value.strip()
    return _from_words(values, f"profile {text!r}")


def _from_words(values: Mapping[str, str], where: str) -> Rates:
    wrong = set(values) - {"alpha", "bandwidth", "launch"}
    if wrong or not {"alpha", "bandwidth"} <= set(values):
        what = f"{sorted(wrong)[0]!r} is not a word of it" if wrong else "alpha and bandwidth are both needed"
        raise UsageError(f"{where}: {what}; write alpha=5us,bandwidth=20GB/s and, if known, launch=10us")
    rates = Rates(parse_time(values["alpha"]), parse_rate(values["bandwidth"]), parse_time(values.get("launch", "0")))
    if rates.bandwidth_Bps <= 0:
        raise UsageError(f"{where}: bandwidth must be above 0")
    return rates


def _machine(found: OnMachine) -> tuple[Profile, str, tuple[str, ...]]:
    """A machine with what it says of itself."""
    return (
        found,
        found.words,
        (
            "simulated times have no interval: they are as good as the description of the machine",
            "each call is simulated alone: groups side by side that share its wires would slow it down",
        ),
    )


def _toml(path: Path) -> dict[str, Any]:
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: not TOML: {error}") from error
    return found


def _table(data: Mapping[str, Any], path: Path) -> Rates:
    table = data.get("profile", data)
    if not isinstance(table, dict):
        raise FileError(f"{path}: profile must be a table with alpha and bandwidth")
    return _from_words({str(key): str(value) for key, value in table.items()}, str(path))


def _is_cost_model(path: Path) -> bool:
    try:
        return '"cost_model"' in path.read_text(encoding="utf-8", errors="replace")[:200]
    except OSError:
        return False


def _results(paths: list[Path], what: str) -> tuple[Profile, str, tuple[str, ...]]:
    from busbw.costs import fit
    from busbw.formats import read_results

    rows: list[Measurement] = []
    failures: list[BusbwError] = []
    for path in paths:
        try:
            rows += read_results(str(path)).measurements
        except BusbwError as error:
            failures.append(error)
    if not rows:
        if len(paths) == 1 and failures:
            raise failures[0]
        raise FileError(f"{what}: no file in it holds results; measure with busbw bench -o results.jsonl")
    worlds = sorted({row.call.world_size for row in rows})
    words = f"{len(rows)} measured rows at N = {', '.join(map(str, worlds))} in {what}"
    contention = measured_contention(rows)
    alone = [row for row in rows if row.beside is None]
    if not alone:
        raise FileError(
            f"{what}: all rows were taken beside computation (bench --with-compute); those alone are needed"
        )
    notes = () if contention is None else (contention.words,)
    return Fitted(fit(alone).model, contention), words, notes
