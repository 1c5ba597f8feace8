"""Facts that results files hold themselves: hosts, devices, versions, transports."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.core.finding import Facts
from busbw.core.measurement import Results


def facts_of_results(results: Sequence[Results]) -> Facts:
    """What the files say of the machine, where they agree."""
    facts = Facts()
    hosts, gpus = set(), set()
    transports: set[str] = set()
    for part in results:
        for launch in part.run.launches:
            ranks = launch.get("ranks")
            listed = ranks.values() if isinstance(ranks, dict) else ranks if isinstance(ranks, list) else ()
            for rank in listed:
                if isinstance(rank, dict):
                    hosts.add(str(rank.get("host", "")))
                    gpus.add(str(rank.get("device", "")))
        for row in part.measurements:
            transports |= set(filter(None, row.labels.get("transport", "").split("+")))
    hosts.discard("")
    gpus.discard("")
    if hosts:
        facts = facts.having("hosts", float(len(hosts)), "the file's list of ranks")
    if len(gpus) == 1:
        facts = facts.having("gpu", gpus.pop(), "the file's list of ranks")
    return _of_transports(facts, transports)


def _of_transports(facts: Facts, transports: set[str]) -> Facts:
    source = "the log's channel lines"
    network = [text for text in transports if text.startswith("NET")]
    if network:
        facts = facts.having("gdr", all("GDRDMA" in text for text in network), source)
    inside = {text.split("/")[0] for text in transports if not text.startswith("NET")}
    if "P2P" in inside and "SHM" not in inside:
        facts = facts.having("p2p", True, source)
    elif "SHM" in inside and "P2P" not in inside:
        facts = facts.having("p2p", False, source)
    return facts
