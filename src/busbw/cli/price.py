"""`busbw price`: the bill of a training step for a model and a parallel plan, before it runs."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw.errors import FileError, UsageError

if TYPE_CHECKING:
    from busbw.core.bill import Bills
    from busbw.core.plan import Model
    from busbw.pricing.against import Difference
    from busbw.pricing.buckets import Cap
    from busbw.pricing.mesh import Mesh
    from busbw.pricing.profile import Profile
    from busbw.pricing.suggest import Suggestion
    from busbw.pricing.sync import Sync
    from busbw.pricing.timeline import Timeline, Work


@dataclass
class Report:
    """Everything that one call of the command found out."""

    model: Model
    mesh: Mesh
    bills: Bills
    profile: Profile | None = None
    profile_words: str | None = None
    floor: tuple[float, float] | None = None
    timeline: Timeline | None = None
    sync: list[Sync] | None = None
    curve: list[Cap] | None = None
    suggestions: list[Suggestion] | None = None
    other: Report | None = None
    against: str | None = None
    differences: list[Difference] | None = None


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
        help="what the seconds rest on: results, a folder of them, a cost model of busbw fit, a machine "
        "(what busbw calibrate wrote, or a preset such as dgx-h100), or alpha=5us,bandwidth=20GB/s",
    )
    parser.add_argument(
        "--profile-across",
        metavar="FILE",
        help="the same for groups that span hosts (--hosts); --profile is then inside one",
    )
    parser.add_argument("--dtype", help="the model's floating-point dtype (default: its own)")
    parser.add_argument(
        "--autocast", metavar="DTYPE", help="what activations are computed in, where the model stays as it is"
    )
    parser.add_argument("--micro-batch", type=int, metavar="B", help="samples of a rank in one micro-step (default 1)")
    parser.add_argument("--sequence", type=int, metavar="T", help="tokens of a sample (default: the model's)")
    parser.add_argument("--accumulate", type=int, metavar="K", help="micro-steps for one optimizer step (default 1)")
    parser.add_argument("--clip", action="store_true", default=None, help="clip_grad_norm_ before the optimizer")
    work = parser.add_mutually_exclusive_group()
    work.add_argument(
        "--compute-ms", type=float, metavar="MS", help="forward and backward of one step on one rank, to overlap with"
    )
    work.add_argument(
        "--tflops", type=float, metavar="F", help="what one rank computes, in 1e12 FLOP a second, for the same"
    )
    parser.add_argument(
        "--contention",
        type=float,
        metavar="C",
        help="seconds of computation that each hidden second of communication costs (default: as the profile's rows of "
        "bench --with-compute have it, else 0)",
    )
    parser.add_argument("--compare", metavar="PLAN2", help="another plan beside it")
    parser.add_argument(
        "--against", metavar="CAPTURE", help="what really ran (busbw capture --json): name every difference"
    )
    parser.add_argument(
        "--step", default="steady", help="which step to print: constructor, first, second, steady, or all"
    )
    parser.add_argument(
        "--save-model", metavar="FILE", help="write the model as JSON or CSV; it is read back without torch"
    )
    parser.add_argument("--json", action="store_true", help="the bill as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="every line of the bill")


def run(args: argparse.Namespace) -> int:
    """Read, price, print; with --against the exit status is 1 where plan and job differ."""
    from busbw.cli.price_text import lists, text
    from busbw.pricing.readers import read_model
    from busbw.pricing.step import with_dtype

    if "list" in (args.model, args.plan):
        sys.stdout.writelines(f"{line}\n" for line in lists(args.model == "list", args.plan == "list"))
        return 0
    model = read_model(args.model)
    if args.dtype:
        model = with_dtype(model, args.dtype)
    if args.save_model:
        _save(model, args.save_model)
    report = _report(args, model, args.plan)
    if args.compare:
        report.other = _report(args, model, args.compare)
    if args.against:
        _compare_with_capture(report, args.against)
    if args.json:
        json.dump(_json(report), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(report, args.step, args.verbose))
    return 1 if report.differences else 0


def _report(args: argparse.Namespace, model: Model, plan: str) -> Report:
    from busbw.core.bill import STEADY
    from busbw.pricing.buckets import bucket_curve, has_buckets
    from busbw.pricing.mesh import make_mesh
    from busbw.pricing.profile import ByLink, read_profile
    from busbw.pricing.step import bills_of, run_steps
    from busbw.pricing.suggest import suggestions
    from busbw.pricing.timeline import play

    profile, words, notes = read_profile(args.profile) if args.profile else (None, None, ())
    if args.profile_across:
        if profile is None or args.hosts < 2 or args.world % args.hosts:
            raise UsageError("--profile-across needs --profile (inside a host) and --hosts, which divide the ranks")
        across, other, more = read_profile(args.profile_across)
        profile, words = ByLink(profile, across, args.world // args.hosts), f"{words} inside a host; {other} across"
        notes = (*notes, *more)
    names = ("micro_batch", "sequence", "accumulate", "clip")
    settings = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.autocast is not None:
        settings["dtype"] = args.autocast
    mesh, work = make_mesh(plan, args.world), _work(args, profile)
    if work is not None and profile is None:
        raise UsageError("--compute-ms and --tflops need --profile: without it no call takes any time")
    priced = run_steps(model, mesh, args.rank, settings)
    bills = bills_of(priced, profile, args.rank, args.hosts, words, notes)
    report = Report(model, mesh, bills, profile, words)
    report.suggestions = suggestions(model, mesh, profile, work, settings)
    if profile is not None:
        if work is not None:
            report.timeline = play(priced.steps[STEADY], profile, work, priced.bubble)
        _synchronisation(report, profile)
        if has_buckets(mesh):
            report.curve = bucket_curve(model, mesh, profile, work, settings)
    return report


def _synchronisation(report: Report, profile: Profile) -> None:
    """The gradients' all-reduces one by one, in buckets, in one call; nothing where the plan has no such buckets."""
    from busbw.pricing.profile import of_group
    from busbw.pricing.sync import floor, ways

    lines = [
        line
        for line in report.bills.steady.lines
        if line.call.collective == "all_reduce" and line.name.startswith("bucket")
    ]
    if not lines or lines[0].call.world_size < 2:
        return
    n = lines[0].call.world_size
    buckets = [line.call.count or 0 for line in lines for _ in range(line.count)]
    dtypes = list(dict.fromkeys([report.model.trainable[0].dtype, "bfloat16"]))
    profile = of_group(profile, lines[0].group_ranks)
    report.sync = ways(report.model, buckets, n, profile, dtypes)
    report.floor = floor(n, profile)


