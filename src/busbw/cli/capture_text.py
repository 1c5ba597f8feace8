"""The bill of a captured job, printed: lines, sums, ranks, and what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from busbw.core.bill import Bill, Bills, Line
from busbw.traces.judging import Judged, Profile, advise, judge, size_class, sums
from busbw.units import GB, MICROSECOND, format_size, format_time

MOST_LINES = 24
MOST_SUMS = 10


def text(
    jobs: Mapping[int, Bills], bills: Bills, step: str, profile: Profile | None, words: str, verbose: bool
) -> Iterator[str]:
    """All of it, line by line. `step` is a step's name, or all."""
    facts = bills.facts
    hosts = sorted({str(job.facts.get("host", "?")) for job in jobs.values()})
    yield (
        f"# captured: {len(jobs)} of {bills.world_size} ranks on {', '.join(hosts[:4])}{', ...' if len(hosts) > 4 else ''}; "
        f"torch {facts.get('torch', '?')}; {facts.get('steps', '?')} steps; the bill of rank {bills.rank}"
    )
    yield f"# this machine: {words or 'no --profile, so nothing is said of its latency boundary'}"
    names = list(bills.steps) if step == "all" else [bills.steady.step if step == "steady" else step]
    for name in names:
        yield "#"
        yield from _bill(bills.steps[name], profile, verbose)
    bill = bills.steps[names[-1]]
    if len(bill.lines) > 1:
        yield from _sums("collective", bill, lambda line: line.call.collective)
        yield from _sums("group", bill, lambda line: f"{line.group} (N = {line.call.world_size})")
        yield from _sums("size", bill, size_class)
        yield from _sums("module", bill, lambda line: line.name or "(none)")
    yield from _ranks(jobs)
    yield from _advice(bill, profile)
    for note in bills.notes:
        yield f"# note: {note}"


def _bill(bill: Bill, profile: Profile | None, verbose: bool) -> Iterator[str]:
    yield "# constructor, before the first step" if bill.step == "constructor" else f"# step {bill.step}"
    if not bill.lines:
        yield "  nothing is communicated"
        return
    machine = "" if profile is None else f" {'of machine':>10}"
    yield (
        f"# {'phase':<11} {'collective':<17} {'group':<8} {'N':>4} {'count':>5} {'S':>10} {'dtype':<9} {'sent/rank':>10} "
        f"{'one call':>9} {'waits':>9} {'algbw':>7} {'busbw':>7}{machine}  for"
    )
    rows = judge(bill.lines, profile)
    shown = rows if verbose or len(rows) <= MOST_LINES else (*rows[: MOST_LINES // 2], *rows[-MOST_LINES // 2 :])
    for index, row in enumerate(shown):
        if len(shown) < len(rows) and index == MOST_LINES // 2:
            yield f"  ... {len(rows) - len(shown)} more lines (-v shows them)"
        yield _line(row, profile is not None, verbose)
    if any(row.below_boundary for row in rows):
        count = sum(row.line.count for row in rows if row.below_boundary)
        yield f"# *: below the latency boundary, {count} of {sum(row.line.count for row in rows)} calls: a larger call would cost about the same"
    totals = bill.totals()
    time = "" if totals.seconds is None else f", {format_time(totals.seconds)} in calls"
    yield (
        f"# total: {totals.calls} calls, S {format_size(totals.size_bytes)}, this rank sends "
        f"{totals.sent_bytes_per_rank / GB:.4g} GB{time}"
    )


def _line(row: Judged, with_machine: bool, verbose: bool) -> str:
    line = row.line
    call = line.call
    seconds = line.seconds
    unknown = line.notes.get("size") == "unknown"
    algbw = None if seconds is None or unknown else call.algbw_Bps(seconds)
    busbw = None if seconds is None or unknown else call.busbw_Bps(seconds)
    wait = format_time(float(line.notes["wait_us"]) * MICROSECOND) if "wait_us" in line.notes else "-"
    machine = ""
    if with_machine:
        share = row.share_of_machine
        machine = f" {'-' if share is None else f'{100 * share:.0f} %':>9}{'*' if row.below_boundary else ' '}"
    site = f"  {line.notes.get('call_site', '')}" if verbose else ""
    return (
        f"  {line.phase:<11} {call.collective:<17} {line.group:<8} {call.world_size:>4} {line.count:>5} "
        f"{'?' if unknown else format_size(call.size_bytes):>10} {call.dtype or '-':<9} "
        f"{'?' if unknown else format_size(line.sent_bytes_per_rank):>10} "
        f"{'-' if seconds is None else format_time(seconds):>9} {wait:>9} {_rate(algbw):>7} {_rate(busbw):>7}{machine}  "
        f"{line.name}{site}"
    ).rstrip()


def _rate(rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate / GB:.3g}" if rate >= GB / 1000 else "<0.001"


def _sums(what: str, bill: Bill, key: Callable[[Line], str]) -> Iterator[str]:
    found = sums(bill.lines, key)
    yield "#"
    yield f"# by {what:<33} {'calls':>6} {'S':>10} {'sent/rank':>10} {'time':>9}"
    for name, part in list(found.items())[:MOST_SUMS]:
        time = "-" if part.seconds is None else format_time(part.seconds)
        yield (
            f"  {name:<36} {part.calls:>6} {format_size(part.size_bytes):>10} "
            f"{format_size(part.sent_bytes_per_rank):>10} {time:>9}"
        )
    if len(found) > MOST_SUMS:
        yield f"  ... {len(found) - MOST_SUMS} more"


def _ranks(jobs: Mapping[int, Bills]) -> Iterator[str]:
    """What other ranks pay, where that differs."""
    sent = {rank: job.steady.totals().sent_bytes_per_rank for rank, job in jobs.items()}
    waits = {rank: _wait_s(job.steady) for rank, job in jobs.items()}
    told = [rank for rank in waits if waits[rank] is not None]
    if len(sent) > 1:
        low, high = min(sent, key=lambda rank: sent[rank]), max(sent, key=lambda rank: sent[rank])
        if sent[low] == sent[high]:
            yield f"# every rank sends {format_size(sent[low])} a step"
        else:
            yield f"# ranks send {format_size(sent[low])} (rank {low}) to {format_size(sent[high])} (rank {high}) a step"
    if len(told) > 1:
        least = min(told, key=lambda rank: waits[rank] or 0.0)
        most = max(told, key=lambda rank: waits[rank] or 0.0)
        yield (
            f"# waiting for others a step: {format_time(waits[least] or 0.0)} (rank {least}, for which the others wait) to "
            f"{format_time(waits[most] or 0.0)} (rank {most})"
        )


def _wait_s(bill: Bill) -> float | None:
    waits = [float(line.notes["wait_us"]) * MICROSECOND * line.count for line in bill.lines if "wait_us" in line.notes]
    return sum(waits) if waits else None


def _advice(bill: Bill, profile: Profile | None) -> Iterator[str]:
    found = advise(bill, profile)
    if found:
        yield "#"
        yield "# what to change, with what a step would save at most"
        for advice in found:
            yield f"  {format_time(advice.saved_s):>9}  {advice.text} (from {advice.basis})"
