"""The line reader of nccl-tests text: finds the runs in a log and puts torn rows together again.

A log holds runs one after the other, or side by side under different rank labels. Each is a Table while it is read.
Rows can be torn by the log lines of other ranks, since the tool prints a row in three pieces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from busbw.core.log_text import LogText
from busbw.formats._lines import LARGEST_WORLD, number
from busbw.formats._nccl_build import Table
from busbw.formats._nccl_info import NcclInfo, algorithm_name, protocol_name
from busbw.formats._nccl_ops import TESTS
from busbw.formats._nccl_rows import (
    ASSUMED,
    START,
    TYPE_NAMES,
    Half,
    Layout,
    is_known_type,
    read_header,
    read_row,
)
from busbw.formats._nccl_settings import COMPARED, SETTINGS_LINE, read_assignments, read_settings
from busbw.formats._rows import ranks_of_command

VERSION, TITLE, SETTINGS, DEVICES, HEADER, ROWS, FOOTER, END = range(8)
"""The parts of one run in the order in which they are printed: an earlier part after a later one begins a new run."""
NOTHING = -1

_TEST = re.compile(rf"\b({'|'.join(sorted(TESTS, key=len, reverse=True))})_(?:perf|test|bench)\b")
_DEVICE = re.compile(
    r"\bRank\s+(\d{1,9})\s+(?:Group\s+(\d{1,9})\s+)?(?:Pid\s+\d+\s+)?(?:on\s+(\S*)\s+|uses\s+)device\s+\d+"
    r"(?:\s+\[[^\]]*\]\s*(.*))?"
)
_TOOL_VERSION = re.compile(r"\b([nr]ccl-tests)[: ]\s*[Vv]ersion\s+(\S+)")
_LIBRARY_VERSION = re.compile(r"\b[NR]CCL version\s*:?\s*(\d[\w.+-]*)")
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\s*([A-Za-z]*)")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)")
_SECTION = re.compile(r"\s*(?:#{2,}|={3,}|-{3,}|\*{3,})\s*(\S.*)$")
_PAIR = re.compile(r"(\w+)=([^\s,;]+)")
_SECTION_KEY = re.compile(
    r"(?:algo|proto|[nr]ccl_\w+|sizes?|bytes|op|test|coll\w*|n?gpus?|nodes|hosts|n?ranks|np|channels)$", re.IGNORECASE
)
_LOG_LINE = re.compile(r"\S*:\d+:\d+ \[-?\d+\] ")
_NUMBER_FIRST = re.compile(r"(?:N/A|[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?!\S*:\d+:\d+)")
_WORDS = sorted((*TYPE_NAMES, "sum", "prod", "max", "min", "avg", "mulsum", "none"), key=len, reverse=True)
_GLUED = re.compile(rf"(N/A|-?\d+(?:\.\d+)?(?:e[+-]\d\d)?|{'|'.join(_WORDS)})(?=[A-Za-z_\[(])")
_INTERESTING = (
    *("algbw", "-place", "(us)", "(ms)", "nThread", "Rank ", "bus bandwidth", "Out of bounds"),
    *("Collective test", "_perf", "_test", "_bench", "ersion", "CCL_", "###", "===", "Blocking", "ALGO="),
)
_NOT_A_NUMBER = {"N/A", "nan", "-nan", "inf"}


@dataclass(slots=True)
class Torn:
    """A row whose end has not come yet."""

    line: int
    text: str
    original: str
    reason: str


@dataclass(slots=True)
class OpenRun:
    """A run that is being read, and how far it is."""

    table: Table
    part: int = NOTHING
    layout: Layout | None = None
    torn: Torn | None = None
    groups: dict[int, int] = field(default_factory=dict)
    """Ranks listed in each group."""
    largest_rank: int = -1
    hosts: set[str] = field(default_factory=set)
    section: frozenset[str] | None = None
    """The keys of the title that opened it, such as ALGO and size."""
    halved: int = 0
    """Rows of which only the first half is there."""

    @property
    def in_table(self) -> bool:
        """Rows are to be expected."""
        return self.layout is not None and HEADER <= self.part < FOOTER


class Reader:
    """Reads a whole text; `runs` are what it found, `tests` the names of tests that no run has claimed."""

    def __init__(self, text: LogText) -> None:
        self.text, self.file = text, text.name
        self.runs: list[OpenRun] = []
        self.tests: list[str] = []
        self._of: dict[str, OpenRun] = {}
        self._labels: dict[str, str] = {}
        self._assignments: dict[str, str] = {}
        self._ranks_of_command = 0
        self._library = ""
        self._early = NcclInfo()
        self._layout: Layout | None = None
        self._placement: bool | None = None

    def read(self) -> None:
        """Go over all lines."""
        for line, who, text in self.text.tagged_lines():
            if "NCCL " in text and ("NCCL INFO" in text or "NCCL TRACE" in text or "NCCL WARN" in text):
                self._log_line(line, who, text)
                continue
            body = text.lstrip()
            first = body[:1]
            if "0" <= first <= "9":
                self._row(line, who, body if body is text else text)
            elif first == "#" and "0" <= body.lstrip("# \t")[:1] <= "9":
                if START.match(body):
                    self._row(line, who, body)
            elif first and first in "-N+" and self._continues(who, body):
                self._row(line, who, text)
            elif first and any(word in text for word in _INTERESTING):
                self._note(line, who, text)
        for run in self.runs:
            self._flush(run)

    # ---------------------------------------------------------------- which run

    def _who(self, who: str) -> str:
        """The label without its stream, since standard output and error of a rank belong together."""
        if not who:
            return who
        known = self._labels.get(who)
        if known is None:
            known = self._labels[who] = who.replace("<stdout>", "").replace("<stderr>", "")
        return known

    def _current(self, who: str) -> OpenRun | None:
        return self._of.get(self._who(who))

    def _last(self, who: str) -> OpenRun | None:
        return self._current(who) or (self.runs[-1] if self.runs else None)

    def _run_of(self, who: str, part: int, line: int) -> OpenRun:
        """The run that this part of the output belongs to; a new one where it cannot be the current one."""
        # Before nccl-tests 2 each rank listed its own device, under its own label.
        run = self._last(who) if part in (DEVICES, FOOTER, END) else self._current(who)
        starts_again = part <= SETTINGS or part == HEADER
        if run is None or run.part > part or (run.part == part and starts_again):
            if run is not None:
                self._flush(run)
            run = OpenRun(self._new_table(line))
            self.runs.append(run)
            self._of[self._who(who)] = run
        if run.part < ROWS <= part:
            self.tests, self._assignments, self._ranks_of_command = [], {}, 0
        run.part = max(run.part, part)
        return run

    def _new_table(self, line: int) -> Table:
        labels = {name: value for name, value in self._assignments.items() if name in COMPARED}
        table = Table(self.file, line, tests=list(self.tests), labels=labels, ranks_of_command=self._ranks_of_command)
        table.settings.update(self._assignments)
        if self._library:
            table.settings["nccl_version"] = self._library
        table.info, self._early = self._early, NcclInfo()
        return table

    # ---------------------------------------------------------------- rows

    def _continues(self, who: str, body: str) -> bool:
        run = self._current(who)
        return run is not None and run.torn is not None and _NUMBER_FIRST.match(body) is not None

    def _row(self, line: int, who: str, text: str, cut: bool = False) -> None:
        """A line that begins with a number: a row, the rest of a torn one, or nothing of ours. `cut`: a torn piece."""
        start = START.match(text)
        run = self._current(who)
        if start is None:
            if run is not None:
                self._rest(line, run, text)
            return
        in_table = run is not None and run.in_table
        if not in_table and not is_known_type(start[3]):
            return
        if run is not None:
            self._flush(run)
        layout = run.layout if run is not None and run.layout is not None else self._layout or ASSUMED
        halves = read_row(text, line, layout)
        if isinstance(halves, str):
            if not in_table and not (cut and self._layout is not None):
                return
            if not is_known_type(start[3]) and not looks_like_a_row(text):
                return
        elif layout is ASSUMED and not _plausible(halves):
            return
        run = self._run_of(who, ROWS, line)
        if run.layout is None:
            run.layout = layout
            run.table.has_redop, run.table.has_root = layout.has_redop, layout.has_root
        if isinstance(halves, list) and (len(halves) == len(layout.placements) or halves[0].in_place is True):
            run.table.halves += halves
            return
        reason = halves if isinstance(halves, str) else "its second half is missing"
        run.torn = Torn(line, _numeric_start(text, start.end()), text, reason)

    def _rest(self, line: int, run: OpenRun, text: str) -> None:
        """The rest of a torn row, or a damaged row."""
        if run.torn is None:
            if run.in_table and looks_like_a_row(text):
                run.table.unreadable.add(line, text, "it does not begin with size, count and type")
            return
        layout = run.layout or ASSUMED
        joined = f"{run.torn.text}   {_numeric_start(text, 0)}"
        if len(joined.split()) > 6 + len(layout.half) * len(layout.placements) + len(layout.tail):
            return
        halves = read_row(joined, run.torn.line, layout)
        run.torn.text = joined
        if isinstance(halves, list) and len(halves) == len(layout.placements):
            run.table.halves += halves
            run.torn = None

    def _flush(self, run: OpenRun) -> None:
        """A torn row will not be completed any more: what is there of it counts."""
        torn, run.torn = run.torn, None
        if torn is None:
            return
        halves = read_row(torn.text, torn.line, run.layout or ASSUMED)
        if isinstance(halves, str):
            run.table.unreadable.add(torn.line, torn.original, torn.reason)
            return
        run.table.halves += halves
        run.halved += 1
        if run.halved <= 5:
            run.table.notes.append(f"{self.file}:{torn.line}: only the first half of this row could be read")
        elif run.halved == 6:
            run.table.notes.append("and more rows of which only the first half could be read")

    def _log_line(self, line: int, who: str, text: str) -> None:
        """A line of NCCL's own log; a piece of a row may stand before it."""
        run = self._last(who)
        (self._early if run is None else run.table.info).add(text)
        first = text.lstrip()[:1]
        if not ("0" <= first <= "9" or first == "-" or first == "N"):
            return
        match = _LOG_LINE.search(text)
        if match is None or not text[: match.start()].strip():
            # Nothing, or one number glued to the host's name, stands before the log line.
            piece = _glued_number(match[0]) if match is not None and self._current(who) is not None else ""
        else:
            piece = text[: match.start()] + _glued_number(match[0])
        if piece and (START.match(piece) or self._continues(who, piece.lstrip())):
            self._row(line, who, piece, cut=True)

    # ---------------------------------------------------------------- everything else

    def _note(self, line: int, who: str, text: str) -> None:
        if "algbw" in text and self._header(line, who, text):
            return
        if "Avg bus bandwidth" in text or "Out of bounds" in text:
            self._footer(line, who, text)
            return
        if "nThread" in text and SETTINGS_LINE.search(text):
            self._run_of(who, SETTINGS, line).table.settings.update(read_settings(text))
            return
        if "Rank " in text:
            match = _DEVICE.search(text)
            if match is not None:
                self._device(line, who, match)
                return
        if "Collective test" in text:
            self._title(line, who, text)
            return
        if "-place" in text:
            out, inside = "out-of-place" in text, "in-place" in text.replace("out-of-place", "")
            self._placement = inside if out is not inside else None
        if "(ms)" in text or "(us)" in text:
            self._unit(who, text)
        if "Blocking Enabled" in text and (run := self._last(who)) is not None:
            run.table.labels["mode"] = "blocking"
        if "ersion" in text:
            self._version(line, who, text)
        if "CCL_" in text or "ALGO=" in text or "###" in text or "===" in text:
            self._assign(line, text)
        if "_perf" in text or "_test" in text or "_bench" in text:
            self._command(who, text)

    def _header(self, line: int, who: str, text: str) -> bool:
        layout = read_header(text, self._placement)
        if layout is None:
            return False
        run = self._run_of(who, HEADER, line)
        run.layout = self._layout = layout
        run.table.has_redop, run.table.has_root = layout.has_redop, layout.has_root
        run.table.is_nccl1 = layout.is_nccl1
        self._placement = None
        return True

    def _unit(self, who: str, text: str) -> None:
        """The line of units under a header; it overrules what the header's names imply."""
        run = self._current(who)
        if run is not None and run.layout is not None and run.part == HEADER and "(GB/s)" in text:
            run.layout = self._layout = run.layout.with_unit(1e-3 if "(ms)" in text else 1e-6)

    def _footer(self, line: int, who: str, text: str) -> None:
        average, wrong = _AVERAGE.search(text), _OUT_OF_BOUNDS.search(text)
        run = self._last(who)
        if run is None or (average is None and wrong is None):
            return
        self._flush(run)
        if run.part < END:
            run = self._run_of(who, FOOTER, line)
        if average is not None and run.table.average is None:
            run.table.average = number(average[1])
        if wrong is not None and run.table.out_of_bounds is None:
            run.table.out_of_bounds = (int(wrong[1]), wrong[2].upper())

    def _device(self, line: int, who: str, match: re.Match[str]) -> None:
        rank, group, host, name = int(match[1]), int(match[2] or 0), match[3], (match[4] or "").strip()
        if rank >= LARGEST_WORLD:
            return
        run = self._run_of(who, DEVICES, line)
        run.groups[group] = run.groups.get(group, 0) + 1
        run.largest_rank = max(run.largest_rank, rank)
        run.table.ranks = max(run.groups.values()) if len(run.groups) > 1 else run.largest_rank + 1
        if host:
            run.hosts.add(host)
            run.table.environment["hosts"] = len(run.hosts)
        if name and "device" not in run.table.environment:
            run.table.environment["device"] = name[:80]

    def _title(self, line: int, who: str, text: str) -> None:
        match = _TEST.search(text)
        if "starting" in text:
            self._run_of(who, TITLE, line).table.titled = match[1] if match is not None else None
            return
        run = self._last(who)
        if "concluded" in text and run is not None and run.part >= HEADER:
            self._flush(run)
            run.table.concluded = True
            run.part = END
            if match is not None and run.table.titled is None:
                run.table.titled = match[1]

    def _version(self, line: int, who: str, text: str) -> None:
        match = _TOOL_VERSION.search(text)
        if match is not None:
            run = self._last(who)
            if run is None or run.part >= HEADER or "headers=" in text:
                run = self._run_of(who, VERSION, line)
            run.table.tool, run.table.version = match[1].lower(), match[2][:60]
            library = re.search(r"[nr]ccl-library=(\d+)", text)
            if library is not None:
                run.table.settings["nccl_version"] = library[1][:20]
            return
        match = _LIBRARY_VERSION.search(text)
        if match is not None:
            self._library = match[1][:40]
            if self.runs and self.runs[-1].part < FOOTER:
                self.runs[-1].table.settings.setdefault("nccl_version", self._library)

    def _assign(self, line: int, text: str) -> None:
        """What a title or a command sets: NCCL_ALGO=Ring, or a section such as "### ALGO=Ring size=8"."""
        section = _SECTION.match(text[:1000])
        if section is not None:
            pairs = dict(_PAIR.findall(section[1]))
            if any(_SECTION_KEY.match(name) for name in pairs):
                self._section(line, pairs)
        self._assignments.update(read_assignments(text))

    def _section(self, line: int, pairs: dict[str, str]) -> None:
        for run in self._of.values():
            self._flush(run)
        table = self._new_table(line)
        for name, value in pairs.items():
            if name.upper().endswith("ALGO"):
                table.labels["algorithm"] = algorithm_name(value)
            elif name.upper().endswith("PROTO"):
                table.labels["protocol"] = protocol_name(value)
        opened = OpenRun(table, section=frozenset(pairs))
        self.runs.append(opened)
        for who in [*self._of, ""]:
            self._of[who] = opened

    def _command(self, who: str, text: str) -> None:
        found = [match[1] for match in _TEST.finditer(text[:4000])][:8]
        if not found:
            return
        self.tests = [*self.tests, *found][-64:]
        self._ranks_of_command = ranks_of_command(text) or self._ranks_of_command
        run = self._last(who)
        if run is not None and run.part < ROWS:
            run.table.tests += found