def _work(args: argparse.Namespace, profile: Profile | None) -> Work | None:
    from busbw.pricing.timeline import Work

    for name, value in (("--compute-ms", args.compute_ms), ("--tflops", args.tflops)):
        if value is not None and not 0 < value < 1e12:
            raise UsageError(f"{name} {value:g}: must be a number above 0")
    contention = args.contention
    if contention is None:
        measured = getattr(profile, "contention", None)
        contention = 0.0 if measured is None else measured.share
    if not 0 <= contention <= 10:
        raise UsageError(f"--contention {contention:g}: must be a number from 0 to 10")
    if args.compute_ms is not None:
        return Work(step_s=args.compute_ms * 1e-3, contention=contention)
    return None if args.tflops is None else Work(flops_per_s=args.tflops * 1e12, contention=contention)


def _compare_with_capture(report: Report, path: str) -> None:
    from busbw.pricing.against import differences

    try:
        captured = _captured(path, report.bills.rank)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise FileError(f"{path}: not a bill ({error}); make one with busbw capture --json") from error
    if captured.rank != report.bills.rank:
        raise UsageError(f"{path} is the bill of rank {captured.rank}: price that one with --rank {captured.rank}")
    report.against, report.differences = path, differences(report.bills, captured)


def _captured(path: str, rank: int) -> Bills:
    """The bill of what `busbw capture --json` printed, or of a capture itself (a folder, or one rank's .jsonl)."""
    from busbw.core.bill import Bills

    if Path(path).is_dir() or path.endswith(".jsonl"):
        from busbw.traces import job_bills

        ranks = job_bills([path])
        return ranks[rank] if rank in ranks else next(iter(ranks.values()))
    return Bills.from_json(json.loads(Path(path).read_text(encoding="utf-8")))


def _json(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = {
        **report.bills.to_json(),
        "timeline": None if report.timeline is None else report.timeline.to_json(),
        "sync": None if report.sync is None else [way.to_json() for way in report.sync],
        "bucket_curve": None if report.curve is None else [cap.to_json() for cap in report.curve],
        "suggestions": [each.to_json() for each in report.suggestions or ()],
    }
    if report.other is not None:
        found["compared_with"] = _json(report.other)
    if report.differences is not None:
        found["differences"] = [each.to_json() for each in report.differences]
    return found


def _save(model: Model, path: str) -> None:
    from busbw.pricing.readers import to_csv

    text = to_csv(model) if path.endswith(".csv") else json.dumps(model.to_json()) + "\n"
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error
