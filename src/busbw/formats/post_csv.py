"""The post's CSV: op,world_size,bytes,time_ms,algbw_GBps,busbw_GBps, with more columns allowed behind them.

The rates are derived again from size and time, since the printed ones are rounded; a rate that contradicts its time by
more than its rounding is an error, because then one of the two columns is wrong.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping

from busbw.core.call import Call, is_whole
from busbw.core.collective import find_collective
from busbw.core.file_format import FileFormat
from busbw.core.log_text import LogText
from busbw.core.measurement import Measurement, Results, Run, Source
from busbw.errors import FileError, UsageError

HEADER = ("op", "world_size", "bytes", "time_ms", "algbw_GBps", "busbw_GBps")


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
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), skipinitialspace=True)
    measurements = []
    try:
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        for record in reader:
            measurements.append(_row(record, Source(file_name, reader.line_num)))
    except (UsageError, ValueError, TypeError, csv.Error) as error:
        line = reader.line_num + isinstance(error, csv.Error)  # which is raised before the line is counted
        raise FileError(f"{file_name}:{line}: {str(error)[:300]}; the columns are {','.join(HEADER)}") from error
    if not measurements:
        raise FileError(f"{file_name}: has the header of the post's CSV and no row under it")
    return Results(Run(tool="post_csv"), tuple(measurements))


def _row(record: Mapping[str, str], source: Source) -> Measurement:
    if any(record.get(name) in (None, "") for name in HEADER[:4]):
        raise ValueError("the row is cut: a column is empty")
    collective = find_collective(record["op"])
    world_size, size_bytes = int(record["world_size"]), int(record["bytes"])
    time_s = float(record["time_ms"]) / 1e3
    if not (is_whole(world_size, 1) and is_whole(size_bytes) and 0 < time_s < math.inf):
        given = f"world_size {world_size}, bytes {size_bytes}, time_ms {record['time_ms']}"
        raise ValueError(f"{given}: world_size and time_ms must be positive, bytes at least 0")
    row = Measurement(Call(collective.name, size_bytes, world_size), time_s, source=source, origin="read")
    printed = record.get("algbw_GBps")
    if printed and row.algbw_GBps is not None:
        # The time is rounded to 4 decimals of a millisecond, the rate to 2 decimals.
        slack = 0.0051 + row.algbw_GBps * 0.00006 / (time_s * 1e3)
        if not abs(float(printed) - row.algbw_GBps) <= slack:
            raise ValueError(f"algbw {printed} GB/s contradicts {size_bytes} B in {record['time_ms']} ms")
    return row


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
