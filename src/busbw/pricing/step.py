"""The bills of a job: a plan's schemes are set up for one rank, and run through its first steps until they repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw.core.bill import STEADY, Bill, Bills, Line, fold
from busbw.core.cost_model import CostModel
from busbw.core.dtype import find_dtype
from busbw.core.plan import Model
from busbw.errors import UsageError
from busbw.pricing.experts import DenseAndExperts
from busbw.pricing.links import with_link
from busbw.pricing.mesh import Mesh, Part, make_mesh
from busbw.pricing.parallelism import DataScheme, Job, Scheme, Settings
from busbw.pricing.parallelisms.pp import Pipeline
from busbw.pricing.profile import Fitted, Profile, price_of, read_profile
from busbw.pricing.readers import read_model
from busbw.pricing.stream import Event, Events, Group, lines_of

NAMES = ("first", "second", "2", "3", "4")
"""Later steps that differ from the steady one go by their number from 0, as in a capture."""
MOST_STEPS = 5
INNER = ("tp", "cp", "ep")
"""Axes whose calls stand inside a unit."""


@dataclass(frozen=True, slots=True)
class Priced:
    """The events of every step, and what they rest on."""

    mesh: Mesh
    model: Model
    local: Model
    settings: Settings
    steps: Mapping[str, tuple[Event, ...]]
    notes: tuple[str, ...]
    bubble: float = 0.0
    """A pipeline's idle time over its busy time."""


def price_steps(
    model: Model | str,
    plan: str,
    world_size: int,
    profile: Profile | str | None,
    rank: int,
    hosts: int,
    settings: Settings | Mapping[str, Any] | None,
) -> Bills:
    """See `busbw.pricing.price`."""
    whole = read_model(model) if isinstance(model, str) else model
    words: str | None = None
    notes: tuple[str, ...] = ()
    if isinstance(profile, str):
        profile, words, notes = read_profile(profile)
    elif isinstance(profile, CostModel):
        profile = Fitted(profile)
    priced = run_steps(whole, make_mesh(plan, world_size), rank, settings)
    return bills_of(priced, profile, rank, hosts, words, notes)


