"""What `busbw price` prints: the bill as a table, then what it costs and what would cost less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from busbw.errors import UsageError
from busbw.units import format_decimal, format_size, format_time

if TYPE_CHECKING:
    from busbw.cli.price import Report
    from busbw.core.bill import Bill, Line
    from busbw.pricing.buckets import Cap
    from busbw.pricing.sync import Sync
    from busbw.pricing.timeline import Timeline

MOST_LINES = 24
MOST_NOTES = 8
MOST_DIFFERENCES = 40


def text(report: Report, step: str, verbose: bool) -> Iterator[str]:
    """Every line, in order."""
    model, bills = report.model, report.bills
    dtypes = ", ".join(dict.fromkeys(tensor.dtype for tensor in model.parameters))
    buffers = f", {len(model.buffers)} buffers" if model.buffers else ""
    yield f"# {model.name}: {len(model.parameters)} tensors, {_millions(model.count)} parameters ({dtypes}){buffers}; {model.source}"
    mesh = " x ".join(f"{name}={'x'.join(map(str, factors))}" for name, factors in bills.facts["mesh"].items())
    settings = bills.facts["settings"]
    sample = (
        f"{settings['micro_batch']} x {settings['sequence']} tokens"
        if model.sample == "token"
        else f"{settings['micro_batch']} images"
    )
    steps = f", {settings['accumulate']} micro-steps" if settings["accumulate"] > 1 else ""
    yield f"# plan {bills.facts['plan']}: {mesh} on {bills.world_size} ranks, {sample} a micro-step{steps}; the bill of rank {bills.rank}"
    yield f"# seconds: {report.profile_words or 'none (--profile results.jsonl, or alpha=5us,bandwidth=20GB/s)'}"
    for name in list(bills.steps) if step == "all" else [step]:
        if name not in bills.steps:
            raise UsageError(f"--step {name!r}: choose from {', '.join(bills.steps)}, all")
        yield "#"
        yield from _bill(bills.steps[name], verbose)
    if report.timeline is not None:
        yield from _timeline(report.timeline)
    if report.sync is not None:
        yield from _sync(report)
    if report.curve is not None:
        yield from _curve(report.curve)
    if report.other is not None:
        yield from _other(report, report.other)
    if report.differences is not None:
        yield from _differences(report, verbose)
    if report.suggestions:
        yield "#"
        yield from (f"# try {each.text}" for each in report.suggestions[: None if verbose else 5])
    shown = bills.notes if verbose else bills.notes[:MOST_NOTES]
    yield from (f"# note: {note}" for note in shown)
    if len(shown) < len(bills.notes):
        yield f"# note: {len(bills.notes) - len(shown)} more notes (-v shows them)"


def _millions(count: int) -> str:
    if count < 1e5:
        return str(count)
    return f"{count / 1e6:.1f} M" if count < 10e9 else f"{count / 1e9:.1f} G"


def _bill(bill: Bill, verbose: bool) -> Iterator[str]:
    yield f"# {bill.step} step" if bill.step != "constructor" else "# constructor, before the first step"
    if not bill.lines:
        yield "  nothing is communicated"
        return
    yield (
        f"# {'phase':<11} {'collective':<17} {'group':<8} {'N':>4} {'count':>5} {'S':>10} {'dtype':<9} {'sent/rank':>10} "
        f"{'one call':>9} {'all':>9}  for"
    )
    lines = list(bill.lines)
    shown = lines if verbose or len(lines) <= MOST_LINES else [*lines[: MOST_LINES // 2], *lines[-MOST_LINES // 2 :]]
    for index, line in enumerate(shown):
        if len(shown) < len(lines) and index == MOST_LINES // 2:
            yield f"  ... {len(lines) - len(shown)} more lines (-v shows them)"
        yield _line(line)
    totals = bill.totals()
    time = ""
    if totals.seconds is not None:
        latency = sum(line.estimate.latency_s * line.count for line in lines if line.estimate is not None)
        time = f", {format_time(totals.seconds)} of calls ({format_time(latency)} of it latency)"
    yield (
        f"# total: {totals.calls} calls, S {format_decimal(totals.size_bytes)}, a rank sends "
        f"{format_decimal(totals.sent_bytes_per_rank)}{time}"
    )
    yield from _by_group(lines)
    yield from _links(lines)


def _line(line: Line) -> str:
    one = "" if line.seconds is None else format_time(line.seconds)
    every = "" if line.seconds is None else format_time(line.seconds * line.count)
    link = f" [{line.notes['link']}]" if "link" in line.notes else ""
    return (
        f"  {line.phase:<11} {line.call.collective:<17} {line.group:<8} {line.call.world_size:>4} {line.count:>5} "
        f"{format_size(line.call.size_bytes):>10} {line.call.dtype or '':<9} {format_size(line.sent_bytes_per_rank):>10} "
        f"{one:>9} {every:>9}  {line.name}{link}{' (overlaps)' if line.overlappable else ''}"
    )


def _by_group(lines: Sequence[Line]) -> Iterator[str]:
    """Totals of each collective on each group, where there are several."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.group, line.call.collective), []).append(line)
    if len(groups) < 2:
        return
    for (group, collective), same in groups.items():
        calls = sum(line.count for line in same)
        sent = format_decimal(sum(line.sent_bytes_per_rank * line.count for line in same))
        timed = all(line.seconds is not None for line in same)
        time = f", {format_time(sum((line.seconds or 0) * line.count for line in same))}" if timed else ""
        yield f"#   {collective} over {group}: {calls} calls, {sent} sent a rank{time}"


