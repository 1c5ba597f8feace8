"""`busbw price`: the bill of a training step for a model and a parallel plan, before it runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from busbw.errors import FileError, UsageError
from busbw.units import GB, format_size, format_time

if TYPE_CHECKING:
    from busbw.core.bill import Bill, Bills, Line
    from busbw.core.plan import Model
    from busbw.pricing.sync import Sync

MOST_LINES = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, plan, world, and what the seconds rest on."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a known model (gpt2, llama3-8b, resnet50, ...; `list` prints all), a config.json, a .safetensors file or a "
        "folder of them, a CSV of name,shape,dtype, or package.module:function that returns an nn.Module",
    )
    parser.add_argument(
        "--plan", default="ddp", help="such as ddp, fsdp2, zero1, hsdp=2x4, or dp=8,tp=4,pp=2; `list` prints every word"
    )
    parser.add_argument("-N", "--world", type=int, default=8, metavar="N", help="ranks (default 8)")
    parser.add_argument("--rank", type=int, default=0, help="whose bill (default 0)")
    parser.add_argument(
        "--hosts", type=int, default=1, help="hosts that the ranks fill one after the other (default 1)"
    )
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="what the seconds rest on: results, a folder of them, a cost model of busbw fit, or alpha=5us,bandwidth=20GB/s",
    )
    parser.add_argument("--dtype", help="the model's floating-point dtype (default: its own)")
    parser.add_argument("--micro-batch", type=int, metavar="B", help="samples of a rank in one micro-step (default 1)")
    parser.add_argument("--sequence", type=int, metavar="T", help="tokens of a sample (default: the model's)")
    parser.add_argument("--accumulate", type=int, metavar="K", help="micro-steps for one optimizer step (default 1)")
    parser.add_argument("--clip", action="store_true", default=None, help="clip_grad_norm_ before the optimizer")
    parser.add_argument(
        "--step", default="steady", help="which step to print: constructor, first, second, steady, or all"
    )
    parser.add_argument(
        "--save-model", metavar="FILE", help="write the model as JSON or CSV; it is read back without torch"
    )
    parser.add_argument("--json", action="store_true", help="the bill as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="every line of the bill")


def run(args: argparse.Namespace) -> int:
    """Read, price, print."""
    from busbw.pricing.readers import read_model
    from busbw.pricing.step import with_dtype

    if "list" in (args.model, args.plan):
        sys.stdout.writelines(f"{line}\n" for line in _lists(args.model == "list", args.plan == "list"))
        return 0
    model = read_model(args.model)
    if args.dtype:
        model = with_dtype(model, args.dtype)
    if args.save_model:
        _save(model, args.save_model)
    bills, extra = _price(args, model)
    if args.json:
        json.dump({**bills.to_json(), **extra}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _text(args, model, bills))
    return 0


def _price(args: argparse.Namespace, model: Model) -> tuple[Bills, dict[str, Any]]:
    from busbw.pricing import price
    from busbw.pricing.profile import read_profile

    profile, words, _ = read_profile(args.profile) if args.profile else (None, None, ())
    settings = {name: getattr(args, name) for name in ("micro_batch", "sequence", "accumulate", "clip")}
    bills = price(model, args.plan, args.world, profile, rank=args.rank, hosts=args.hosts, settings=settings)
    args.profile_words, args.profile_read = words, profile
    return bills, {}


# --- text ------------------------------------------------------------------------------------------------------------


def _text(args: argparse.Namespace, model: Model, bills: Bills) -> Iterator[str]:
    facts = bills.facts
    dtypes = ", ".join(dict.fromkeys(tensor.dtype for tensor in model.parameters))
    yield (
        f"# {model.name}: {len(model.parameters)} tensors, {model.count / 1e6:.1f} M parameters ({dtypes}), "
        f"{len(model.buffers)} buffers; {model.source}"
    )
    mesh = " x ".join(f"{name}={'x'.join(map(str, factors))}" for name, factors in facts["mesh"].items())
    yield f"# plan {facts['plan']}: {mesh} on {bills.world_size} ranks; the bill of rank {bills.rank}"
    yield f"# seconds: {args.profile_words or 'none (--profile results.jsonl, or alpha=5us,bandwidth=20GB/s)'}"
    names = list(bills.steps) if args.step == "all" else [args.step]
    for name in names:
        if name not in bills.steps:
            raise UsageError(f"--step {name!r}: choose from {', '.join(bills.steps)}, all")
        yield "#"
        yield from _bill(bills.steps[name], args.verbose)
    if args.profile_read is not None:
        yield from _sync(args, model, bills)
    for note in bills.notes:
        yield f"# note: {note}"


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
    time = "" if totals.seconds is None else f", {format_time(totals.seconds)} of calls"
    yield (
        f"# total: {totals.calls} calls, S {format_size(totals.size_bytes)}, a rank sends "
        f"{totals.sent_bytes_per_rank / GB:.4g} GB{time}"
    )
    yield from _links(lines)


def _line(line: Line) -> str:
    one = "" if line.seconds is None else format_time(line.seconds)
    every = "" if line.seconds is None else format_time(line.seconds * line.count)
    beside = " (overlaps)" if line.overlappable else ""
    link = f" [{line.notes['link']}]" if "link" in line.notes else ""
    return (
        f"  {line.phase:<11} {line.call.collective:<17} {line.group:<8} {line.call.world_size:>4} {line.count:>5} "
        f"{_size(line.call.size_bytes):>10} {line.call.dtype or '':<9} {_size(line.sent_bytes_per_rank):>10} "
        f"{one:>9} {every:>9}  {line.name}{link}{beside}"
    )


def _size(size_bytes: int) -> str:
    return format_size(size_bytes)


def _links(lines: Sequence[Line]) -> Iterator[str]:
    from busbw.pricing.links import sent_by_link

    if any("link" in line.notes for line in lines):
        sent = sent_by_link(lines)
        yield f"# links: a rank sends {sent['inside'] / GB:.4g} GB inside its host, {sent['across'] / GB:.4g} GB across hosts"


def _sync(args: argparse.Namespace, model: Model, bills: Bills) -> Iterator[str]:
    from busbw.pricing.sync import floor, small_tensors, ways

    buckets = [line.call.count or 0 for line in bills.steady.lines for _ in range(line.count) if _is_gradient(line)]
    dtypes = list(dict.fromkeys([model.trainable[0].dtype, "bfloat16"]))
    n = next((line.call.world_size for line in bills.steady.lines if _is_gradient(line)), 0)
    if n < 2:
        return
    yield "#"
    yield f"# gradients of {model.count / 1e6:.1f} M parameters over {n} ranks, one call after the other"
    yield f"# {'':<26} {'dtype':<9} {'calls':>5} {'S':>10} {'time':>9} {'95 %':>21} {'latency':>9} {'bandwidth':>9}"
    for way in ways(model, buckets, n, args.profile_read, dtypes):
        yield _way(way)
    low, high = floor(n, args.profile_read)
    small, every = len(small_tensors(model)), len(model.trainable)
    share = 100 * sum(small_tensors(model)) / max(sum(tensor.count for tensor in model.trainable), 1)
    yield (
        f"# a call of 4 to 64 KiB takes {format_time(low)} to {format_time(high)}: {small} of the {every} tensors hold "
        f"{share:.2g} % of the bytes and cost {format_time(small * low)} to {format_time(small * high)} one by one, all "
        f"{every} pay {format_time(every * low)} to {format_time(every * high)} of latency"
    )
    if len(dtypes) > 1:
        yield (
            f"# under autocast gradients stay {dtypes[0]}: twice the bytes of {dtypes[1]}, unless the model itself or a "
            "compression hook is bfloat16"
        )


def _is_gradient(line: Line) -> bool:
    return line.call.collective == "all_reduce" and line.name.startswith("bucket")


def _way(way: Sync) -> str:
    between = f"{format_time(way.low)} to {format_time(way.high)}"
    return (
        f"  {way.how:<26} {way.dtype:<9} {way.calls:>5} {_size(way.size_bytes):>10} {format_time(way.seconds):>9} "
        f"{between:>21} {format_time(way.latency_s):>9} {format_time(way.bandwidth_s):>9}"
    )


def _lists(models: bool, plans: bool) -> Iterator[str]:
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
                yield f"    {option.name}={'none' if option.default is None else option.default}: {option.means}"


def _save(model: Model, path: str) -> None:
    from busbw.pricing.readers import to_csv

    text = to_csv(model) if path.endswith(".csv") else json.dumps(model.to_json()) + "\n"
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error
