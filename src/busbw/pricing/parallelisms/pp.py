"""pp: a pipeline of stages; micro-batches (--accumulate) flow through it: gpipe, 1f1b, interleaved.

Source: torch/distributed/pipelining/schedules.py and stage.py (2.13): the order of messages is that of its schedules, with
shapes given to the stages (else the first step adds messages that are pickles, of no promised size). In the first step
each stage tells its neighbours with 4 bytes which mode it has. Layers are cut evenly; stage s of v x p is on rank s mod p.
A message is A = micro-batch x sequence x hidden x element size (a p-th of the sequence under sp or cp).
Whole job: M (p v - 1) activations, and as many gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw.core.plan import Model, Unit
from busbw.errors import UsageError
from busbw.pricing.parallelism import DataScheme, Job, Option, Parallelism, Scheme, one_of, whole
from busbw.pricing.shape import hidden_of, require_blocks, require_transformer
from busbw.pricing.stream import Event, Events, Group, call, message


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a rank does: F or B of a stage and a micro-batch, or a message (send F, receive B, ...)."""

    what: str
    """forward, backward, send_forward, receive_forward, send_backward, receive_backward."""
    stage: int
    micro: int


HOUSEKEEPING = Action("housekeeping", -1, -1)
MOST_ACTIVE = 3


