"""`busbw explain`: is it good, and why not better?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from busbw.cli.selection import asked_ops
from busbw.core.call import Call
from busbw.core.collective import find_collective
from busbw.core.finding import FACT_KINDS, Facts, parse_facts
from busbw.core.measurement import Measurement, Results, Run
from busbw.doctor import facts_of_report
from busbw.errors import FileError, UsageError
from busbw.findings import complete_facts, describe, explain, facts_of_log, facts_of_topology, page
from busbw.findings.machines import find_machine
from busbw.formats._selection import read_selected
from busbw.units import format_size, format_time, parse_rate, parse_size, parse_time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, numbers by hand, facts."""
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="results of any format that we read; - is standard input"
    )
    hand = parser.add_argument_group("a number by hand")
    hand.add_argument("--op", help="the collective (with FILE: only this one)")
    hand.add_argument("-N", "--world-size", type=int, help="ranks (with FILE: where it does not say)")
    hand.add_argument("--size", help="bytes of the whole tensor, such as 256MiB")
    hand.add_argument("--algbw", help="algorithm bandwidth, such as 250GB/s")
    hand.add_argument("--busbw", help="bus bandwidth")
    hand.add_argument("--time", help="time of a call, such as 1.2ms")
    add_fact_options(parser)
    parser.add_argument(
        "--machine-file",
        metavar="MACHINE",
        help="a machine to compare with: the TOML of busbw calibrate, or a preset such as dgx-h100",
    )
    parser.add_argument("--json", action="store_true", help="findings as a JSON list")
    parser.add_argument("-v", "--verbose", action="store_true", help="every number with its place")


def add_fact_options(parser: argparse.ArgumentParser) -> None:
    """What is known beside the rows; `busbw report` has the same."""
    facts = parser.add_argument_group("facts; what is not given and not in the files stays unknown")
    facts.add_argument("--hosts", help="hosts that the ranks are on")
    facts.add_argument("--machine", help="a known machine, such as dgx-h100")
    facts.add_argument("--peak", help="what one wire carries one way, such as 50GB/s")
    facts.add_argument("--nic", help="rate of one NIC, such as 200Gb/s")
    facts.add_argument("--nics", help="NICs of a host that take part")
    facts.add_argument(
        "--fact", action="append", default=[], metavar="NAME=VALUE", help="any fact, such as gdr=on, acs=off"
    )
    facts.add_argument(
        "--setup", action="append", default=[], metavar="TEXT", help="the machine in words: '2x 8 A100, RoCE'"
    )
    facts.add_argument("--symptom", action="append", default=[], metavar="TEXT", help="what is wrong, in your words")
    facts.add_argument("--nccl-log", action="append", default=[], metavar="FILE", help="a log with NCCL_DEBUG lines")
    facts.add_argument(
        "--topology",
        action="append",
        default=[],
        metavar="FILE",
        help="output of nvidia-smi topo -m, or NCCL's topology XML",
    )
    facts.add_argument(
        "--doctor",
        action="append",
        default=[],
        metavar="FILE",
        help="a report of busbw doctor --json, one for each host",
    )