def _links(lines: Sequence[Line]) -> Iterator[str]:
    from busbw.pricing.links import sent_by_link

    if any("link" in line.notes for line in lines):
        sent = sent_by_link(lines)
        yield f"# links: a rank sends {format_decimal(sent['inside'])} inside its host, {format_decimal(sent['across'])} across hosts"


def _timeline(timeline: Timeline) -> Iterator[str]:
    yield "#"
    bubble = f" + {format_time(timeline.bubble_s)} bubble" if timeline.bubble_s else ""
    if timeline.contention_s:
        bubble = f" + {format_time(timeline.contention_s)} contention{bubble}"
    yield (
        f"# a steady step takes {format_time(timeline.step_s)}: {format_time(timeline.compute_s)} computation + "
        f"{format_time(timeline.exposed_s)} exposed of {format_time(timeline.communication_s)} communication{bubble}; "
        f"{100 * timeline.lost:.1f} % of it is lost"
    )
    worst = [f"{format_time(seconds)} in {where}" for where, seconds in timeline.exposed_by[:3] if seconds > 0]
    if worst:
        yield f"# exposed: {', '.join(worst)}"


def _sync(report: Report) -> Iterator[str]:
    from busbw.pricing.sync import small_tensors

    ways, model = report.sync or [], report.model
    yield "#"
    yield f"# the gradients of {_millions(model.count)} parameters, one call after the other"
    yield f"# {'':<26} {'dtype':<9} {'calls':>5} {'S (MB)':>9} {'time':>9} {'95 %':>21} {'latency':>9} {'bandwidth':>9}"
    for way in ways:
        yield _way(way)
    types = [way.dtype for way in ways if way.how == "in buckets"]
    if len(types) > 1:
        yield f"# buckets are those of this plan, filled by {types[0]} gradients; other types are what a hook makes of them"
    if report.floor is None:
        return
    low, high = report.floor
    small, every = small_tensors(model), len(model.trainable)
    share = 100 * sum(small) / max(sum(tensor.count for tensor in model.trainable), 1)
    yield (
        f"# a call of 4 to 64 KiB takes {format_time(low)} to {format_time(high)}: {len(small)} of the {every} tensors hold "
        f"{share:.2g} % of the bytes and cost {format_time(len(small) * low)} to {format_time(len(small) * high)} one by one, "
        f"all {every} pay {format_time(every * low)} to {format_time(every * high)} of latency"
    )
    dtypes = list(dict.fromkeys(way.dtype for way in ways))
    if dtypes[0] == "float32" and len(dtypes) > 1:
        yield (
            "# under autocast gradients stay float32, twice the bytes of bfloat16, unless the model itself or a compression "
            "hook is bfloat16"
        )


