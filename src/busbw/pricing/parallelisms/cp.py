"""cp: context parallelism: each rank holds a part of every sequence; keys and values travel.

With K = 2 x micro-batch x (sequence / cp) x kv_heads x head_dim x element size, the keys and values of one rank:

- torch (torch/distributed/tensor/experimental/_context_parallel/_attention.py, 2.13; checked call by call): one all-gather
  of cp K in forward and one in backward, then cp all-to-alls that pass the gradient of keys and values around, in float32.
- ring (as in ring-flash-attention and Megatron's p2p; read in source): cp - 1 passes of K in forward; in backward cp - 1
  passes of K and cp of its gradient in float32. They run beside attention.
- ulysses (DeepSpeed): 4 all-to-alls in forward (q, k, v, and the output) and 4 in backward, each of this rank's tensor.
  With fewer kv heads than ranks, keys and values are repeated up to one head a rank.
"""

from __future__ import annotations

import math
from dataclasses import replace

from busbw.core.plan import Unit
from busbw.errors import UsageError
from busbw.pricing.parallelism import Around, Job, Option, Parallelism, Scheme, one_of, yes_or_no
from busbw.pricing.shape import hidden_of, require_blocks
from busbw.pricing.stream import Events, Issue, Wait, call, message


class Context(Scheme):
    """Calls inside attention."""

    axis = "cp"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        require_blocks(job.model, "context parallelism")
        n, group = job.group.size, job.group
        if job.settings.sequence % n:
            raise UsageError(f"cp={n} does not divide the {job.settings.sequence} tokens of a sample (--sequence)")
        geometry = job.whole.geometry
        tp = job.mesh["tp"].size
        if geometry is None:
            self.q_heads_dim = self.kv_heads_dim = hidden_of(job.whole) // tp
            self.notes.append(f"{job.whole.name}: its heads are not known: keys are taken to be as wide as queries")
            self.kv_heads, self.head_dim = n, max(self.kv_heads_dim // n, 1)
        else:
            self.kv_heads, self.head_dim = max(geometry.kv_heads // tp, 1), geometry.head_dim
            heads = max(geometry.heads // tp, 1)
            if job.options["repeat_kv"]:
                self.kv_heads = heads
            self.q_heads_dim, self.kv_heads_dim = heads * geometry.head_dim, self.kv_heads * geometry.head_dim
        self.style = job.options["cp_style"]
        if self.style == "ulysses" and self.q_heads_dim % n:
            raise UsageError(f"ulysses: cp={n} must divide the heads of a rank")
        self.group = group
        self.kv = 2 * job.tokens * self.kv_heads_dim

    def forward(self, unit: Unit, phase: str = "forward") -> Around:
        """Before attention's output projection."""
        if unit.kind != "block" or self.group.size == 1:
            return [], [], []
        if self.style == "torch":
            return [self._gather(unit, phase)], [], []
        if self.style == "ring":
            return (
                self._ring(unit, phase, self.group.size - 1, self.kv, self.job.settings.dtype, "keys and values"),
                [],
                [],
            )
        return self._exchange(unit, phase, "qkv"), self._exchange(unit, phase, "out"), []

    def backward(self, unit: Unit) -> Around:
        """In attention's backward, which comes after the feed-forward's."""
        n, phase = self.group.size, "backward"
        if unit.kind != "block" or n == 1:
            return [], [], []
        if self.style == "torch":
            passes: Events = [self._pass(unit) for _ in range(n)]
            return [], [self._gather(unit, phase), *passes], []
        if self.style == "ring":
            keys = self._ring(unit, phase, n - 1, self.kv, self.job.settings.dtype, "keys and values")
            gradients = self._ring(unit, phase, n, self.kv, "float32", "gradient of keys and values")
            return [], [*keys, *gradients], []
        return [], self._exchange(unit, phase, "out"), self._exchange(unit, phase, "qkv")

    def _gather(self, unit: Unit, phase: str) -> Issue:
        count = self.kv * self.group.size
        return call("all_gather", self.group, count, self.job.settings.dtype, phase, f"{unit.name}: keys and values")

    def _pass(self, unit: Unit) -> Issue:
        """permute_tensor: an all-to-all in which everything goes to the next rank."""
        issue = call(
            "all_to_all_v", self.group, self.kv, "float32", "backward", f"{unit.name}: gradient of keys and values"
        )
        size = issue.line.call.size_bytes
        return replace(issue, line=replace(issue.line, sent_bytes_per_rank=size))

    def _ring(self, unit: Unit, phase: str, times: int, count: int, dtype: str, what: str) -> Events:
        n, place = self.group.size, self.group.place
        events: Events = []
        for _ in range(times):
            tag, name = f"ring {unit.name}", f"{unit.name}: {what}"
            events.append(message(self.group, (place + 1) % n, True, count, dtype, phase, name, tag=tag))
            events.append(message(self.group, (place - 1) % n, False, count, dtype, phase, name, tag=tag))
        return [*events, Wait(f"ring {unit.name}")]

    def _exchange(self, unit: Unit, phase: str, what: str) -> Events:
        n, tokens, dtype = self.group.size, self.job.tokens, self.job.settings.dtype
        q = tokens * self.q_heads_dim
        if what == "out":
            return [call("all_to_all", self.group, q, dtype, phase, f"{unit.name}: attention's output")]
        kv_heads = self.kv_heads if self.kv_heads % n == 0 else math.lcm(self.kv_heads, n)
        kv = tokens * kv_heads * self.head_dim
        return [
            call("all_to_all", self.group, count, dtype, phase, f"{unit.name}: {name}")
            for name, count in (("queries", q), ("keys", kv), ("values", kv))
        ]


PARALLELISM = Parallelism(
    name="cp",
    axis="cp",
    summary="context parallelism: sequences are cut, keys and values travel (torch, ring, ulysses)",
    scheme=Context,
    options=(
        Option("cp_style", "torch", one_of("torch", "ring", "ulysses"), "how keys and values travel"),
        Option(
            "repeat_kv", False, yes_or_no, "keys and values are repeated to as many heads as queries before they travel"
        ),
    ),
    sources=("torch/distributed/tensor/experimental/_context_parallel/_attention.py", "DeepSpeed sequence/layer.py"),
    tries=(
        ("cp_style", "ulysses", "heads are exchanged, not keys and values passed around"),
        ("cp_style", "ring", "passes run beside attention"),
    ),
)
