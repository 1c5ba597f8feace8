"""Pricing: what a training step communicates under a parallel plan, call by call, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from busbw.core.bill import Bills
    from busbw.core.plan import Model
    from busbw.pricing.parallelism import Settings
    from busbw.pricing.profile import Profile


def price(
    model: Model | str,
    plan: str,
    world_size: int,
    profile: Profile | str | None = None,
    *,
    rank: int = 0,
    hosts: int = 1,
    settings: Settings | Mapping[str, Any] | None = None,
) -> Bills:
    """The bills of a job: constructor, first, second and steady step, as `rank` pays them.

    `model` is a Model or what `read_model` takes (`gpt2`, a config.json, ...), `plan` such as `ddp` or `dp=8,tp=4`,
    `profile` a cost model, or what `read_profile` takes; without one the lines have no seconds. UsageError says in one
    line what does not fit.
    """
    from busbw.pricing.step import price_steps

    return price_steps(model, plan, world_size, profile, rank, hosts, settings)
