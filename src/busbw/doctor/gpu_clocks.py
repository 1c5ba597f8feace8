"""Does something hold the GPUs' clocks down?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from busbw.core.finding import Cause, Finding, Number
from busbw.doctor import _nvidia
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host
from busbw.host.pci import listed

NAME = "gpu_clocks"
SOURCE = "nvidia-smi --query-gpu"


@dataclass(frozen=True, slots=True)
class Reason:
    """One bit of clocks_throttle_reasons.active (NVML's nvmlClocksEventReason*)."""

    bit: int
    code: str
    text: str
    severity: Literal["problem", "notice"]
    advice: str


REASONS = (
    Reason(0x08, "hw-slowdown", "the hardware slows the clocks (heat, or the power brake)", "problem", "Look at cooling and power supplies; nvidia-smi -q -d PERFORMANCE names the cause"),
    Reason(0x20, "sw-thermal", "the driver slows the clocks because of heat", "problem", "Cooling: fans, air flow, the temperature of the room"),
    Reason(0x40, "hw-thermal", "the hardware slows the clocks because of heat", "problem", "Cooling: fans, air flow, a heat sink that has come loose"),
    Reason(0x80, "power-brake", "the power supply pulls the brake", "problem", "Power supplies and their cabling; the server's power cap"),
    Reason(0x04, "power-cap", "the power limit holds the clocks", "notice", "Usual under full compute load, not in a test of communication; nvidia-smi -q -d POWER shows the limit"),
    Reason(0x02, "fixed-clocks", "the clocks are set by hand", "notice", "sudo nvidia-smi -rac (or -rgc) gives them back"),
)  # fmt: skip


def look(host: Host) -> Seen:
    """Each GPU's reasons, and a power limit below its default."""
    answer = host.run("nvidia-smi-clocks")
    if answer.trouble:  # newer drivers may know the reasons under their new name only
        renamed = host.run("nvidia-smi-events")
        answer = answer if renamed.trouble else renamed
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.text.splitlines()]
    rows = [row for row in rows if len(row) == 8 and row[0].isdecimal()]
    if not rows:
        if not _nvidia.count(host):
            return Seen(nothing="no NVIDIA GPU")
        found = Finding(
            NAME,
            f"The GPUs' clocks are not known: {answer.trouble or 'nvidia-smi prints no rows'}",
            "cannot_tell",
            "notice",
            next="nvidia-smi -q -d CLOCK,PERFORMANCE, on the host",
        )
        return Seen((found,))
    findings = [*_throttled(rows), *_limited(rows)]
    masks = [_mask(row) for row in rows]
    if all(mask is None for mask in masks):
        findings.append(
            Finding(
                NAME,
                "The driver does not say what holds the clocks",
                "cannot_tell",
                "notice",
                next="nvidia-smi -q -d PERFORMANCE",
            )
        )
    elif not findings:
        idle = sum(1 for mask in masks if mask is not None and mask & 1)
        text = "Nothing holds the clocks of the GPUs down"
        text += f" now; {idle} of {len(rows)} are idle, so look again during a run" if idle else ""
        findings.append(Finding(NAME, text, "holds", "fact", _clocks(rows[0])))
    return Seen(tuple(findings))


def _mask(row: list[str]) -> int | None:
    try:
        return int(row[7], 16)
    except ValueError:
        return None


def _clocks(row: list[str]) -> tuple[Number, ...]:
    named = zip(("SM clock", "most", "temperature", "power"), row[1:5], ("MHz", "MHz", "°C", "W"), strict=True)
    values = ((name, _nvidia.number(cell), unit) for name, cell, unit in named)
    return tuple(
        Number(f"GPU{row[0]} {name}", value, unit, SOURCE) for name, value, unit in values if value is not None
    )


def _throttled(rows: list[list[str]]) -> Iterator[Finding]:
    for reason in REASONS:
        held = [row for row in rows if (_mask(row) or 0) & reason.bit]
        if not held:
            continue
        names = listed(f"GPU{row[0]}" for row in held)
        shares = [now / most for row in held if (now := _nvidia.number(row[1])) and (most := _nvidia.number(row[2]))]
        yield Finding(
            NAME,
            f"{names}: {reason.text}",
            "fails",
            reason.severity,
            tuple(number for row in held[:2] for number in _clocks(row)),
            (Cause(reason.code, reason.text),),
            advice=reason.advice + ("; every ring waits for the slowest GPU" if len(held) < len(rows) else ""),
            weight=1 - min(shares, default=1.0),
            headline=f"{names} is throttled" if reason.severity == "problem" else "",
        )


def _limited(rows: list[list[str]]) -> Iterator[Finding]:
    for row in rows:
        limit, default = _nvidia.number(row[5]), _nvidia.number(row[6])
        if limit and default and limit < 0.98 * default:
            yield Finding(
                NAME,
                f"GPU{row[0]} is limited to {limit:.0f} W; its default is {default:.0f} W",
                "fails",
                "notice",
                (Number("power limit", limit, "W", SOURCE), Number("default", default, "W", SOURCE)),
                (Cause("power-limit", "the power limit was lowered"),),
                advice=f"sudo nvidia-smi -i {row[0]} -pl {default:.0f}, unless the rack's power asks for it",
                weight=1 - limit / default,
            )


PROBE = Probe(
    NAME,
    "Does heat, power or a setting hold the GPUs' clocks down?",
    "nvidia-smi --query-gpu (clocks, reasons, power)",
    look,
)
