"""Where steps begin and end, without a hook that costs every module: optimizers, and one forward pass each.

A *segment* is what lies between two optimizer steps: it begins with the first forward pass (or backward) after one.
`busbw.traces.steps` makes training steps of segments, because programs with several optimizers have several each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StepHooks:
    """Watches optimizers and first forward passes of this process; tells `mark(what, optimizer)` of each.

    `running` holds the optimizers whose steps are running; nested ones (ZeroRedundancyOptimizer has one inside) count as one.
    """

    def __init__(self, mark: Callable[[str, int | None], None]) -> None:
        self._mark = mark
        self._optimizers: dict[int, int] = {}
        self.running: list[int] = []
        self._forward: Any = None
        self._handles: list[Any] = []

    def start(self) -> None:
        """Register the hooks."""
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self._handles = [
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]
        self.await_forward()

    def stop(self) -> None:
        """Remove them."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._forward_seen()

    def await_forward(self) -> None:
        """Tell of the next forward pass: a hook that removes itself."""
        if self._forward is None:
            from torch.nn.modules.module import register_module_forward_pre_hook

            self._forward = register_module_forward_pre_hook(self._on_forward)

    def _on_forward(self, module: Any, args: Any) -> None:
        if self._forward is not None:
            self._forward_seen()
            self._mark("forward", None)

    def _forward_seen(self) -> None:
        if self._forward is not None:
            self._forward.remove()
            self._forward = None

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if id(optimizer) in self.running:  # its last step raised, so its end was never told
            self.running.clear()
        self.running.append(id(optimizer))

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self.running:
            return
        outermost = self.running[0] == id(optimizer)
        self.running.pop()
        if outermost or not self.running:
            self.running.clear()
            self._mark("optimizer", self._optimizers.setdefault(id(optimizer), len(self._optimizers)))
            self.await_forward()


class LiveSteps:
    """Which steps are wanted, as far as that can be told while they run.

    With several optimizers, whether a segment begins a step is known at its end, so both are kept; reading cuts exactly.
    """

    def __init__(self, steps: range | None) -> None:
        self._steps = steps
        self._step = 0
        self._seen: set[int | None] = set()
        self._own = False

    def note(self, what: str, optimizer: int | None) -> bool:
        """Take in a mark; returns whether calls are wanted from here on."""
        if self._steps is None:
            return True
        if what == "step":
            self._step, self._own = (self._step + 1, True) if self._own else (0, True)
        elif what == "optimizer" and not self._own:
            if optimizer in self._seen:
                self._step += 1
                self._seen = set()
            self._seen.add(optimizer)
        return self._step in self._steps or (bool(self._seen) and self._step + 1 in self._steps)
