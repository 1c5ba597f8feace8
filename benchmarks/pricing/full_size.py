"""The shape tables of known models against the real modules at full size: transformers, 8 ranks of the fake process group.

    python benchmarks/pricing/full_size.py            # needs torch, transformers and about 6 GB

No weights are downloaded: modules are built from their default configurations. Every call of the constructor and of four
steps has to agree.
"""

from __future__ import annotations

import sys
from typing import Any

import programs
import torch
import torch.distributed as dist
import transformers
from torch.testing._internal.distributed.fake_pg import FakeStore

import busbw
from busbw.pricing import price
from busbw.pricing.against import differences

IDS = {"input_ids": torch.zeros(1, 4, dtype=torch.long)}


def build(name: str) -> tuple[torch.nn.Module, Any]:
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config()), IDS
    if name == "bert-base":
        return transformers.BertForMaskedLM(transformers.BertConfig()), IDS
    config = transformers.ViTConfig(num_labels=1000)
    return transformers.ViTForImageClassification(config), {"pixel_values": torch.zeros(1, 3, 224, 224)}


def main() -> int:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    programs.STEPS = 4
    wrong = 0
    for name in ("gpt2", "bert-base", "vit-b"):
        for plan in ("ddp", "fsdp2"):
            module, inputs = build(name)
            with busbw.capture(times="none") as capture:
                programs.PROGRAMS[plan](module, inputs)
            priced, bills = price(name, plan, 8), capture.bills
            names = [*sorted({*priced.steps, *bills.steps} - {"steady"}), "steady"]
            found = differences(priced, bills, names)
            calls = sum(bill.totals().calls for bill in bills.steps.values())
            print(f"{name:<10} {plan:<6} {calls} calls: {'agrees' if not found else found[0].what}", flush=True)
            wrong += bool(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
