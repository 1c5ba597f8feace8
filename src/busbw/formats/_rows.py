"""What the readers of other tools' outputs share: numbers, the rows of one file, caveats, and what bus factors imply.

A row is kept as the tool meant it: its time in seconds, its size brought to S where that is exact, and beside them
what stood in the file (`Printed`). Whatever keeps a row from being compared with others is a Mark on it; the codes are
those of `CAVEATS`.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.collective import COLLECTIVES
from busbw.core.dtype import find_dtype
from busbw.core.log_text import LogText
from busbw.core.measurement import Average, Mark, Measurement, Printed, Results, Run, Source
from busbw.errors import UsageError
from busbw.formats._failures import failure_between, find_failures
from busbw.formats._lines import LARGEST_WORLD, UnreadableLines, number, whole_number
from busbw.units import GB

T = TypeVar("T")

LARGEST_SIZE = 2**62
"""Bytes; a larger number in a size column is not a size."""
LARGEST_TIME = 1e9
"""Seconds; likewise."""

CAVEATS = {
    "both_directions": "the tool adds both directions; half of its rate is what one direction carries",
    "mean_of_calls": "a mean over the calls of a running job whose sizes fall into one range",
    "mean_of_rates": "a mean of rates, which reads higher than the rate of the mean time",
    "mean_over_ranks": "the time is a mean over the ranks; some leave a rooted call early, so it is no completion time",
    "one_call": "a single call, which may hold the set-up of the communicator",
    "one_sided": "a one-sided transfer between two ranks, not a pair of send and receive",
    "op_from_factor": "the operation follows from busbw/algbw, the file does not name it",
    "op_from_file_name": "the operation is taken from the file's name, the file does not say it",
    "op_unknown": "the file does not tell the operation; name it with --op",
    "overlapped": "the time of the call without the computation that ran beside it",
    "percentile_over_ranks": "the time is the median over the ranks of their mean times",
    "rank0_time": "the time is one rank's alone",
    "rate_contradicts_time": "the printed rate and size / time differ by more than their rounding",
    "rate_is_gib": "the printed GB/s are GiB/s (2^30)",
    "rate_is_twice": "the printed throughput is 2S/t; algbw here is S/t",
    "round_trip": "half of a round trip",
    "row_cut": "the row ends before its last column",
    "size_from_rate": "the size follows from throughput and time, the file does not print it",
    "size_per_rank_unknown_n": "the size is one rank's part as printed; S is N times that, and N is not known",
    "size_range": "the size is printed as a range",
    "size_rounded": "the size was rounded in print",
    "size_unit_assumed": "K, M and G of the size may be powers of 1000 or of 1024; nothing in the file tells",
    "size_unit_unclear": "by version of the tool this GB is 1e9 or 2^30 bytes; rates do not depend on it",
    "time_from_rate": "the time follows from size and rate, the file does not print it",
    "time_includes_waiting": "one rank's time, waiting for the last rank included",
    "time_rounded": "so few digits of the time are printed that its rounding is above 5 %",
    "validation_failed": "the tool's own check of the data failed; how many elements is not printed",
    "world_size_from_factor": "N follows from busbw/algbw, the file does not name it",
    "world_size_unknown": "the file does not tell N; give it with -N",
}
"""Why a row has to be read with care: code -> sentence."""


def caveat(code: str, more: str = "") -> Mark:
    """The mark of a code in `CAVEATS`; `more` is appended to its sentence."""
    return Mark(code, f"{CAVEATS[code]}{': ' + more if more else ''}")


def size_number(token: str) -> int | None:
    """A whole number of bytes, or None."""
    value = whole_number(token)
    return value if value is not None and 0 <= value <= LARGEST_SIZE else None


def ranks_number(token: str) -> int | None:
    """A number of ranks, or None."""
    value = whole_number(token)
    return value if value is not None and 1 <= value <= LARGEST_WORLD else None


def seconds(text: str, unit_s: float) -> float | None:
    """A time above zero in seconds, or None."""
    value = number(text)
    if value is None or not 0 < value * unit_s < LARGEST_TIME:
        return None
    # Divided by a whole number, 100 us is the float nearest to 1e-4; multiplied by 1e-6 it is not.
    return value / round(1 / unit_s) if unit_s < 1 else value * unit_s


def half_step(text: str) -> float:
    """Half of the last printed digit: `0.92` -> 0.005, `1e3` -> 500."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** min(int(exponent or 0) - decimals, 300)


