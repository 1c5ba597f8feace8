"""Our own results file: one JSON object a line, appended as rows are taken, so that a crash loses nothing.

History of the format:
    1   first line {"type": "run", "format": 1, ...}; then "launch", "measurement" and "note" lines, in any order.

A last line that was cut (a full disk, a killed process) is reported as a note; every whole line before it is read.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from busbw.core.file_format import FileFormat
from busbw.core.log_text import LogText
from busbw.core.measurement import Measurement, Results, Run, Source
from busbw.errors import BusbwError, FileError

FORMAT_VERSION = 1

ENDED_EARLY = "ended early: "
"""How the note begins that says why a run ended before its last row."""


def run_record(run: Run) -> dict[str, Any]:
    """The first line of a results file."""
    return {
        "type": "run",
        "format": FORMAT_VERSION,
        "tool": run.tool,
        "version": run.version,
        "started": run.started,
        "settings": dict(run.settings),
        "environment": dict(run.environment),
    }


def measurement_record(measurement: Measurement) -> dict[str, Any]:
    """The line of one row."""
    return {"type": "measurement", **measurement.to_json()}


def read(text: str, file_name: str) -> Results:
    """Read a results file; FileError names the line that breaks the format."""
    run: Run | None = None
    launches: list[dict[str, Any]] = []
    measurements: list[Measurement] = []
    notes: list[str] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            kind = record["type"]
            if kind == "run":
                first = _run(record)
                run = run or first
            elif kind == "measurement":
                measurements.append(Measurement.from_json(record, Source(file_name, number)))
            elif kind == "launch":
                launches.append({key: value for key, value in record.items() if key != "type"})
            elif kind == "note":
                notes.append(str(record["text"]))
        except FileError as error:
            raise FileError(f"{file_name}:{number}: {error}") from error
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
            BusbwError,
        ) as error:
            if number == len(lines):  # no newline behind it: the write was cut
                notes.append(f"{file_name}:{number}: the last line was cut and is not counted")
                continue
            why = f"{type(error).__name__}: {str(error)[:200]}"
            raise FileError(f"{file_name}:{number}: not a line of a busbw results file ({why}); remove it") from error
    run = run or Run()
    return Results(
        replace(
            run,
            launches=tuple(launches),
            notes=tuple(notes),
            failure=next((note for note in reversed(notes) if note.startswith(ENDED_EARLY)), None),
        ),
        tuple(measurements),
    )


def _run(record: dict[str, Any]) -> Run:
    version = record.get("format")
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"results format {version!r} is not a version")
    if version > FORMAT_VERSION:
        raise FileError(
            f"results format {version} is newer than {FORMAT_VERSION}, the newest known here: upgrade busbw"
        )
    return Run(
        tool=str(record.get("tool", "busbw")),
        version=str(record.get("version", "")),
        started=str(record.get("started", "")),
        environment=dict(record.get("environment", {})),
        settings=dict(record.get("settings", {})),
    )


def _recognises(text: LogText) -> bool:
    first = text.head.lstrip()[:2000]
    return first.startswith("{") and '"type"' in first and ('"run"' in first or '"measurement"' in first)


FORMAT = FileFormat(
    "busbw_jsonl",
    "busbw's own results (*.jsonl)",
    _recognises,
    lambda text, options: read(text.whole(), text.name),
    "document",
)
