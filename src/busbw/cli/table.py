"""The table in nccl-tests' look: a header per collective and world size, one line a row."""

from __future__ import annotations

from busbw.core.call import UNKNOWN_COLLECTIVE
from busbw.core.measurement import Measurement
from busbw.units import format_size

_COLUMNS = (
    f"# {'size':>12} {'count':>12} {'type':>8} {'redop':>6} {'root':>5} {'place':>5} {'time':>10} {'algbw':>8} {'busbw':>8} "
    f"{'#wrong':>7} {'+-':>6}  notes"
)
_UNITS = f"# {'(B)':>12} {'(elements)':>12} {'':>8} {'':>6} {'':>5} {'':>5} {'(us)':>10} {'(GB/s)':>8} {'(GB/s)':>8} {'':>7} {'(%)':>6}"
_RED, _YELLOW, _PLAIN = "\033[31m", "\033[33m", "\033[0m"


class Table:
    """Prints rows one by one, with a new header when what it says changes."""

    def __init__(self, color: bool = False) -> None:
        self.color = color
        self._head: tuple[object, ...] = ()
        self.footnotes: dict[str, str] = {}

    def lines(self, row: Measurement) -> list[str]:
        """The lines to print for a row: a header if needed, then the row."""
        group = row.labels.get("group", "")
        settings = [f"{name}={row.labels[name]}" for name in sorted(row.labels) if name.isupper()]
        where = (row.labels.get("backend"), row.labels.get("schedule"))
        head = (row.call.collective, row.call.world_size, group, tuple(settings), where, row.repeat)
        out = []
        if head != self._head:
            out += ["#" if self._head else "", self._title(row, group, settings), _COLUMNS, _UNITS]
            self._head = head
        return [line for line in out if line] + [self._row(row)]

    def _title(self, row: Measurement, group: str, settings: list[str]) -> str:
        parts = [row.call.collective, f"N={row.call.world_size}"]
        if "backend" in row.labels:
            parts.append(f"on {row.labels['backend']}")
        if "schedule" in row.labels:
            parts.append(f"by schedule {row.labels['schedule']}")
        if row.labels.get("sched", "default") != "default":
            parts.append(f"sched {row.labels['sched']}")
        if group:
            parts.append(f"ranks {group}")
        if row.repeat:
            parts.append(f"repeat {row.repeat}")
        return f"# {'  '.join(parts + settings)}"

    def _row(self, row: Measurement) -> str:
        call, summary = row.call, row.summary
        place = {None: "", True: "in", False: "out"}[call.in_place]
        half = summary.half_width if summary is not None else None
        for mark in row.marks:
            self.footnotes.setdefault(mark.code, mark.reason)
        known = call.collective != UNKNOWN_COLLECTIVE
        # As nccl-tests: none and -1 where there is no such thing; blank where there is one and the file does not say.
        redop = _or(call.redop, "none" if known and not call.kind.reduces else "")
        root = _or(call.root, -1 if known and not call.kind.rooted else "")
        line = (
            f"  {call.size_bytes:>12} {_or(call.count, ''):>12} {_or(call.dtype, ''):>8} {redop:>6} "
            f"{root:>5} {place:>5} {number(row.time_s * 1e6):>10} {_rate(row.algbw_GBps):>8} "
            f"{_rate(row.busbw_GBps):>8} {_or(row.wrong, 'N/A'):>7} {'' if half is None else f'{half * 100:.1f}':>6}  "
            f"{' '.join([mark.code for mark in row.marks] + _beside(row))}"
        ).rstrip()
        if not self.color or not row.marks:
            return line
        return f"{_RED if row.wrong else _YELLOW}{line}{_PLAIN}"

    def legend(self) -> list[str]:
        """One line for each kind of note that was printed, with one row's numbers as its example."""
        return [f"# {code}: {reason}" for code, reason in sorted(self.footnotes.items())]


def _beside(row: Measurement) -> list[str]:
    """How many times as long calls and products took beside each other."""
    found = [] if row.beside is None else [("calls", row.beside.calls), ("products", row.beside.products)]
    return [f"{name} x{slowdown.ratio:.2f}" for name, slowdown in found if slowdown is not None]


def _or(value: object, other: object) -> object:
    return other if value is None else value


def _rate(value: float | None) -> str:
    return "n/a" if value is None else number(value)


def number(value: float) -> str:
    """Two decimals while they fit, fewer above, as nccl-tests prints."""
    if value < 10_000:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 1_000_000 else f"{value:.0f}"


def row_line(row: Measurement) -> str:
    """One row as one sentence, for summaries."""
    busbw = "n/a" if row.busbw_GBps is None else f"{number(row.busbw_GBps)} GB/s"
    return f"{row.call.collective} N={row.call.world_size} {format_size(row.call.size_bytes)}: busbw {busbw}"
