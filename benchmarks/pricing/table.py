"""The page of `exactness.py`: how many models agree, for every plan and number of ranks, and what does not."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

HEAD = """# Priced and captured bills, call by call

`python benchmarks/pricing/exactness.py --write docs/pricing-exactness.md` makes this page; torch {torch}{transformers}.

For each model and plan a training program runs five steps under `busbw.capture`: on gloo with 2, 3 and 4 ranks (every rank's bill is
compared), on torch's fake process group with 8 and 64 (the first and the last rank's). Another process, in which torch is never imported,
prices the same from the model's file. A row agrees when every call agrees, in order: collective, S, dtype, ranks of the group, root,
phase, and the bytes that the rank sends, in the constructor, the first, the second and every later step. Of a pipeline's messages the peer is
compared, and not the phase, which torch does not always tell. Models are read with their example inputs, on the meta device; the LSTM on the
CPU; those of transformers (`hf_`) are priced from their config.json alone.

**{agrees} of {ran} runs agree, over {calls} calls; {refused} more plans are refused by torch itself for that model.**

Models: {models}.
The context-parallel rows drive torch's own ring attention with its CPU kernel, which its dispatcher does not list. On the fake group DDP's
all-reduce is issued by a hook, because the reducer cannot read that group's results. Pipelines are given the shapes of their stages.

| plan | {worlds} |
|---|{rule}|
"""


def page(rows: list[dict[str, Any]], versions: tuple[str, str] = ("2.13", "")) -> str:
    """The whole page, in Markdown."""
    worlds = sorted({row["world"] for row in rows})
    ran = [row for row in rows if row["verdict"] in ("agrees", "differs", "not priced", "did not run")]
    refused = [row for row in rows if row["verdict"] == "does not run"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    text = HEAD.format(
        torch=versions[0],
        transformers=f", transformers {versions[1]}" if versions[1] else "",
        agrees=sum(row["verdict"] == "agrees" for row in ran),
        ran=len(ran),
        calls=sum(row["calls"] for row in rows),
        refused=len(refused),
        models=", ".join(f"`{name}`" for name in models),
        worlds=" | ".join(f"N = {world}" for world in worlds),
        rule="|".join("---" for _ in worlds),
    )
    table: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in ran:
        table[_plan(row)][row["world"]].append(row["verdict"])
    for plan, by_world in table.items():
        cells = []
        for world in worlds:
            found = by_world.get(world, [])
            cells.append(f"{found.count('agrees')} of {len(found)}" if found else "")
        text += f"| `{plan}` | {' | '.join(cells)} |\n"
    return text + _differing(ran) + _refused(refused)


def _plan(row: dict[str, Any]) -> str:
    """The plan, with what follows from N as a letter."""
    world = row["world"]
    label: str = row["label"]
    for name in (f"hsdp=2x{world // 2}", f"fsdp2={world // 2},tp", f"cp={world},"):
        before, _, rest = name.partition("=")
        number = str(world) if before == "cp" else str(world // 2)
        label = label.replace(name, f"{before}={rest.replace(number, 'K') if before != 'hsdp' else '2xK'}")
    return label


def _differing(ran: list[dict[str, Any]]) -> str:
    text = "\n## What does not agree\n\n"
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in ran:
        if row["verdict"] != "agrees":
            groups[row["model"], _plan(row)].append(row)
    if not groups:
        return text + "Nothing.\n"
    for (model, plan), rows in groups.items():
        worlds = ", ".join(str(row["world"]) for row in rows)
        text += f"- `{model}` under `{plan}`, N = {worlds}: {_short(rows[0]['why'])}\n"
    return text


def _short(why: str) -> str:
    import re

    return re.sub(r" at \S+:\d+ \w+", "", why)[:400]


def _refused(refused: list[dict[str, Any]]) -> str:
    text = "\n## What torch refuses\n\n"
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in refused:
        groups[row["model"], _short(row["why"])].add(row["program"])
    for (model, why), programs in groups.items():
        text += f"- `{model}` under {', '.join(sorted(programs))}: {why}\n"
    return text