class Pipeline(Scheme):
    """Emits a step of one rank: computation and messages in the order of the schedule."""

    axis = "pp"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.p, self.rank = job.group.size, job.group.place
        self.chunks = job.options["chunks"] if job.options["schedule"] == "interleaved" else 1
        self.micro = job.settings.accumulate
        self.stages = self.p * self.chunks
        require_blocks(job.whole, "a pipeline")
        if self.p > 1:
            require_transformer(job.whole, f"pp={self.p}")
        if len(job.whole.blocks) < self.stages:
            raise UsageError(f"{job.whole.name} has {len(job.whole.blocks)} blocks: too few for {self.stages} stages")
        if job.options["schedule"] == "interleaved":
            rounds = max(1, self.micro // self.p)
            if self.micro % rounds:
                raise UsageError(
                    f"interleaved: {self.micro} micro-batches (--accumulate) are no multiple of {rounds} rounds"
                )
        if self.micro < self.p:
            self.notes.append(
                f"{self.micro} micro-batches (--accumulate) cannot fill a pipeline of {self.p} stages: give at least {self.p}"
            )
        if job.whole.geometry is not None and job.whole.geometry.tied and self.p > 1 and self.rank == self.p - 1:
            self.notes.append("the last stage's copy of the tied embedding is not in its data-parallel sync here")
        self.message = job.tokens * hidden_of(job.whole)
        for scheme in job.inner:  # under sequence parallelism each tensor-parallel rank sends its part
            self.message //= scheme.parts_of_sequence
        self.started = False
        self.schedule = self._schedule()

    def _schedule(self) -> list[Action]:
        name = self.job.options["schedule"]
        if name == "gpipe":
            return list(gpipe(self.rank, self.p, self.micro))
        if name == "1f1b":
            return list(one_forward_one_backward(self.rank, self.p, self.micro))
        return interleaved(self.p, self.chunks, self.micro)[self.rank]

    @property
    def bubble(self) -> float:
        """Idle over busy time: (p - 1) / (v M)."""
        return (self.p - 1) / (self.chunks * self.micro)

    def mine(self) -> list[int]:
        """The stages on this rank."""
        return list(range(self.rank, self.stages, self.p))

    def step(self, data: DataScheme) -> Events:
        """One optimizer step's micro-batches."""
        events: Events = []
        if not self.started:
            self.started = True
            events += self._votes()
        units = {stage: stage_units(data.job.model.units, self.job.whole, stage, self.stages) for stage in self.mine()}
        left = dict.fromkeys(self.mine(), self.micro)
        for action in self.schedule:
            if action.what == "forward":
                last = action.micro == self.micro - 1
                events += data.forward_pass(units[action.stage], action.micro, last)
            elif action.what == "backward":
                left[action.stage] -= 1
                events += data.backward_pass(units[action.stage], action.micro, left[action.stage] == 0)
            else:
                events.append(self._message(action))
        return events

    def _message(self, action: Action) -> Event:
        way, _, phase = action.what.partition("_")
        to = way == "send"
        ahead = action.stage + 1 if (phase == "forward") == to else action.stage - 1
        name = f"stage {action.stage} {'to' if to else 'from'} stage {ahead}, micro-batch {action.micro}"
        return message(self.job.group, ahead % self.p, to, self.message, self.job.settings.dtype, phase, name)

    def _votes(self) -> Events:
        """Which mode the stages have: 4 bytes down the pipeline and back."""
        events: Events = []
        group = self.job.group

        def vote(peer: int, to: bool) -> Event:
            return message(group, peer % self.p, to, 1, "int32", "other", "whether shapes are known")

        for stage in self.mine():
            events += [vote(stage - 1, False)] if stage > 0 else []
            events += [vote(stage + 1, True)] if stage < self.stages - 1 else []
        for stage in reversed(self.mine()):
            events += [vote(stage + 1, False)] if stage < self.stages - 1 else []
            events += [vote(stage - 1, True)] if stage > 0 else []
        return events if self.p > 1 else []

    def after_backward(self) -> Events:
        """A tied embedding is on the first and the last stage: its gradient is summed over both."""
        geometry = self.job.whole.geometry
        if geometry is None or not geometry.tied or self.p == 1 or self.rank not in (0, self.p - 1):
            return []
        ends = Group(
            "first and last stage", (self.job.group.ranks[0], self.job.group.ranks[-1]), 0 if self.rank == 0 else 1
        )
        count = geometry.vocab * geometry.hidden
        return [call("all_reduce", ends, count, self.job.model.parameters[0].dtype, "backward", "tied embedding")]


def stage_units(units: Sequence[Unit], whole: Model, stage: int, stages: int) -> list[Unit]:
    """The units of one stage: an even cut of the blocks, the stem on the first, the head on the last."""
    layers = len(whole.blocks)
    first, last = layers * stage // stages, layers * (stage + 1) // stages
    own = set(whole.blocks[first:last])
    return [
        unit
        for unit in units
        if unit.name in own or (unit.kind == "stem" and stage == 0) or (unit.kind == "head" and stage == stages - 1)
    ]


def localize(model: Model, group: Group, options: Mapping[str, Any]) -> Model:
    """The tensors of this rank's stages."""
    chunks = options["chunks"] if options["schedule"] == "interleaved" else 1
    stages = group.size * chunks
    if group.size == 1:
        return model
    units = [
        unit
        for stage in range(group.place, stages, group.size)
        for unit in stage_units(model.units, model, stage, stages)
    ]
    names = {tensor.name for unit in units for tensor in unit.tensors}
    kept = tuple(tensor for tensor in model.tensors if tensor.buffer or tensor.name in names)
    arrival = tuple(name for name in model.arrival if name in names)
    blocks = tuple(block for block in model.blocks if any(unit.name == block for unit in units))
    return replace(model, tensors=kept, arrival=arrival, blocks=blocks)


# --- schedules ---


def _ends(stage: int, stages: int) -> tuple[bool, bool]:
    return stage > 0, stage < stages - 1


def gpipe(rank: int, p: int, micro: int) -> Iterator[Action]:
    """All forwards, then all backwards."""
    before, behind = _ends(rank, p)
    for m in range(micro):
        if before:
            yield Action("receive_forward", rank, m)
        yield Action("forward", rank, m)
        if behind:
            yield Action("send_forward", rank, m)
    for m in range(micro):
        if behind:
            yield Action("receive_backward", rank, m)
        yield Action("backward", rank, m)
        if before:
            yield Action("send_backward", rank, m)


def one_forward_one_backward(rank: int, p: int, micro: int) -> Iterator[Action]:
    """p - rank forwards to fill the pipeline, then backward and forward in turns; each send goes with the next receive."""
    before, behind = _ends(rank, p)
    warm = min(micro, p - rank)
    for m in range(warm):
        if before:
            yield Action("receive_forward", rank, m)
        yield Action("forward", rank, m)
        if behind:
            yield Action("send_forward", rank, m)
    forward, backward = warm, 0
    while backward < micro:
        if behind:
            yield Action("receive_backward", rank, backward)
        yield Action("backward", rank, backward)
        if before:
            yield Action("send_backward", rank, backward)
        backward += 1
        if forward < micro:
            if before:
                yield Action("receive_forward", rank, forward)
            yield Action("forward", rank, forward)
            if behind:
                yield Action("send_forward", rank, forward)
            forward += 1


def interleaved(p: int, chunks: int, micro: int) -> list[list[Action]]:
    """Every rank's actions: v stages a rank, each round of micro-batches through one chunk after the other.

    A rank's receives stand where its neighbours' sends put them, which needs all ranks at once: time goes in slots, in
    which every rank, in order, does its next action if what it needs has arrived.
    """
    stages = p * chunks
    waiting = [_with_housekeeping(_computation(rank, p, chunks, micro), micro) for rank in range(p)]
    done: list[list[Action]] = [[] for _ in range(p)]
    seen: list[set[Action]] = [set() for _ in range(p)]

    def ready(action: Action, rank: int) -> bool:
        if action.what == "forward":
            needs = (
                Action("receive_forward", action.stage, action.micro),
                Action("forward", action.stage - 1, action.micro),
            )
            return action.stage == 0 or any(need in seen[rank] for need in needs)
        needs = (
            Action("receive_backward", action.stage, action.micro),
            Action("backward", action.stage + 1, action.micro),
        )
        return action.stage == stages - 1 or any(need in seen[rank] for need in needs)

    while any(waiting):
        progress = False
        for rank in range(p):
            if not waiting[rank]:
                continue
            action = waiting[rank][0]
            if action is not HOUSEKEEPING and not ready(action, rank):
                continue
            waiting[rank].pop(0)
            progress = True
            if action is HOUSEKEEPING:
                continue
            done[rank].append(action)
            seen[rank].add(action)
            peer = action.stage + (1 if action.what == "forward" else -1)
            if 0 <= peer < stages and peer % p != rank:
                done[rank].append(Action(f"send_{action.what}", action.stage, action.micro))
                arrived = Action(f"receive_{action.what}", peer, action.micro)
                done[peer % p].append(arrived)
                seen[peer % p].add(arrived)
        assert progress, "a schedule never waits for itself"
    return done


def _computation(rank: int, p: int, chunks: int, micro: int) -> list[Action]:
    """One rank's forwards and backwards: a warm-up of forwards, then both in turns, then what backwards are left."""
    per_round = micro // max(1, micro // p)
    total = micro * chunks
    warm = min((chunks - 1) * per_round + 2 * (p - 1 - rank), total)
    forwards: dict[int, int] = {}
    backwards: dict[int, int] = {}

    def next_forward(step: int) -> Action:
        stage = (step // per_round) % chunks * p + rank
        forwards[stage] = forwards.get(stage, -1) + 1
        return Action("forward", stage, forwards[stage])

    def next_backward(step: int) -> Action:
        stage = (chunks - 1 - (step - warm) // per_round % chunks) * p + rank
        backwards[stage] = backwards.get(stage, -1) + 1
        return Action("backward", stage, backwards[stage])

    actions = [next_forward(step) for step in range(warm)]
    for step in range(warm, total):
        actions += [next_forward(step), next_backward(step)]
    return actions + [next_backward(step) for step in range(total, total + warm)]


def _with_housekeeping(actions: Sequence[Action], micro: int) -> list[Action]:
    """torch also spends slots on what communicates nothing here: gathering and freeing stages, reducing gradients.

    The next MOST_ACTIVE stages are gathered when they come into view, others freed; a stage's gradients are reduced
    behind its last backward. Only their number and place matter, because they shift what neighbours send when.
    """
    active: set[int] = set()
    left: dict[int, int] = {}
    lowered: list[Action] = []
    for index, action in enumerate(actions):
        upcoming: list[int] = []
        for later in actions[index:]:
            if later.stage not in upcoming:
                upcoming.append(later.stage)
                if len(upcoming) == MOST_ACTIVE:
                    break
        lowered += [HOUSEKEEPING] * len(active - set(upcoming))
        active &= set(upcoming)
        lowered += [HOUSEKEEPING] * len(set(upcoming) - active)
        active |= set(upcoming)
        lowered.append(action)
        if action.what == "backward":
            left[action.stage] = left.get(action.stage, micro) - 1
            lowered += [HOUSEKEEPING] * (left[action.stage] == 0)
    return lowered + [HOUSEKEEPING] * len(active)


PARALLELISM = Parallelism(
    name="pp",
    axis="pp",
    summary="a pipeline of stages: gpipe, 1f1b (default), interleaved; --accumulate is the number of micro-batches",
    scheme=Pipeline,
    options=(
        Option("schedule", "1f1b", one_of("gpipe", "1f1b", "interleaved"), "the order of micro-batches"),
        Option("chunks", 2, whole(1), "stages a rank, of the interleaved schedule"),
    ),
    localize=localize,
    sources=("torch/distributed/pipelining/schedules.py", "torch/distributed/pipelining/stage.py"),
    tries=(("schedule", "interleaved", "a smaller bubble for more messages"),),
)
