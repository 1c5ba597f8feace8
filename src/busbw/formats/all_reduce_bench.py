"""ml-engineering's all_reduce_bench.py (also as torch-dist-bench.py): a markdown table, or one payload in two lines.

    The average bandwidth of all_reduce over 32 ranks (5 warmups / 20 trials):
    | payload |    busbw   |    algbw   |

    The average bandwidth of all_reduce with a 4.0GB payload (5 trials, 16 ranks):
     algbw: 44.947 GBps (359.6 Gbps)
     busbw: 84.275 GBps (674.2 Gbps)

GBps is 1e9 bytes a second. No time is printed, and the rates are means of rates over iterations and ranks: they read
higher than the rate of the mean time. The sentence is often lost when the table is pasted; N then follows from
busbw/algbw, the sizes from the first column.

The script that it was derived from prints, for each trial and rank,

     duration: 0.9555 sec
     algo throughput: 66978569792.4769 bps, 66.9786 Gbps
     busbw: 65.2604  Gbps

with throughput = 2S/t in bits, from which S follows, and busbw over throughput = (N-1)/N, from which N follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Printed, Results
from busbw.formats._rows import (
    LARGEST_SIZE,
    Implied,
    Rate,
    RunRows,
    Size,
    best_rate,
    bus_factor,
    caveat,
    find_op,
    half_step,
    implied,
    joined,
    ranks_number,
    ratio_of,
    read_rate,
    read_size,
    seconds,
)

_SENTENCE = re.compile(
    r"The (?:average )?(?:(?P<profiled>[\d.]+\s*[KMGT]?i?B) payload )?(?:average )?bandwidth of (?P<op>[\w-]+)"
    r"(?: with an? (?P<payload>[\d.]+\s*[KMGT]?i?B) payload)?(?: over (?P<over>\d{1,8}) ranks)?\s*(?P<more>\([^)]*\))?"
)
_RANKS = re.compile(r"(\d{1,8}) ranks")
_LINE = re.compile(r"\s*(?P<name>algbw|busbw)\s*:\s*(?P<value>[\d.]+)\s*(?P<unit>[KMGT]?i?[bB](?:ps|/s))?(?P<more>.*)")
_TRIAL = re.compile(r"\s*(?P<name>duration|algo throughput|busbw)\s*:\s*(?P<value>[\d.]+)\s*(?P<unit>sec|bps|Gbps)\b")
_STD = re.compile(r"std:\s*([\d.]+)")
_TRIALS = re.compile(r"(\d{1,8}) trials")


@dataclass(slots=True)
class _Found:
    """One row before N is known."""

    line: int
    size: Size
    size_text: str
    algbw: Rate | None = None
    busbw: Rate | None = None
    marks: tuple[Mark, ...] = ()
    std: str = ""


class _Bench:
    """One run: a sentence, a table, or both."""

    def __init__(self, text: LogText, line: int) -> None:
        self.run = RunRows(text, "all_reduce_bench", line)
        self.op: str | None = None
        self.world_size: int | None = None
        self.payload: tuple[Size, str] | None = None
        self.columns: list[str] = []
        self.rows: list[_Found] = []
        self.open: _Found | None = None

    def finish(self, options: ReadOptions) -> RunRows:
        """Find out N and the operation, and add the rows."""
        if self.open is not None:
            self.close_open()
        ratios = [ratio_of(row.busbw, row.algbw) for row in self.rows]
        known = implied(ratios, ("all_reduce" if self.op is None else self.op,))
        if self.op is None and ratios and not known.ops:
            known = implied(ratios)
        marks = [caveat("mean_of_rates")]
        op = options.op or self.op
        if op is None:
            op = known.ops[0] if len(known.ops) == 1 else UNKNOWN_COLLECTIVE
            if op != UNKNOWN_COLLECTIVE:
                marks.append(caveat("op_from_factor"))
        world = options.world_size or self.world_size
        if world is None:
            world = known.world_size or UNKNOWN_WORLD_SIZE
            if world != UNKNOWN_WORLD_SIZE:
                marks.append(caveat("world_size_from_factor"))
        elif known.least and not known.least <= world <= known.most:
            self.run.note(f"line {self.run.first_line}: {world} ranks, but busbw/algbw is that of {_span(known)} ranks")
        self.run.collective, self.run.world_size = (op if op != UNKNOWN_COLLECTIVE else None), world or None
        factor = bus_factor(op, world)
        for row in self.rows:
            algbw = best_rate(row.algbw, row.busbw, factor)
            if algbw is None or row.size.size_bytes == 0:
                self.run.skip(row.line, row.size_text, "its rate rounds to zero, so no time follows")
                continue
            printed = Printed(
                None if row.algbw is None else row.algbw.rate_GBps,
                None if row.busbw is None else row.busbw.rate_GBps,
                row.size_text,
                {"std": row.std} if row.std else {},
            )
            found = (*marks, caveat("time_from_rate"), *row.marks)
            size_bytes = row.size.size_bytes
            self.run.add(Call(op, size_bytes, world), size_bytes / algbw, row.line, found, {}, printed)
        return self.run

    def close_open(self) -> None:
        """The sentence's row, as far as it was printed."""
        row, self.open = self.open, None
        if row is None or (row.algbw is None and row.busbw is None):
            self.run.complete = False
            if row is not None:
                self.run.skip(row.line, row.size_text, "no rate follows")
            return
        if row.busbw is None or row.algbw is None:
            row.marks = (*row.marks, caveat("row_cut"))
            self.run.complete = False
        self.rows.append(row)


