"""Questions from issue trackers, brought to a command line: only what the asker gave, never the answer.

Which causes of ours say the same as an answer's is written in ANSWERS; `busbw explain` never sees the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUESTIONS = Path("shared") / "data" / "logs" / "questions"


@dataclass(frozen=True)
class Answer:
    """What counts as the same answer: a cause (any of these), or a law with its verdict; and facts that exclude it."""

    causes: tuple[str, ...] = ()
    law: tuple[str, str] | None = None
    counterfacts: tuple[str, ...] = ()


ANSWERS: dict[str, Answer] = {
    "nvls-and-size": Answer(("nvls-moves-less", "size-too-small"), counterfacts=("nvls=off",)),
    "nvls-busbw-notional": Answer(("nvls-busbw-notional", "nvls-moves-less"), counterfacts=("nvls=off",)),
    "protocol-switch": Answer(("protocol-switch",)),
    "protocol-facts": Answer(("protocol-facts",)),
    "ll128-forced": Answer(("ll128-forced",), counterfacts=("forced_protocol=Simple",)),
    "acs-enabled": Answer(("acs-enabled",), counterfacts=("acs=off",)),
    "as-expected": Answer(law=("is_it_good", "holds")),
    "gdr-off": Answer(("gdr-off",), counterfacts=("gdr=on",)),
    "alltoall-network-share": Answer(("all-to-all-network-share",), counterfacts=("hosts=1",)),
    "cpu-p2p-poor": Answer(("cpu-p2p-poor",), counterfacts=("pcie_switch=on",)),
    "tree-two-hosts": Answer(("tree-two-hosts",), counterfacts=("algorithm=Ring",)),
    "ring-low": Answer(law=("is_it_good", "fails")),
    "latency-linear-in-ranks": Answer(("latency-linear-in-ranks",), counterfacts=("algorithm=Tree",)),
    "env-not-on-remote-node": Answer(("env-not-on-every-host",), counterfacts=("same_environment=on",)),
    "test-unreliable": Answer(("test-unreliable",), counterfacts=("op=all_reduce",)),
    "library-bug-fixed": Answer(("library-bug",), counterfacts=("nccl_version=2.27.3",)),
    "nic-affinity": Answer(("nic-affinity",), counterfacts=("near_nics=on",)),
    "unknown": Answer(law=("drop_at_large", "cannot_tell")),
}
ANSWERS["tree-two-nodes"] = ANSWERS["tree-two-hosts"]


def load(root: Path) -> list[dict[str, Any]]:
    """Every question, by its file's name."""
    return [json.loads(path.read_text()) for path in sorted((root / QUESTIONS).glob("[0-9]*.json"))]


def arguments(question: Mapping[str, Any]) -> list[str]:
    """The options of `busbw explain` that say what the asker said."""
    setup, numbers = question["setup"], question["numbers"]
    return ["--symptom", question["question"], *_of_setup(setup), *_of_numbers(setup, numbers)]


def _of_setup(setup: Mapping[str, Any]) -> Iterator[str]:
    for name in ("gpus", "intra", "net", "algo"):
        if name in setup:
            yield from ("--setup", str(setup[name]))
    if isinstance(setup.get("nodes"), int):
        yield from ("--hosts", str(setup["nodes"]))
    if "nic_Gbs" in setup:
        yield from ("--nic", f"{setup['nic_Gbs']}Gb/s")
    if "nics_per_node" in setup:
        yield from ("--nics", str(setup["nics_per_node"]))
    if "algo" in setup:
        yield from ("--fact", f"algorithm={setup['algo'].split()[0]}")
    if "forced" in setup:
        yield from ("--fact", f"forced_protocol={setup['forced']}")
    if "op" in setup:
        yield from ("--op", setup["op"])
    if "nranks" in setup:
        yield from ("-N", str(setup["nranks"]))


def _of_numbers(setup: Mapping[str, Any], numbers: Mapping[str, Any]) -> Iterator[str]:
    size = setup.get("largest_size") or setup.get("size_bytes")
    if size is not None:
        yield from ("--size", str(size).replace(" MB", "MiB"))  # nccl-tests' MB, as askers write it
    if "algbw_GBs" in numbers:
        yield from ("--algbw", f"{numbers['algbw_GBs']}GB/s")
    elif "busbw_GBs" in numbers:
        value = numbers["busbw_GBs"]
        yield from ("--busbw", f"{max(value) if isinstance(value, list) else value}GB/s")
    for name in ("ring_GBs", "single_node_GBs", "busbw_at_46MB"):
        if name in numbers:
            yield from ("--busbw", f"{numbers[name]}GB/s")
    if "reported_Gbs" in numbers:
        yield from ("--busbw", f"{numbers['reported_Gbs']}Gb/s")
    if "ring_GBs" in numbers:
        yield from ("--fact", "algorithm=Ring")
    if "single_node_GBs" in numbers:
        yield from ("--hosts", "1")
    for name, fact, unit in (
        ("avg_busbw", "avg_busbw", "GB/s"),
        ("raw_write_Gbs", "raw_rate", "Gb/s"),
        ("kink_at_bytes", "kink_at", "B"),
        ("before_GBs", "before", "GB/s"),
        ("after_GBs", "after", "GB/s"),
        ("out_of_bounds", "wrong", ""),
        ("shared_memory_needed", "shared_memory_needed", "B"),
        ("available", "shared_memory_available", "B"),
    ):
        if name in numbers:
            yield from ("--fact", f"{fact}={numbers[name]}{unit}")


def matching(answer: Answer, findings: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The findings that give this answer."""
    found = []
    for finding in findings:
        codes = {cause["code"] for cause in finding["causes"]}
        if codes & set(answer.causes) or (finding["law"], finding["verdict"]) == answer.law:
            found.append(finding)
    return found


def how(answer: Answer, finding: Mapping[str, Any]) -> str:
    """Named outright, or among rivals, with the facts that would decide."""
    others = [cause["code"] for cause in finding["causes"] if cause["code"] not in answer.causes]
    needs = [need["fact"] for need in finding["needs"]]
    if answer.law is not None:
        return "said" if finding["verdict"] != "cannot_tell" else "cannot tell, and says so"
    asks = f"asks for {', '.join(needs)}" if needs else ""
    if finding["verdict"] == "cannot_tell" or others:
        among = f"among {len(others) + 1} causes" if others else "suspected"
        return f"{among}{'; ' + asks if asks else ''}"
    return "named"