def bills_of(
    priced: Priced, profile: Profile | None, rank: int, hosts: int, words: str | None = None, notes: Sequence[str] = ()
) -> Bills:
    """Lines with their times and links, folded."""
    world_size = priced.mesh.world_size
    if hosts < 1 or world_size % hosts:
        raise UsageError(f"--hosts {hosts}: must divide the {world_size} ranks")
    bills = {}
    for name, events in priced.steps.items():
        lines = [_timed(line, profile) for line in lines_of(events)]
        if hosts > 1:
            lines = [with_link(line, world_size // hosts, rank) for line in lines]
        bills[name] = Bill(name, rank, fold(lines))
    reasons = dict.fromkeys(
        reason for line in bills[STEADY].lines if line.estimate for reason in line.estimate.extrapolates
    )
    facts = {
        "model": priced.model.name,
        "model_source": priced.model.source,
        "parameters": priced.model.count,
        "tensors": len(priced.model.parameters),
        "plan": priced.mesh.text,
        "mesh": {part.parallelism.name: list(part.factors) for part in priced.mesh.parts},
        "hosts": hosts,
        "profile": words,
        "settings": {name: getattr(priced.settings, name) for name in priced.settings.__slots__},
    }
    return Bills(world_size, rank, bills, "priced", facts, (*priced.notes, *notes, *reasons))


def run_steps(whole: Model, mesh: Mesh, rank: int = 0, settings: Settings | Mapping[str, Any] | None = None) -> Priced:
    """Constructor and steps of a job as one rank runs it; UsageError where model, plan and world do not fit."""
    if not 0 <= rank < mesh.world_size:
        raise UsageError(f"rank {rank}: must be from 0 to {mesh.world_size - 1}")
    chosen = _settings(whole, settings, mesh)
    groups = {axis: mesh.group(rank, axis) for axis in ("pp", "cp", "tp")}
    groups["data"] = mesh.group(rank, "data", "cp")
    groups["ep"], groups["expert_dp"] = mesh.experts(rank), mesh.expert_replicas(rank)
    local = _localized(whole, mesh, groups)
    owner = mesh.part("data")
    job = Job(
        model=local,
        group=groups["data"],
        options={},
        settings=chosen,
        mesh=groups,
        whole=whole,
        data=owner.parallelism.name if owner else "",
    )
    inner = tuple(_scheme(part, job, groups) for part in mesh.parts if part.parallelism.axis in INNER)
    job = replace(job, inner=inner)
    data = _data(owner, job, groups)
    pipeline = next((_scheme(part, job, groups) for part in mesh.parts if part.parallelism.axis == "pp"), None)
    schemes: list[Scheme] = [*inner, data, *([pipeline] if pipeline else [])]
    steps: dict[str, tuple[Event, ...]] = {"constructor": tuple(e for scheme in schemes for e in scheme.constructor())}
    history = []
    for _ in range(MOST_STEPS):
        history.append(tuple(_step(data, schemes, pipeline)))
    steady = history[-1]
    settled = next(i for i in range(MOST_STEPS) if all(step == steady for step in history[i:]))
    for index in range(max(2, settled)):
        steps[NAMES[index]] = history[index]
    steps[STEADY] = steady
    notes = [*whole.notes, *mesh.assumed]
    for scheme in schemes:
        notes += scheme.notes
    for part in mesh.parts:
        notes += part.parallelism.notes
    bubble = pipeline.bubble if isinstance(pipeline, Pipeline) else 0.0
    return Priced(mesh, whole, local, chosen, steps, tuple(dict.fromkeys(notes)), bubble)


def _step(data: DataScheme, schemes: Sequence[Scheme], pipeline: Scheme | None) -> Events:
    units = data.job.model.units
    events: Events = []
    if isinstance(pipeline, Pipeline):
        events += pipeline.step(data)
    else:
        for micro_step in range(data.job.settings.accumulate):
            last = micro_step == data.job.settings.accumulate - 1
            events += data.forward_pass(units, micro_step, last)
            events += data.backward_pass(units, micro_step, last)
    for scheme in schemes:
        events += scheme.after_backward()
    for scheme in schemes:
        events += scheme.optimizer()
    return events


def _settings(model: Model, settings: Settings | Mapping[str, Any] | None, mesh: Mesh) -> Settings:
    if isinstance(settings, Settings):
        return settings
    given = {name: value for name, value in (settings or {}).items() if value is not None}
    unknown = set(given) - set(Settings.__slots__)
    if unknown:
        raise UsageError(f"unknown setting {sorted(unknown)[0]!r}: choose from {', '.join(Settings.__slots__)}")
    for name in ("micro_batch", "sequence", "accumulate"):
        value = given.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"{name} {value!r}: must be a whole number of 1 or more")
    for name in ("micro_batch", "sequence"):  # what a module's example inputs are
        if name in model.facts:
            given.setdefault(name, int(model.facts[name]))
    if model.sample == "image":
        if given.get("sequence", 1) != 1:
            raise UsageError(f"{model.name} works on images: it has no --sequence")
    elif "sequence" not in given:
        given["sequence"] = model.geometry.sequence if model.geometry else 1
    owner = mesh.part("data")
    computed = owner.options.get("param_dtype") if owner else None  # mixed precision computes in it
    given["dtype"] = find_dtype(given["dtype"]).name if "dtype" in given else computed or model.parameters[0].dtype
    return Settings(**given)


def _localized(whole: Model, mesh: Mesh, groups: Mapping[str, Group]) -> Model:
    local = whole
    for axis in ("pp", "tp", "ep"):
        part = mesh.part(axis)
        if part is not None and part.parallelism.localize is not None:
            local = part.parallelism.localize(local, groups[axis], part.options)
    return local


def _scheme(part: Part, job: Job, groups: Mapping[str, Group]) -> Scheme:
    axis = part.parallelism.axis
    return part.parallelism.scheme(replace(job, group=groups[axis], options=part.options, factors=part.factors))


def _data(part: Part | None, job: Job, groups: Mapping[str, Group]) -> DataScheme:
    if part is None:
        return DataScheme(job)
    job = replace(job, options=part.options, factors=part.factors)
    if groups["ep"].size > 1:
        return DenseAndExperts(job, part.parallelism, groups["expert_dp"])
    scheme = part.parallelism.scheme(job)
    assert isinstance(scheme, DataScheme)
    return scheme


def _timed(line: Line, profile: Profile | None) -> Line:
    return line if profile is None else replace(line, estimate=price_of(profile, line))


def with_dtype(model: Model, dtype: str) -> Model:
    """The model with its floating-point tensors in another dtype, as `model.to(dtype)` makes it."""
    name = find_dtype(dtype).name
    tensors = tuple(
        replace(tensor, dtype=name) if tensor.dtype.startswith(("float", "bfloat")) else tensor
        for tensor in model.tensors
    )
    return replace(model, tensors=tensors)
