"""The post's CSV: op,world_size,bytes,time_ms,algbw_GBps,busbw_GBps, with more columns allowed behind them.

The rates are derived again from size and time, since the printed ones are rounded; a rate that contradicts its time by
more than its rounding is an error, because then one of the two columns is wrong. Of the columns behind the six, those of
a call (dtype, redop, root, place), `wrong` and `repeat` are what they say, as the CSV of `busbw report` has them; other
texts become labels, since rows that differ in one (an algorithm, a machine) are not one row measured twice.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping

from busbw.core.call import Call, is_whole
from busbw.core.collective import find_collective
from busbw.core.dtype import find_dtype
from busbw.core.file_format import FileFormat
from busbw.core.log_text import LogText
from busbw.core.measurement import Measurement, Results, Run, Source
from busbw.errors import FileError, UsageError
from busbw.formats._lines import number

HEADER = ("op", "world_size", "bytes", "time_ms", "algbw_GBps", "busbw_GBps")
_OF_THE_ROW = frozenset({*HEADER, "dtype", "redop", "root", "place", "in_place", "wrong", "repeat"})
_BESIDE_THE_ROW = frozenset({"marks", "source", "notes", "note", "comment", "date", "timestamp", "started"})
"""Texts that differ from row to row, and say nothing of what was measured."""
_PLACES = {"": None, "in": True, "in_place": True, "true": True, "out": False, "out_of_place": False, "false": False}


def write(measurements: Iterable[Measurement]) -> str:
    """The rows in exactly the post's six columns, rounded as the post did (4, 2 and 2 decimals).

    At N = 1 the post's formula gives a busbw of 0 for all but broadcast; here the field is empty, since nothing moves.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for row in measurements:
        algbw, busbw = row.algbw_GBps, row.busbw_GBps
        writer.writerow(
            [
                row.call.collective,
                row.call.world_size,
                row.call.size_bytes,
                round(row.time_s * 1e3, 4),
                "" if algbw is None else round(algbw, 2),
                "" if busbw is None else round(busbw, 2),
            ]
        )
    return out.getvalue()


def read(text: str, file_name: str) -> Results:
    """Read the post's CSV; FileError names the line and the rule it breaks."""
    # Strict: a quote that does not close would otherwise swallow the rows behind it, in silence.
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), skipinitialspace=True, strict=True)
    measurements = []
    try:
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        repeated = [name for name in reader.fieldnames if name and reader.fieldnames.count(name) > 1]
        if repeated:
            raise ValueError(f"the column {repeated[0]} is there twice")
        for record in reader:
            measurements.append(_row(record, Source(file_name, reader.line_num)))
    except (UsageError, ValueError, TypeError, csv.Error) as error:
        line = reader.line_num + isinstance(error, csv.Error)  # which is raised before the line is counted
        raise FileError(f"{file_name}:{line}: {str(error)[:300]}; the columns are {','.join(HEADER)}") from error
    if not measurements:
        raise FileError(f"{file_name}: has the header of the post's CSV and no row under it")
    return Results(Run(tool="post_csv"), tuple(measurements))


def _row(record: Mapping[str | None, str | list[str] | None], source: Source) -> Measurement:
    cells = {name: value.strip() for name, value in record.items() if name and isinstance(value, str)}
    if record.get(None):  # csv's key of cells without a column
        raise ValueError("the row has more cells than the header has columns")
    if any(not cells.get(name) for name in HEADER[:4]):
        raise ValueError("the row is cut: a column is empty")
    if any(line.count(",") >= len(HEADER) - 1 for cell in cells.values() for line in cell.split("\n")[1:]):
        raise ValueError("a quote that opens in the rows before is closed here, and rows are between")
    collective = find_collective(cells["op"])
    world_size, size_bytes = int(cells["world_size"]), int(cells["bytes"])
    time_s = float(cells["time_ms"]) / 1e3
    if not (
        is_whole(world_size, 1) and is_whole(size_bytes) and 0 < time_s < math.inf and size_bytes / time_s < math.inf
    ):
        given = f"world_size {world_size}, bytes {size_bytes}, time_ms {cells['time_ms']}"
        raise ValueError(f"{given}: world_size and time_ms must be positive, bytes at least 0")
    row = Measurement(
        _call(collective.name, size_bytes, world_size, cells),
        time_s,
        wrong=_whole(cells, "wrong", 0),
        labels=_labels(cells),
        repeat=_whole(cells, "repeat", 0) or 0,
        source=source,
        origin="read",
    )
    for name, rate in (("algbw", row.algbw_GBps), ("busbw", row.busbw_GBps)):
        printed = cells.get(f"{name}_GBps")
        if not printed or rate is None:
            continue
        # The time is rounded to 4 decimals of a millisecond, the rate to 2 decimals.
        slack = 0.0051 + rate * 0.00006 / (time_s * 1e3)
        if not abs(float(printed) - rate) <= slack:
            raise ValueError(
                f"{name} {printed} GB/s contradicts {size_bytes} B in {cells['time_ms']} ms, which is {rate:.2f} GB/s"
            )
    return row


def _call(collective: str, size_bytes: int, world_size: int, cells: Mapping[str, str]) -> Call:
    place = (cells.get("place") or cells.get("in_place") or "").lower().replace("-", "_")
    if place not in _PLACES:
        raise ValueError(f"place {place[:40]!r} is neither in nor out")
    dtype = cells.get("dtype", "").removeprefix("torch.")
    redop = cells.get("redop", "").lower()
    return Call(
        collective,
        size_bytes,
        world_size,
        dtype=find_dtype(dtype).name if dtype else None,
        redop=None if redop in ("", "none") else redop,
        root=_whole(cells, "root", -1),
        in_place=_PLACES[place],
    )


def _whole(cells: Mapping[str, str], name: str, least: int) -> int | None:
    text = cells.get(name, "")
    if text in ("", "N/A", "-1"):
        return None
    value = int(text)
    if not is_whole(value, least):
        raise ValueError(f"{name} {text[:40]} is not a whole number of {least} or more")
    return value


def _labels(cells: Mapping[str, str]) -> dict[str, str]:
    """The texts of columns that are not the row's own; `labels` holds several, as `name=value name=value`."""
    pairs = [word.split("=", 1) for word in cells.get("labels", "").split() if "=" in word]
    found = {name: value[:100] for name, value in pairs if name}
    for name, cell in cells.items():
        if name not in _OF_THE_ROW | _BESIDE_THE_ROW | {"labels"} and cell and number(cell) is None:
            found[name[:60]] = cell[:100]
    return found


def _recognises(text: LogText) -> bool:
    first = text.head.lstrip("\ufeff \n").split("\n", 1)[0]
    return tuple(name.strip() for name in first.split(","))[: len(HEADER)] == HEADER


FORMAT = FileFormat(
    "post_csv",
    f"CSV with {','.join(HEADER)}",
    _recognises,
    lambda text, options: read(text.whole(), text.name),
    "document",
)