def run(args: argparse.Namespace) -> int:
    """Read, explain, print; 2 when a file could not be read, 1 when data was wrong."""
    facts = given_facts(args)
    ops = asked_ops(args.op) if args.files else ()
    worlds = () if args.world_size is None or not args.files else (args.world_size,)
    results: list[Results] = []
    failures: list[FileError] = []
    for path in args.files:
        try:
            results.append(read_selected(path, ops, worlds))
        except FileError as error:
            failures.append(error)
    facts = facts_of_files(args, args.files, facts)
    if not args.files:
        results, facts = by_hand(args, facts)
    elif typed := [f"--{name}" for name in ("size", "algbw", "busbw", "time") if getattr(args, name) is not None]:
        raise UsageError(f"{', '.join(typed)}: a number by hand stands alone; with FILE its rows are explained")
    if not any(part.measurements for part in results) and not facts.known and not facts.symptoms:
        for failure in failures:
            sys.stderr.write(f"busbw explain: error: {failure}\n")
        if failures:
            return 2
        raise UsageError(
            "nothing to explain: give a FILE, a number (--op, -N, --size and --algbw), a --fact or a --symptom"
        )
    machine = None
    if args.machine_file is not None:
        from busbw.topologies import read_topology

        machine = read_topology(args.machine_file)
    found = explain(results, facts, machine=machine)
    if args.json:
        json.dump([finding.to_json() for finding in found], sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(page(found, results, complete_facts(results, facts), args.verbose))
    for failure in failures:
        sys.stderr.write(f"busbw explain: error: {failure}\n")
    return 2 if failures else 0


def given_facts(args: argparse.Namespace) -> Facts:
    """The facts of the options."""
    facts = parse_facts(args.fact)
    facts = Facts(facts.known, tuple(args.symptom))
    options = (("hosts", "hosts", args.hosts), ("machine", "machine", args.machine), ("peak", "peak", args.peak))
    for name, option, text in (*options, ("nic_rate", "nic", args.nic), ("nics", "nics", args.nics)):
        if text is not None:
            try:
                value = FACT_KINDS[name].parse(name, text)
            except UsageError as error:
                raise UsageError(str(error).replace(f"--fact {name}=", f"--{option} ")) from error
            facts = facts.having(name, value, f"--{option}")
    for text in args.setup:
        facts = facts.or_else(describe(text, f"--setup {text!r}"))
    if facts.text("machine"):
        find_machine(facts.text("machine"))  # raises, with the choices
    return facts


def facts_of_files(args: argparse.Namespace, files: Sequence[str], facts: Facts) -> Facts:
    """The facts given, then those of --nccl-log, of --topology, and of log lines in the results themselves."""
    for path in args.nccl_log:
        facts = facts.or_else(facts_of_log(_log(path), path))
    for path in args.topology:
        told = facts_of_topology(_text(path), path)
        if not told.known:
            raise FileError(f"{path}: neither the matrix of nvidia-smi topo -m nor an NCCL topology with GPUs or NICs")
        facts = facts.or_else(told)
    for path in args.doctor:
        facts = facts.or_else(facts_of_report(_text(path), path))
    for path in files:
        if path != "-" and Path(path).is_file():
            facts = facts.or_else(facts_of_log(_log(path), path))
    return facts


_ROUNDED = 0.02
"""What two numbers that people type for one row may differ by: they are rounded."""


def by_hand(args: argparse.Namespace, facts: Facts) -> tuple[list[Results], Facts]:
    """One row from --op, -N, --size and a rate or time; what is too little for a row becomes facts."""
    rates = {
        name: parse_rate(text) for name, text in (("algbw", args.algbw), ("busbw", args.busbw)) if text is not None
    }
    time_s = None if args.time is None else parse_time(args.time)
    size = None if args.size is None else parse_size(args.size)
    if len(rates) + (time_s is not None) > 1 and size is None:
        raise UsageError("give one of --algbw, --busbw and --time; or --size with them")
    op, n = args.op, args.world_size
    if n is not None and n < 1:
        raise UsageError(f"-N {n}: the number of ranks is at least 1")
    if time_s == 0 or 0.0 in rates.values():
        raise UsageError("a time or rate of 0 cannot be explained")
    known_op = None
    if op is not None:
        known_op = None if op.strip().lower() == "hypercube" else find_collective(op).name
        facts = facts.having("op", known_op or op.strip().lower(), "--op")
    if n is not None:
        facts = facts.having("world_size", float(n), "-N")
    if size is not None:
        facts = facts.having("size", float(size), "--size")
    if known_op and n and size:
        call = Call(known_op, size, n)
        factor = call.kind.bus_factor(n) if n > 1 else 1.0
        times = {"--time": time_s} if time_s is not None else {}
        if "algbw" in rates:
            times["--algbw"] = size / rates["algbw"]
        if "busbw" in rates and factor > 0:
            times["--busbw"] = size * factor / rates["busbw"]
        if times:
            time_s = next(iter(times.values()))
            for option, other in times.items():
                if abs(other / time_s - 1) > _ROUNDED:
                    first = next(iter(times))
                    raise UsageError(
                        f"{first} and {option} contradict each other: {format_size(size)} take "
                        f"{format_time(time_s)} by one and {format_time(other)} by the other; give one of them"
                    )
            return [Results(Run(tool="given"), (Measurement(call, time_s, origin="read"),))], facts
    if "algbw" in rates and "busbw" not in rates and known_op and n and n > 1:
        rates["busbw"] = rates["algbw"] * find_collective(known_op).bus_factor(n)
    for name, value in rates.items():
        facts = facts.having(name, value, f"--{name}")
    if time_s is not None:
        raise UsageError("--time needs --op, -N and --size beside it")
    return [], facts


MOST_LINES = 200_000


def _log(path: str) -> str:
    """The lines of a log that can tell a fact, which are few also in a log of 100 MB."""
    kept = []
    try:
        with open(path, "rb") as file:
            for line in file:
                if b"NCCL" in line or b"Rank" in line:
                    kept.append(line)
                    if len(kept) == MOST_LINES:
                        break
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    return b"".join(kept).decode("utf-8", errors="replace")


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
