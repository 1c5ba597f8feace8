"""Two data schemes in one: experts are reduced over the ranks that hold the same ones, everything else over all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.core.plan import Model, Unit
from busbw.pricing.parallelism import DataScheme, Job, Parallelism
from busbw.pricing.parallelisms.ep import is_expert
from busbw.pricing.stream import Compute, Events, Group


class DenseAndExperts(DataScheme):
    """Runs one scheme for the dense parameters, a second for the experts, and merges what they emit by unit."""

    def __init__(self, job: Job, parallelism: Parallelism, replicas: Group) -> None:
        super().__init__(job)
        dense = parallelism.scheme(replace(job, model=only(job.model, experts=False)))
        experts = parallelism.scheme(replace(job, model=only(job.model, experts=True), group=replicas, inner=()))
        assert isinstance(dense, DataScheme)
        assert isinstance(experts, DataScheme)
        self.dense, self.experts = dense, experts
        self.notes = [*dense.notes, *experts.notes]

    def constructor(self) -> Events:
        """Both."""
        return [*self.dense.constructor(), *self.experts.constructor()]

    def forward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """The dense parameters' forward, with the experts' calls at their units."""
        extra = self.experts.forward_pass(self._own(units), micro_step, last)
        return _merged(self.dense.forward_pass(units, micro_step, last), extra)

    def backward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """The same backwards."""
        extra = self.experts.backward_pass(self._own(units), micro_step, last)
        return _merged(self.dense.backward_pass(units, micro_step, last), extra)

    def after_backward(self) -> Events:
        """Both."""
        return [*self.dense.after_backward(), *self.experts.after_backward()]

    def optimizer(self) -> Events:
        """Both."""
        return [*self.dense.optimizer(), *self.experts.optimizer()]

    def _own(self, units: Sequence[Unit]) -> list[Unit]:
        found = [Unit(unit.name, unit.kind, tuple(t for t in unit.tensors if is_expert(t))) for unit in units]
        return [unit for unit in found if unit.tensors]


def only(model: Model, experts: bool) -> Model:
    """The model's experts alone, or all but them (buffers stay with those)."""
    kept = tuple(tensor for tensor in model.tensors if is_expert(tensor) == experts and not (experts and tensor.buffer))
    names = {tensor.name for tensor in kept}
    return replace(model, tensors=kept, arrival=tuple(name for name in model.arrival if name in names))


def _merged(dense: Events, extra: Events) -> Events:
    """The extra calls around the computation of their units; their own (empty) computation is dropped."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, event in enumerate(dense):
        if isinstance(event, Compute):
            first.setdefault(event.unit, index)
            last[event.unit] = index
    before: dict[int, Events] = {}
    behind: dict[int, Events] = {}
    pending: Events = []
    reached = -1
    for event in extra:
        if not isinstance(event, Compute):
            pending.append(event)
            continue
        start, end = first.get(event.unit, 0), last.get(event.unit, len(dense) - 1)
        before.setdefault(start, []).extend(pending)
        pending, reached = [], end
    behind.setdefault(max(reached, 0), []).extend(pending)
    merged: Events = []
    for index, event in enumerate(dense):
        merged += [*before.get(index, ()), event, *behind.get(index, ())]
    return merged
