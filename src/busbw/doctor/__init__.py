"""examine(): what on this host costs collectives time? Read-only; one file a question."""

from __future__ import annotations

from busbw.core.finding import Facts
from busbw.doctor._page import page
from busbw.doctor._probe import PROBES, Probe, Seen
from busbw.doctor._report import Report, facts_of_report, importance
from busbw.host.files import COMMANDS, Host

__all__ = ["COMMANDS", "PROBES", "Host", "Probe", "Report", "Seen", "examine", "facts_of_report", "page"]


def examine(host: Host | None = None) -> Report:
    """Ask every probe; nothing is changed, and no more rights are needed than the caller has."""
    host = host or Host()
    seen = [(probe.name, probe.look(host)) for probe in PROBES]
    facts = Facts()
    for _, each in seen:
        facts = facts.or_else(each.facts)
    return Report(
        host.text("/proc/sys/kernel/hostname"),
        str(host.root),
        tuple(sorted((finding for _, each in seen for finding in each.findings), key=importance)),
        facts,
        tuple((name, each.nothing) for name, each in seen if each.nothing),
        tuple(sorted(host.denied)),
    )
