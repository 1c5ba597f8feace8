"""hsdp: fully_shard on a mesh of replicas x shards: sharded inside a group, all-reduced across the groups.

Source: torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py (2.13): after each reduce-scatter over N shards, the
shard (1/N of the unit) is all-reduced over the R replicas in the same dtype.
"""

from __future__ import annotations

from busbw.pricing.parallelism import Option, Parallelism, whole
from busbw.pricing.parallelisms.fsdp2 import OPTIONS, Fsdp2
from busbw.pricing.stream import Group


class Hsdp(Fsdp2):
    """fsdp2 inside a group of shards; replicas lie outermost, as in a mesh (replicate, shard)."""

    def groups(self) -> tuple[Group, Group | None]:
        """Shards are neighbours; replicas are as far apart as there are shards."""
        group = self.job.group
        replicas = self.job.factors[0]
        shards = group.size // replicas
        first = group.place // shards * shards
        inside = Group("shard", group.ranks[first : first + shards], group.place - first)
        across = Group("replicate", group.ranks[group.place % shards :: shards], group.place // shards)
        return inside, across


PARALLELISM = Parallelism(
    name="hsdp",
    axis="data",
    summary="fully_shard on replicas x shards (hsdp=2x4): sharded inside, all-reduced across",
    scheme=Hsdp,
    options=(*OPTIONS, Option("replicas", None, whole(1), "replicas, where the degree is one number (default 2)")),
    shape=True,
    sources=("torch/distributed/fsdp/_fully_shard",),
    tries=(
        ("reshard_after_forward", False, "parameters stay gathered for backward: more memory"),
        ("param_dtype", "bfloat16", "parameters and gradients travel in bfloat16"),
    ),
)
