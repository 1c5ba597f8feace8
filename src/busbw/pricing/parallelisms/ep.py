"""ep: expert parallelism: each rank holds a part of the experts, and tokens go where their experts are.

Per layer with experts, T = tokens of the micro-batch on this rank, k experts a token (Megatron, DeepSpeed, torchtitan; read in
source): forward exchanges counts (int64), then dispatches T k hidden elements all-to-all and combines the same; backward
does both again. (ep - 1)/ep of them leave the rank only if routing is balanced: `routing=worst` prices what happens when
all tokens want experts of one rank, which then receives from everyone; every other rank sends all that it has.

Experts' gradients are reduced over the data ranks that hold the same experts (data / ep); all others over the data axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from busbw.core.plan import Geometry, Model, Tensor, Unit
from busbw.errors import UsageError
from busbw.pricing.parallelism import Around, Job, Option, Parallelism, Scheme, one_of, yes_or_no
from busbw.pricing.stream import Events, Group, Issue, call


class Experts(Scheme):
    """Dispatch before the experts, combine after them."""

    axis = "ep"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        geometry = _geometry(job.whole)
        self.payload = job.tokens * geometry.experts_per_token * geometry.hidden
        self.experts = geometry.experts
        tp = job.mesh["tp"].size
        if tp > 1 and geometry is not None:
            self.payload = -(-self.payload // tp)
            self.notes.append("ep with tp: tokens are taken to be cut over tp before they are dispatched")

    def _layer(self, unit: Unit) -> bool:
        return self.job.group.size > 1 and any(is_expert(tensor) for tensor in unit.tensors)

    def _send(self, unit: Unit, phase: str, what: str) -> Issue:
        issue = call(
            "all_to_all_v", self.job.group, self.payload, self.job.settings.dtype, phase, f"{unit.name}: {what}"
        )
        size, n = issue.line.call.size_bytes, self.job.group.size
        worst = self.job.options["routing"] == "worst"
        # In the worst case the busy rank is another one, and everything leaves; balanced, an n-th stays.
        sent = size if worst else size - size // n
        return replace(issue, line=replace(issue.line, sent_bytes_per_rank=sent))

    def _exchange(self, unit: Unit, phase: str) -> tuple[Events, Events]:
        dispatch: Events = []
        if phase != "backward":
            counts = call("all_to_all", self.job.group, self.experts, "int64", phase, f"{unit.name}: tokens an expert")
            dispatch.append(counts)
        dispatch.append(self._send(unit, phase, "dispatch"))
        if self.job.options["probabilities"]:
            tokens = self.payload // _geometry(self.job.whole).hidden
            dispatch.append(
                call("all_to_all_v", self.job.group, tokens, "float32", phase, f"{unit.name}: probabilities")
            )
        return dispatch, [self._send(unit, phase, "combine")]

    def forward(self, unit: Unit, phase: str = "forward") -> Around:
        """Counts, dispatch, experts, combine."""
        if not self._layer(unit):
            return [], [], []
        dispatch, combine = self._exchange(unit, phase)
        return [], dispatch, combine

    def backward(self, unit: Unit) -> Around:
        """The gradient of combine is a dispatch, that of dispatch a combine."""
        if not self._layer(unit):
            return [], [], []
        dispatch, combine = self._exchange(unit, "backward")
        return combine, dispatch, []


def is_expert(tensor: Tensor) -> bool:
    """It belongs to routed experts (not to shared ones, nor to the router)."""
    return ".experts." in tensor.name and "shared_experts" not in tensor.name


def _geometry(model: Model) -> Geometry:
    geometry = model.geometry
    if geometry is None or not geometry.experts:
        raise UsageError(
            f"{model.name} has no experts that are known here: ep needs mixtral-8x7b, deepseek-v3 or a config.json"
        )
    return geometry


def localize(model: Model, group: Group, options: Mapping[str, Any]) -> Model:
    """Each rank holds experts / ep of the experts."""
    geometry = _geometry(model)
    if geometry.experts % group.size:
        raise UsageError(f"{model.name} has {geometry.experts} experts: ep={group.size} does not divide them")
    tensors = tuple(
        replace(tensor, shape=(tensor.shape[0] // group.size, *tensor.shape[1:])) if is_expert(tensor) else tensor
        for tensor in model.tensors
    )
    return replace(model, tensors=tensors)


PARALLELISM = Parallelism(
    name="ep",
    axis="ep",
    summary="expert parallelism: tokens travel to the ranks that hold their experts (balanced, or the worst case)",
    scheme=Experts,
    options=(
        Option("routing", "balanced", one_of("balanced", "worst"), "how evenly tokens choose experts"),
        Option("probabilities", False, yes_or_no, "Megatron sends each token's probabilities beside it"),
    ),
    localize=localize,
    sources=("Megatron-LM core/transformer/moe/token_dispatcher.py", "DeepSpeed moe/sharded_moe.py"),
)