_SIZE = re.compile(r"([0-9][0-9,]*(?:\.[0-9]*)?)\s*([kKMGTP]?)(i?)(B|bytes?)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Size:
    """A printed size: the bytes nearest to it, and how far off the true count may be."""

    size_bytes: int
    slack_bytes: float

    @property
    def is_exact(self) -> bool:
        """Printed to the byte."""
        return self.slack_bytes < 0.5


def read_size(text: str, base: int = 1024, unit: str = "") -> Size | None:
    """A size such as `678.86 MB`, `32KiB`, `4096`, or None.

    `base` is what K, M and G mean to the tool (KiB is 1024 always); `unit` stands where the text has none.
    """
    match = _SIZE.fullmatch(text.strip()[:40])
    if match is None:
        return None
    digits = match[1].replace(",", "")
    letter, binary = match[2].lower(), match[3]
    if not letter and not match[4] and unit:
        letter, binary = unit[0].lower().replace("b", ""), "i" if "i" in unit.lower()[1:] else ""
    factor = (1024 if binary else base) ** (" kmgtp".index(letter) if letter else 0)
    value = float(digits) * factor
    if not 0 <= value <= LARGEST_SIZE:
        return None
    slack = half_step(digits) * factor if "." in digits or factor > 1 else 0.0
    return Size(round(value), slack)


_RATE = re.compile(
    r"([0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][+-]?\d{1,2})?|\.[0-9]+)\s*(?:([kKMGT]?)(i?)([bB])(?:/s(?:ec)?|ps))?"
)


@dataclass(frozen=True, slots=True)
class Rate:
    """A printed rate: bytes a second, and half of its last digit."""

    rate_Bps: float  # noqa: N815 - the unit's own capitals
    slack_Bps: float  # noqa: N815

    @property
    def rate_GBps(self) -> float:  # noqa: N802
        """In GB/s (1e9)."""
        return self.rate_Bps / GB


def read_rate(text: str, unit: str = "") -> Rate | None:
    """A rate such as `98.34GBps`, `602 Gbps` or `12.5 GiB/s`, or None; `unit` stands where the text has none."""
    match = _RATE.fullmatch(text.strip()[:40])
    if match is not None and match[4] is None:
        match = _RATE.fullmatch(f"{match[1]} {unit}") if unit else None
    value = None if match is None else number(match[1].replace(",", ""))
    if match is None or value is None or match[4] is None:
        return None
    factor = (1024 if match[3] else 1000) ** " kmgt".index((match[2] or " ").lower()) / (8 if match[4] == "b" else 1)
    if not 0 <= value * factor < 1e18:
        return None
    return Rate(value * factor, half_step(match[1].replace(",", "")) * factor)


def best_rate(algbw: Rate | None, busbw: Rate | None, factor: float | None) -> float | None:
    """The algbw in bytes a second that agrees with both printed numbers as far as their digits go; None if all is 0."""
    spans: list[tuple[float, float]] = []
    if algbw is not None and algbw.rate_Bps > 0:
        spans.append((algbw.rate_Bps - algbw.slack_Bps, algbw.rate_Bps + algbw.slack_Bps))
    if busbw is not None and busbw.rate_Bps > 0 and factor:
        spans.append(((busbw.rate_Bps - busbw.slack_Bps) / factor, (busbw.rate_Bps + busbw.slack_Bps) / factor))
    if not spans:
        return None
    least, most = max(low for low, _ in spans), min(high for _, high in spans)
    if least > most:
        least, most = min(spans, key=lambda span: span[1] - span[0])
    return (least + most) / 2


_OPS = {
    "all_reduce": ("allreduce", "allr", "allreducecoalesced", "inferenceallreduce", "allreducebw"),
    "all_gather": (
        *("allgather", "allg", "allgatherv", "allgatherbase", "allgatherintotensor", "allgathercoalesced"),
        *("fcollect", "collect", "gatherall", "allgatherintotensorcoalesced", "allgatherobject"),
    ),
    "reduce_scatter": (
        *("reducescatter", "redsct", "reducescatterv", "reducescatterbase", "reducescattertensor"),
        *("reducescatterblock", "reducescattertensorcoalesced"),
    ),
    "all_to_all": ("alltoall", "all2all", "alltoallsingle", "alltoallbase", "exchange", "a2a"),
    "all_to_all_v": ("alltoallv", "all2allv", "alltoallw"),
    "broadcast": ("broadcast", "bcast", "broadcastobjectlist", "multicast"),
    "reduce": ("reduce", "incast"),
    "gather": ("gather", "gatherv"),
    "scatter": ("scatter", "scatterv"),
    "barrier": ("barrier", "logsummarybarrier", "monitoredbarrier"),
    "send_recv": ("sendrecv", "batchisendirecv"),
    "send_recv_one_way": ("send", "recv", "isend", "irecv", "pt2pt", "p2p"),
}
_OP_OF = {alias: op for op, aliases in _OPS.items() for alias in aliases}
_IN_NAME = re.compile(
    r"all[-_ ]?reduce|all[-_ ]?gather|reduce[-_ ]?scatter|all[-_ ]?(?:to|2)[-_ ]?all[-_ ]?v?(?![a-z])|broadcast|bcast"
    r"|send[-_ ]?recv|(?<![a-z])(?:scatter|gather|reduce)(?![a-z])",
    re.IGNORECASE,
)


def find_op(text: str) -> str | None:
    """Our name of an operation in any tool's spelling (`AllReduce`, `all_gather_into_tensor`, `redsct`), or None."""
    return _OP_OF.get(re.sub(r"[^a-z0-9]", "", text[:60].lower()))


def op_in(text: str) -> str | None:
    """The one operation that is named somewhere in a text; None where none or several are."""
    found = {find_op(match[0]) for match in _IN_NAME.finditer(text)}
    return found.pop() if len(found) == 1 else None


def op_in_file_name(file_name: str) -> str | None:
    """The one operation in a file's own name, its folders left aside."""
    return op_in(os.path.basename(file_name))


_LAUNCHERS = {"srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "prterun", "jsrun", "aprun", "torchrun"}
_TOTAL = {"-np", "-n", "--np", "--n", "--ntasks", "--world-size", "--world_size"}
_HOSTS = {"-N", "--nodes", "--nnodes", "-nnodes"}
_PER_HOST = {"-npernode", "--npernode", "-ppn", "--ppn", "-perhost", "--nproc_per_node", "--nproc-per-node"}
_PER_HOST |= {"--ntasks-per-node", "--tasks-per-node"}
_GLUED = re.compile(r"(-[nNr]|-np)(\d{1,8})")
_PROGRAM = re.compile(r"(?:.*/)?(?:osu_\w+|ucc_perftest|nccom-test|comms\.py|\w+_perf)")


def ranks_of_command(line: str) -> int | None:
    """The ranks that a launch line starts (`mpirun -np 8 ...`, `srun -N2 --ntasks-per-node=4 ...`), or None."""
    words = _GLUED.sub(r"\1 \2", line[:4000].replace("=", " ")).split()
    program = next((at for at, word in enumerate(words) if _PROGRAM.fullmatch(word)), None)
    start = next((at for at, word in enumerate(words) if word.rpartition("/")[2] in _LAUNCHERS), None)
    if program is None and start is None:
        return None
    if program is not None and words[program].endswith("nccom-test"):
        values = _options(words[program:])
        return values.get("-r") or values.get("--nworkers")
    values = _options(words[start or 0 : program])
    total = next((values[option] for option in values if option in _TOTAL), None)
    hosts = next((values[option] for option in values if option in _HOSTS), None)
    per_host = next((values[option] for option in values if option in _PER_HOST), None)
    if total is None and hosts is not None and per_host is not None:
        total = hosts * per_host
    return total if total is not None and 1 <= total <= LARGEST_WORLD else None


def _options(words: Sequence[str]) -> dict[str, int]:
    """Each option that is followed by a whole number, with that number."""
    pairs = [(word, ranks_number(value)) for word, value in itertools.pairwise(words) if word[:1] == "-"]
    return {word: value for word, value in pairs if value is not None}


@dataclass(frozen=True, slots=True)
class Ratio:
    """busbw / algbw of one row, as far as the printed digits tell: from low to high."""

    low: float
    high: float


def ratio_of(busbw: Rate | None, algbw: Rate | None) -> Ratio | None:
    """The interval of busbw/algbw of rounded numbers; None where they are too small to tell."""
    if busbw is None or algbw is None or algbw.rate_Bps <= algbw.slack_Bps or busbw.rate_Bps <= busbw.slack_Bps:
        return None
    return Ratio(
        (busbw.rate_Bps - busbw.slack_Bps) / (algbw.rate_Bps + algbw.slack_Bps),
        (busbw.rate_Bps + busbw.slack_Bps) / (algbw.rate_Bps - algbw.slack_Bps),
    )


def disagrees(printed: Rate | None, rate_Bps: float, time_error: float = 0.0, size_error: float = 0.0) -> bool:  # noqa: N803
    """Whether a printed rate is off from size / time by more than the rounding of all three (errors are relative)."""
    if printed is None:
        return False
    slack = printed.slack_Bps + rate_Bps * (time_error + size_error) * 1.05 + rate_Bps * 1e-3
    return abs(printed.rate_Bps - rate_Bps) > slack


def bus_factor(collective: str, world_size: int) -> float | None:
    """Busbw / algbw; None where the collective or N is not known, or N is 1."""
    if collective == UNKNOWN_COLLECTIVE or world_size < 2:
        return None
    return COLLECTIVES.get(collective).bus_factor(world_size)


RING_OPS = ("all_gather", "all_to_all", "gather", "reduce_scatter", "scatter")
FLAT_OPS = ("broadcast", "reduce", "send_recv")


@dataclass(frozen=True, slots=True)
class Implied:
    """What the bus factors of a run imply: the operations that have such a factor, and the smallest and largest N."""

    ops: tuple[str, ...] = ()
    least: int = 0
    most: int = 0

    @property
    def world_size(self) -> int:
        """N where only one fits, else UNKNOWN_WORLD_SIZE."""
        return self.least if self.least == self.most else UNKNOWN_WORLD_SIZE


def implied(ratios: Iterable[Ratio | None], among: Iterable[str] = ()) -> Implied:
    """The operations (of `among`, if given) and N that fit every ratio: 2(N-1)/N, (N-1)/N, or 1."""
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return Implied()
    # A hair of width, so that a ratio computed without rounding is not lost to the last bit of a float.
    low, high = max(ratio.low for ratio in known) * (1 - 1e-9), min(ratio.high for ratio in known) * (1 + 1e-9)
    allowed = set(among)
    if low > high or not math.isfinite(high):
        return Implied()

    def allow(ops: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(op for op in ops if not allowed or op in allowed)

    double = _ranks(low / 2, high / 2)
    ring = _ranks(low, high)
    flat = allow(FLAT_OPS) if low <= 1 <= high else ()
    reduce_ops = allow(("all_reduce",)) if double else ()
    ring_ops = allow(RING_OPS) if ring else ()
    families = [family for family in (reduce_ops, ring_ops, flat) if family]
    if len(families) != 1:
        return Implied(tuple(op for family in families for op in family))
    span = double if families[0] is reduce_ops else ring if families[0] is ring_ops else None
    return Implied(families[0], *(span or (0, 0)))


def _ranks(low: float, high: float) -> tuple[int, int] | None:
    """The whole N >= 2 with low <= (N-1)/N <= high, from the least to the most; None if there are none."""
    if high < 0.5 or low >= 1:
        return None
    least = max(2, math.ceil(1 / (1 - low) - 1e-6)) if low > 0.5 else 2
    most = math.floor(1 / (1 - high) + 1e-6) if high < 1 else LARGEST_WORLD
    return (least, most) if least <= most else None


class RunRows:
    """The rows of one run as a reader finds them, with what it could not read."""

    def __init__(self, text: LogText, tool: str, line: int, version: str = "") -> None:
        self.text, self.tool, self.version = text, tool, version
        self.first_line = self.last_line = line
        self.rows: list[Measurement] = []
        self.notes: list[str] = []
        self.settings: dict[str, object] = {}
        self.unreadable = UnreadableLines(text.name)
        self.collective: str | None = None
        """What the run is known to measure, if it has no rows to show it."""
        self.world_size: int | None = None
        self.complete: bool | None = None
        self.failure: str | None = None
        self.average: Average | None = None

    def add(
        self,
        call: Call,
        time_s: float,
        line: int,
        marks: Iterable[Mark] = (),
        labels: Mapping[str, str] | None = None,
        printed: Printed | None = None,
        wrong: int | None = None,
    ) -> None:
        """One row, read at `line`. What is not known about its call is marked here."""
        found = list(marks)
        if call.collective == UNKNOWN_COLLECTIVE:
            found.append(caveat("op_unknown"))
        if call.world_size == UNKNOWN_WORLD_SIZE:
            found.append(caveat("world_size_unknown"))
        self.last_line = max(self.last_line, line)
        self.rows.append(
            Measurement(
                call,
                time_s,
                wrong=wrong,
                marks=tuple(found),
                labels=labels or {},
                source=Source(self.text.name, line),
                origin="read",
                printed=printed,
            )
        )

    def skip(self, line: int, text: str, reason: str) -> None:
        """A line that looks like a row and could not be read."""
        self.last_line = max(self.last_line, line)
        self.unreadable.add(line, text, reason)

    def note(self, note: str) -> None:
        """Something to say beside the rows; once is enough."""
        if note not in self.notes:
            self.notes.append(note)

    @property
    def wants_reason(self) -> bool:
        """It has no rows, or did not come to its end, and nothing said why yet."""
        return self.failure is None and (not self.rows or self.complete is False)

    def results(self, reason: str | None = None) -> Results:
        """The run; `reason` is why it failed, where the log tells and the run itself does not."""
        calls = {(row.call.collective, row.call.world_size) for row in self.rows}
        ops, sizes = {op for op, _ in calls}, {size for _, size in calls}
        return Results(
            Run(
                self.tool,
                version=self.version,
                settings=self.settings,
                notes=tuple(self.notes),
                source=Source(self.text.name, self.first_line),
                collective=_only(ops, UNKNOWN_COLLECTIVE) if ops else self.collective,
                world_size=_only(sizes, UNKNOWN_WORLD_SIZE) if sizes else self.world_size,
                complete=self.complete,
                failure=self.failure or reason,
                average=self.average,
                unreadable=tuple(self.unreadable.kept),
                unreadable_count=self.unreadable.count,
            ),
            tuple(self.rows),
        )


def _only(values: set[T], unknown: T) -> T | None:
    return next(iter(values)) if len(values) == 1 and unknown not in values else None


def joined(runs: Sequence[RunRows]) -> Results | None:
    """The runs of one file as one Results; None where there is none."""
    if not runs:
        return None
    failures = find_failures(runs[0].text) if any(run.wants_reason for run in runs) else []
    ends = [*(run.first_line - 1 for run in runs[1:]), LARGEST_SIZE]
    parts = [
        run.results(failure_between(failures, run.first_line, end) if run.wants_reason else None)
        for run, end in zip(runs, ends, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    rows = tuple(row for part in parts for row in part.measurements)
    return Results(Run(parts[0].run.tool), rows, tuple(parts))


def dtype_name(text: str) -> str | None:
    """Core's name of an element type, or None."""
    try:
        return find_dtype(text.strip()[:40].lower().removeprefix("torch.").removeprefix("mpi_")).name
    except UsageError:
        return None
