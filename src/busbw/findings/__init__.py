"""explain(): is it good, and why not better? One file a law or a diagnosis; findings in the order of their importance."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.core.finding import SEVERITIES, Facts, Finding
from busbw.core.measurement import Results
from busbw.core.topology import Topology
from busbw.findings._evidence import Evidence
from busbw.findings._facts import facts_of_results
from busbw.findings._law import LAWS, Law
from busbw.findings._nccl_log import facts_of_log, facts_of_topology
from busbw.findings._page import fact_text, page, place_text, verdict
from busbw.findings._symptoms import facts_of as describe

__all__ = [
    "LAWS",
    "Evidence",
    "Facts",
    "Finding",
    "Law",
    "complete_facts",
    "describe",
    "explain",
    "fact_text",
    "facts_of_log",
    "facts_of_topology",
    "page",
    "place_text",
    "verdict",
]

_VERDICTS = ("fails", "cannot_tell", "holds")


def explain(
    results: Results | Sequence[Results] = (), facts: Facts | None = None, *, machine: Topology | None = None
) -> list[Finding]:
    """What the rows and facts say, the most important first.

    Facts that are not given are taken from what the files say, then from the user's words (`facts.symptoms`); what is
    still unknown stays so. With a `machine` (calibrated, or a preset) plateaus are compared with what it can do.
    """
    every = [results] if isinstance(results, Results) else list(results)
    known = complete_facts(every, facts or Facts())
    rows = [row for part in every for row in part.measurements]
    evidence = Evidence(rows, known, [run for part in every for run in part.runs], machine)
    return sorted((finding for law in LAWS for finding in law.find(evidence, known)), key=_importance)


def complete_facts(results: Sequence[Results], facts: Facts) -> Facts:
    """The facts given, those that the files hold, and those in the user's words, in this order of precedence."""
    known = facts.or_else(facts_of_results(results))
    for text in facts.symptoms:
        known = Facts(known.or_else(describe(text, f"said: {text!r}")).known, known.symptoms)
    hosts, per_host = known.number("hosts"), known.number("gpus_per_host")
    if hosts and per_host and "world_size" not in known.known:
        source = ", ".join(dict.fromkeys((known.source("hosts"), known.source("gpus_per_host"))))
        known = known.having("world_size", hosts * per_host, source)
    return known


def _importance(finding: Finding) -> tuple[int, float, int]:
    return SEVERITIES.index(finding.severity), -finding.weight, _VERDICTS.index(finding.verdict)