def _way(way: Sync) -> str:
    between = f"{format_time(way.low)} to {format_time(way.high)}"
    return (
        f"  {way.how:<26} {way.dtype:<9} {way.calls:>5} {way.size_bytes / 1e6:>9.4g} {format_time(way.seconds):>9} "
        f"{between:>21} {format_time(way.latency_s):>9} {format_time(way.bandwidth_s):>9}"
    )


def _curve(curve: Sequence[Cap]) -> Iterator[str]:
    from busbw.pricing.buckets import best_of

    best = best_of(curve)
    yield "#"
    if best.step_s is None:
        yield "# bucket_cap_mb: buckets, all calls one after the other (--compute-ms or --tflops shows what computation hides)"
    else:
        yield f"# bucket_cap_mb: buckets, exposed, step; the best is {best.bucket_cap_mb:g}"
    for cap in curve:
        times = [cap.communication_s] if cap.step_s is None else [cap.exposed_s or 0.0, cap.step_s]
        mark = "  <- best" if cap is best and cap.step_s is not None else ""
        yield f"  {cap.bucket_cap_mb:>5g} {cap.buckets:>5} {' '.join(f'{format_time(time):>9}' for time in times)}{mark}"


def _other(report: Report, other: Report) -> Iterator[str]:
    """Both plans side by side."""
    yield "#"
    plans = (report, other)
    yield f"# {'':<26} {' '.join(f'{each.mesh.text:>24}' for each in plans)}"
    totals = [each.bills.steady.totals() for each in plans]
    rows: list[tuple[str, list[str]]] = [
        ("calls a steady step", [str(each.calls) for each in totals]),
        ("sent a rank", [format_decimal(each.sent_bytes_per_rank) for each in totals]),
    ]
    if all(each.seconds is not None for each in totals):
        rows.append(("communication", [format_time(each.seconds or 0.0) for each in totals]))
    lines = [each.timeline for each in plans if each.timeline is not None]
    if len(lines) == 2:
        rows.append(("exposed", [format_time(each.exposed_s) for each in lines]))
        rows.append(("computation", [format_time(each.compute_s) for each in lines]))
        rows.append(("step", [format_time(each.step_s) for each in lines]))
    yield from (f"  {name:<26} {' '.join(f'{value:>24}' for value in values)}" for name, values in rows)


def _differences(report: Report, verbose: bool) -> Iterator[str]:
    found = report.differences or []
    yield "#"
    if not found:
        steps = ", ".join(report.bills.steps)
        yield f"# {report.against} agrees with the plan, call by call: {steps}"
        return
    yield f"# {report.against} differs from the plan (bytes: what the job does more)"
    shown = found if verbose else found[:MOST_DIFFERENCES]
    for each in shown:
        advice = f" ({each.advice})" if each.advice else ""
        yield f"  {each.step:<11} {each.kind:<8} {each.calls:>+5} calls {each.sent_bytes_per_rank:>+14} B sent  {each.what}{advice}"
    if len(shown) < len(found):
        yield f"  ... {len(found) - len(shown)} more (-v shows them)"


def lists(models: bool, plans: bool) -> Iterator[str]:
    """The models that are known by name, and every word of a plan."""
    from busbw.pricing.family import FAMILIES
    from busbw.pricing.parallelism import ALIASES, PARALLELISMS

    if models:
        for family in FAMILIES:
            types = f" (config.json of model_type {', '.join(family.model_types)})" if family.model_types else ""
            yield f"{family.name}: {', '.join(family.members)}{types}"
    if plans:
        for parallelism in PARALLELISMS:
            others = [alias for alias, name in ALIASES.items() if name == parallelism.name]
            also = f" (also {', '.join(others)})" if others else ""
            yield f"{parallelism.name}{also}: {parallelism.summary}"
            for option in parallelism.options:
                default = "none" if option.default is None else str(option.default).lower()
                yield f"    {option.name}={default}: {option.means}"
