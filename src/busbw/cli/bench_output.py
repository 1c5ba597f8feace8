"""What `busbw bench` prints and writes while it runs: the table, the bar, the results file, the exports."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw.bench.record import Record
from busbw.bench.run import Launch, describe_run, variables_text
from busbw.bench.settings import Settings
from busbw.bench.work import SCHEDULE_LABEL, call_key
from busbw.cli.progress import ProgressBar
from busbw.cli.table import Table
from busbw.core.measurement import Measurement, Results, Run
from busbw.errors import BusbwError, FileError, Interrupted, UsageError
from busbw.formats import busbw_jsonl, post_csv, read_results
from busbw.units import MIB


class Output:
    """All that a run prints and writes: a sink of the run."""

    def __init__(
        self, args: argparse.Namespace, settings: Settings, worlds: list[int], sweep: list[dict[str, str]]
    ) -> None:
        self.args, self.settings = args, settings
        self.rows: list[Measurement] = []
        self.table = Table(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
        self.bar = ProgressBar(not args.quiet and not args.json)
        self.record: Record | None = None
        if args.resume and args.output is None:
            raise UsageError("--resume needs the results file to go on with: -o FILE")
        if args.csv is not None:
            if args.output is not None and os.path.realpath(args.csv) == os.path.realpath(args.output):
                raise UsageError(f"-o {args.output} --csv {args.csv}: the same file, which can hold one of them only")
            self._prove_writable(args.csv)
        if args.report is not None:
            from busbw.cli.report import prove_writable

            prove_writable(args.report, "--report")
        keeps = args.output is not None or args.report is not None
        self.run = describe_run(settings, worlds, args.repeats, sweep) if keeps else Run()
        self.launches: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.failure: str | None = None
        if args.output is not None:
            self.record = Record(args.output, self.run, resume=args.resume, overwrite=args.overwrite)
            if self.record.earlier is not None:
                self.rows.extend(self.record.earlier.measurements)
                count = len(self.rows)
                self._say(f"# {count} row{'s are' if count != 1 else ' is'} in {args.output} already")

    def done(self) -> dict[tuple[int, int, str], list[str]]:
        """Keys of the rows on disk, by launch."""
        found: dict[tuple[int, int, str], list[str]] = {}
        for row in self.rows:
            variables = {name: value for name, value in row.labels.items() if name.isupper()}
            group = row.labels.get("group")
            world = row.call.world_size if group is None else int(row.labels["world"])
            key = call_key(row.call, row.labels.get(SCHEDULE_LABEL, ""), row.beside is not None)
            if group is not None:
                key = f"{key} group {group}"
            found.setdefault((world, row.repeat, variables_text(variables)), []).append(key)
        return found

    def launch(self, launch: Launch, ranks: list[dict[str, Any]]) -> None:
        """Print and keep the mapping of ranks to devices."""
        place = variables_text(launch.variables)
        self._say(f"# N={launch.world_size}  backend {self.settings.backend}  {place}".rstrip())
        for rank in ranks if len(ranks) <= 64 else ranks[:64]:
            self._say(f"#   rank {rank['rank']:>3}  {rank['host']}  pid {rank['pid']}  {rank['device']}")
        if launch.world_size == 1:
            self._say("# N=1: nothing moves between ranks, so busbw is n/a; rows show what a call costs by itself")
        self.launches.append(
            {
                "world_size": launch.world_size,
                "repeat": launch.repeat,
                "variables": dict(launch.variables),
                "ranks": ranks,
            }
        )
        if self.record is not None:
            self.record.launch(self.launches[-1])

    def plan(self, launch: Launch, labels: list[str], notes: list[str]) -> None:
        """Print what is left out, and begin the bar."""
        for text in notes:
            self.note(text)
        self.bar.begin(f"N={launch.world_size}", labels)

    def at(self, index: int, phase: str) -> None:
        """Move the bar."""
        self.bar.at(index, phase)

    def row(self, measurement: Measurement) -> None:
        """Write a row, then print it: what is seen is on disk."""
        if self.record is not None:
            self.record.row(measurement)
        self.rows.append(measurement)
        if self.settings.method == "post":
            self._say(post_line(measurement))
            return
        for line in self.table.lines(measurement):
            self._say(line)

    def note(self, text: str) -> None:
        """Print and keep a note."""
        self._say(f"# note: {text}")
        self.notes.append(text)
        if self.record is not None:
            self.record.note(text)

    def failed(self, error: BusbwError) -> None:
        """The run ends badly: keep the reason beside the rows, and write the exports of what there is."""
        self.bar.close()
        self.failure = f"{busbw_jsonl.ENDED_EARLY}{error}"
        if self.record is not None:
            with contextlib.suppress(FileError):
                self.record.note(self.failure)
        try:
            self.finish()
        except BusbwError as lost:
            self._say(f"# note: {lost}")
        if self.record is not None:
            kept = len(self.rows)
            self._say(f"# {kept} row{'s' if kept != 1 else ''} kept in {self.args.output}; go on with --resume")

    def finish(self) -> None:
        """Write the exports and the legend."""
        self.bar.close()
        for line in self.table.legend():
            self._say(line)
        if self.record is not None:
            self.record.close()
        if self.args.json:
            json.dump([row.row() for row in self.rows], sys.stdout, indent=1)
            sys.stdout.write("\n")
        if self.args.csv is not None:
            try:
                Path(self.args.csv).write_text(post_csv.write(self.rows), encoding="utf-8")
            except OSError as error:
                kept = "" if self.record is None else f"; busbw show --csv {self.args.output} prints it"
                raise FileError(f"{self.args.csv}: cannot be written: {error.strerror}{kept}") from error
        if self.args.report is not None and self.rows:
            from busbw.cli.report import write_page

            write_page([self._results()], self.args.report)
            self._say(f"# report: {self.args.report}")

    def _results(self) -> Results:
        """What there is to report: the results file, or without one what is in memory."""
        if self.record is not None:
            return read_results(self.args.output)
        launches, notes, complete = tuple(self.launches), tuple(self.notes), self.failure is None
        run = replace(self.run, launches=launches, notes=notes, complete=complete, failure=self.failure)
        return Results(run, tuple(self.rows))

    def _prove_writable(self, path: str) -> None:
        if os.path.isfile(path) and os.path.getsize(path) and not (self.args.overwrite or self.args.resume):
            raise UsageError(f"--csv {path} exists: add --overwrite, or name another file")
        try:
            with Path(path).open("a", encoding="utf-8"):
                pass
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error.strerror}; name another file with --csv") from error

    def _say(self, line: str) -> None:
        """Print a line: to standard error when standard output is JSON."""
        try:
            if self.args.json:
                sys.stderr.write(line + "\n")
            else:
                self.bar.write(line)
        except OSError as error:
            self._screen_is_gone(error)

    def _screen_is_gone(self, error: OSError) -> None:
        """Nobody reads what is printed (`| head`), or its disk is full: go on where the rows are kept, else stop."""
        stream = sys.stderr if self.args.json else sys.stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if self.args.json:
            return
        kept = self.args.output if self.args.output is not None else self.args.csv
        if kept is None:
            why = f"standard output cannot be written any more: {error.strerror}; -o FILE keeps the rows"
            raise Interrupted(why) if isinstance(error, BrokenPipeError) else FileError(why)
        with contextlib.suppress(OSError):
            sys.stderr.write(
                f"busbw bench: standard output: {error.strerror}; the run goes on, its rows are in {kept}\n"
            )


def post_line(row: Measurement) -> str:
    """A row as the post's own program printed it."""
    algbw, busbw = row.algbw_GBps or 0.0, row.busbw_GBps or 0.0
    return (
        f"{row.call.collective:15s} N={row.call.world_size} S={row.call.size_bytes / MIB:9.3f}MiB  t={row.time_s * 1e3:9.3f}ms  "
        f"algbw={algbw:7.2f}GB/s  busbw={busbw:7.2f}GB/s"
    )