def looks_like_a_row(text: str) -> bool:
    """Mostly numbers, and about as many as a row has."""
    words = text.split()
    return 6 <= len(words) <= 32 and sum(number(word) is not None or word == "N/A" for word in words) >= 5


def _plausible(halves: Sequence[Half]) -> bool:
    """Without a header: the rates have to fit size and time, in microseconds or milliseconds, at least roughly."""
    for half in halves:
        if half.algbw is None or half.busbw is None or half.busbw > 2.1 * half.algbw + 3 * half.busbw_slack:
            return False
        if half.algbw > 10 * half.algbw_slack:
            factor = half.algbw * 1e9 * half.time_s / half.size if half.size else 0.0
            if not (0.4 < factor < 1.6 or 0.4e-3 < factor < 1.6e-3):
                return False
    return True


def _numeric_start(text: str, start: int) -> str:
    """The text up to its first word that is no number, from `start` on; a number glued to that word stays."""
    end = start
    for match in re.finditer(r"\S+", text[start : start + 400]):
        word = match[0]
        is_redop = end == start and word.isalpha()
        if number(word) is None and word not in _NOT_A_NUMBER and not is_redop:
            return text[: start + match.start()] + _glued_number(word)
        end = start + match.end()
    return text[:end]


def _glued_number(word: str) -> str:
    """The number at the beginning of a word such as `-1host-0:123:456`."""
    if re.match(r"-1\d", word):
        return "-1"
    match = _GLUED.match(word)
    return match[1] if match is not None else ""