def _span(known: Implied) -> str:
    return str(known.least) if known.least == known.most else f"{known.least} to {known.most}"


class _Reader:
    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.benches: list[_Bench] = []
        self.trials: RunRows | None = None
        self.trial_rows: list[tuple[int, float, float, Rate, Rate]] = []
        """Line, seconds, half a digit of them, throughput and busbw of each trial."""
        self.duration: tuple[int, str] | None = None
        self.throughput: Rate | None = None

    def read(self) -> Results | None:
        for at, line in self.text.lines():
            if "bandwidth of" in line:
                self.sentence(at, line)
            elif "duration" in line or "throughput" in line or "Gbps" in line:
                self.trial(at, line)
                if "bw" in line:
                    self.rate(at, line)
            elif "|" in line:
                self.table(at, line)
            elif "bw" in line:
                self.rate(at, line)
        runs = [bench.finish(self.options) for bench in self.benches]
        if self.trials is not None:
            self.finish_trials(self.trials)
            runs.append(self.trials)
        return joined([run for run in runs if run.rows or run.unreadable.count or run.wants_reason])

    def sentence(self, at: int, line: str) -> None:
        match = _SENTENCE.search(line)
        if match is None:
            return
        bench = _Bench(self.text, at)
        bench.op = find_op(match["op"])
        ranks = match["over"] or next(iter(_RANKS.findall(match["more"] or "")), "")
        bench.world_size = ranks_number(ranks) if ranks else None
        trials = _TRIALS.search(match["more"] or "")
        bench.run.settings = {"op": match["op"], **({"trials": int(trials[1])} if trials else {})}
        if bench.op is None:
            bench.run.note(f"line {at}: {match['op'][:40]} is none of the collectives here")
        payload = match["payload"] or match["profiled"]
        size = None if payload is None else read_size(payload, 1000)
        if payload is not None and size is not None:
            bench.payload = size, payload
            unclear = () if "i" in payload else (caveat("size_unit_unclear"),)
            if match["profiled"] is None:
                bench.open = _Found(at, size, payload, marks=unclear)
        self.benches.append(bench)

    def table(self, at: int, line: str) -> None:
        cells = [cell.strip().strip("*` ") for cell in line.strip().strip("|").split("|")]
        names = [cell.lower() for cell in cells]
        if ("busbw" in names or "algbw" in names) and set(names) <= {"payload", "busbw", "algbw"}:
            bench = self.benches[-1] if self.benches else None
            if "payload" not in names and (bench is None or bench.payload is None):
                return
            if bench is None or bench.columns or bench.rows or bench.open is not None:
                bench = _Bench(self.text, at)
                self.benches.append(bench)
            bench.columns = names
            return
        if not self.benches or not self.benches[-1].columns or not any(char.isdigit() for char in line):
            return
        bench = self.benches[-1]
        found = dict(zip(bench.columns, cells, strict=False))
        if len(cells) > len(bench.columns) or ("payload" not in found and bench.payload is None):
            bench.run.skip(at, line, f"{len(cells)} cells under {len(bench.columns)} columns")
            return
        if len(cells) < len(bench.columns) and read_rate(cells[-1]) is None:
            # Every rate has its unit; one without it was cut, perhaps inside the number.
            found.pop(bench.columns[len(cells) - 1])
        payload = found.get("payload", bench.payload[1] if bench.payload else "")
        size = read_size(payload)
        algbw, busbw = read_rate(found.get("algbw", ""), "GB/s"), read_rate(found.get("busbw", ""), "GB/s")
        if size is None or (algbw is None and busbw is None):
            bench.run.skip(at, line, "a size or a rate is missing")
            bench.run.complete = False
            return
        cut = () if len(cells) == len(bench.columns) else (caveat("row_cut"),)
        bench.rows.append(_Found(at, size, payload, algbw, busbw, cut))

    def rate(self, at: int, line: str) -> None:
        match = _LINE.match(line)
        if match is None or not self.benches or self.benches[-1].open is None:
            return
        row = self.benches[-1].open
        rate = read_rate(match["value"], match["unit"] or "GB/s")
        if rate is None:
            return
        if match["name"] == "algbw" and row.algbw is None:
            row.algbw, row.line = rate, at
        elif match["name"] == "busbw" and row.busbw is None:
            row.busbw = rate
            row.line = row.line if row.algbw is not None else at
        std = _STD.search(match["more"])
        row.std = std[1] if std else row.std
        if row.algbw is not None and row.busbw is not None:
            self.benches[-1].close_open()

    def trial(self, at: int, line: str) -> None:
        """A line of the older script: duration, then throughput, then busbw."""
        match = _TRIAL.match(line)
        if match is None or (match["name"] == "duration") != (match["unit"] == "sec"):
            return
        if match["name"] == "duration":
            self.duration, self.throughput = (at, match["value"]), None
        elif match["name"] == "algo throughput":
            self.throughput = read_rate(match["value"], match["unit"])
        elif self.duration is not None and self.throughput is not None:
            start, text = self.duration
            time_s, busbw = seconds(text, 1.0), read_rate(match["value"], match["unit"])
            if self.trials is None:
                self.trials = RunRows(self.text, "all_reduce_bench", start)
            if time_s is None or busbw is None or not busbw.rate_Bps or not self.throughput.rate_Bps:
                self.trials.skip(start, line, "its duration or a rate is zero")
            else:
                self.trial_rows.append((start, time_s, half_step(text), self.throughput, busbw))
            self.duration = self.throughput = None

    def finish_trials(self, run: RunRows) -> None:
        ratios = [ratio_of(busbw, throughput) for *_, throughput, busbw in self.trial_rows]
        world = self.options.world_size or implied(ratios, ("all_gather",)).world_size or UNKNOWN_WORLD_SIZE
        marks = [caveat("rank0_time"), caveat("rate_is_twice"), caveat("size_from_rate")]
        if world and not self.options.world_size:
            marks.append(caveat("world_size_from_factor"))
        run.world_size = world or None
        for at, time_s, slack, throughput, busbw in self.trial_rows:
            # The size is the same in all trials of the script, 4e9 bytes unless it was edited.
            size = throughput.rate_Bps / 2 * time_s
            size = 4e9 if abs(size - 4e9) <= 4e9 * slack / time_s * 1.01 else size
            if not 1 <= size <= LARGEST_SIZE:
                run.skip(at, str(time_s), "no size follows from its throughput and duration")
                continue
            printed = Printed(throughput.rate_GBps, busbw.rate_GBps)
            run.add(Call(self.options.op or "all_reduce", round(size), world), time_s, at, marks, {}, printed)


def _recognises(text: LogText) -> bool:
    return text.contains(b"bandwidth of all", b"| payload |", b"algo throughput:") or (
        text.contains(b"payload") and text.contains(b"busbw", b"bandwidth of")
    )


FORMAT = FileFormat(
    "all_reduce_bench",
    "ml-engineering's all_reduce_bench.py, as text or markdown table",
    _recognises,
    lambda text, options: _Reader(text, options).read(),
)
