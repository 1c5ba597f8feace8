"""Other people's runs of nccl-tests: any of them can be explained, and hardly any machine is blamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.core.finding import Finding
from busbw.errors import NoRows
from busbw.findings import explain, facts_of_log, page
from busbw.formats import read_results

LOGS = sorted((Path(__file__).resolve().parents[3] / "shared" / "data" / "logs" / "nccl-tests").glob("[0-9]*"))
pytestmark = pytest.mark.skipif(not LOGS, reason="the logs do not lie beside this checkout (../shared/data/logs)")

BLAMED = {
    "18-reducescatter-medium-linear-steps.txt": {"is_it_good", "network_path"},
    "37-inc-wrong-values.txt": {"wrong_values"},
    "45-old-blank-redop-error1.txt": {"wrong_values", "cpu_as_switch"},
}
"""14 of 23 GB/s over one 200 Gb/s NIC on the other socket; wrong data; all others give no reason to blame anything."""


def told(path: Path) -> list[Finding]:
    text = path.read_text(errors="replace")
    try:
        results = read_results(str(path))
    except NoRows:
        return explain((), facts_of_log(text, path.name))
    found = explain(results, facts_of_log(text, path.name))
    assert page(found, [results], facts_of_log(text, path.name))
    return found


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_log_is_explained_and_blames_nothing_without_reason(path: Path) -> None:
    blamed = {finding.law for finding in told(path) if finding.severity in ("wrong", "problem")}
    assert blamed <= BLAMED.get(path.name, set())


def finding(name: str, law: str) -> Finding:
    path = next(path for path in LOGS if path.name.startswith(name))
    return next(finding for finding in told(path) if finding.law == law)


def test_the_ring_of_eight_a100_is_good() -> None:
    found = finding("01-", "is_it_good")
    assert found.verdict == "holds"
    assert "all_gather at N=8 reaches 219 GB/s busbw; dgx-a100: about 240" in found.statement


def test_their_average_is_explained() -> None:
    found = finding("01-", "average_hides_peak")
    assert found.verdict == "fails"
    assert "the average over all sizes, 58.3 GB/s" in found.statement


def test_a_nic_on_the_other_socket_is_a_cause_and_gpudirect_is_not() -> None:
    found = finding("18-", "network_path")
    assert "far-nic" in found.cause_codes
    assert "gdr-off" in {cause.code for cause in found.ruled_out}
    assert "60 % of the 23.0" in found.statement
