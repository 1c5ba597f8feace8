from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from busbw.comparing import check
from busbw.core.call import Call
from busbw.core.measurement import Results, Run
from busbw.errors import UsageError

Make = Callable[..., Results]
MIB = 2**20
SMALL, LARGE = (Call("all_reduce", size, 2, "float32") for size in (MIB, 64 * MIB))


def time_s(call: Call, busbw_GBps: float) -> float:  # noqa: N803
    """At N = 2 the factor of all_reduce is 1."""
    return call.size_bytes / busbw_GBps / 1e9


def test_every_row_of_the_range_must_reach_the_rate_not_their_average(results: Make) -> None:
    run = results({SMALL: [time_s(SMALL, 10)], LARGE: [time_s(LARGE, 90)]})
    assert check(run, ["40GB/s@all_reduce:>=64MiB"]).passed
    gate = check(run, ["40GB/s@all_reduce"])
    assert (gate.passed, gate.exit_status) == (False, 1)
    failed = [outcome for outcome in gate.outcomes if not outcome.passed]
    assert [outcome.row for outcome in failed] == ["all_reduce 1 MiB N=2 float32"]
    assert failed[0].message == "busbw 10.0 GB/s is below 40.0 GB/s"
    assert (failed[0].busbw_GBps, failed[0].least_busbw_GBps) == (pytest.approx(10), 40)


def test_a_row_of_several_launches_stands_for_their_median(results: Make) -> None:
    run = results({LARGE: [time_s(LARGE, rate) for rate in (50, 41, 10)]})
    gate = check(run, ["40GB/s"])
    assert gate.passed
    assert gate.outcomes[0].message == "busbw 41.0 GB/s (median of 3) is at least 40.0 GB/s"


def test_a_rule_that_no_row_falls_under_fails(results: Make) -> None:
    run = results({SMALL: [1.0], Call("all_reduce", MIB, 1): [1.0]})
    gate = check(run, ["1MB/s@all_gather", "1kB/s@all_reduce,N=1"])
    assert [(outcome.passed, outcome.row) for outcome in gate.outcomes] == [(False, "no row")] * 2
    assert gate.outcomes[0].message == "no row of 2 falls under the rule"
    assert gate.outcomes[1].message.endswith("; 1 that it covers have no busbw")


def test_wrong_results_fail_even_outside_of_the_rules(results: Make) -> None:
    wrong = results({SMALL: [1e-3]}, wrong=5).measurements
    right = results({LARGE: [1e-3]}).measurements
    gate = check(Results(Run(), wrong + right), ["1GB/s@all_reduce:>=64MiB"])
    assert [outcome.message for outcome in gate.outcomes if not outcome.passed] == [
        "5 elements of its results are wrong"
    ]
    assert not check(results({SMALL: [1e-3]}, marks=["validation_failed"]), ["1MB/s"]).passed


def test_a_baseline_fails_what_is_slower_and_what_is_missing(results: Make) -> None:
    old = results({SMALL: [1, 1.01, 0.99, 1, 1.01], LARGE: [1, 1.01, 0.99, 1.01, 0.99]})
    new = results({SMALL: [1.2, 1.21, 1.19, 1.2, 1.21], LARGE: [1, 1.01, 0.99, 1.01, 0.99]})
    gate = check(new, baseline=old)
    assert not gate.passed
    failed = {outcome.row for outcome in gate.outcomes if not outcome.passed}
    assert "all_reduce 1 MiB N=2 float32" in failed
    assert "all_reduce 64 MiB N=2 float32" not in failed
    assert gate.comparison is not None
    assert gate.comparison.verdict == "slower"
    assert check(old, baseline=new).passed
    missing = check(results({LARGE: [1] * 5}), baseline=old)
    assert [outcome.message for outcome in missing.outcomes if not outcome.passed] == [
        "the baseline has this row and the results do not"
    ]


def test_rows_that_cannot_be_compared_with_the_baseline_fail(results: Make) -> None:
    old = Results(
        Run(),
        results({SMALL: [1.0]}, {"sched": "batch"}).measurements + results({LARGE: [1.0]}).measurements,
    )
    gate = check(results({SMALL: [1.0], LARGE: [1.0]}), baseline=old)
    assert [outcome.message[:44] for outcome in gate.outcomes if not outcome.passed] == [
        "cannot be compared: sched is batch in A and "
    ]


def test_what_cannot_be_told_passes_unless_asked(results: Make) -> None:
    run = results({SMALL: [1.0]})
    assert check(run, baseline=run).passed
    assert not check(run, baseline=run, fail_on_unknown=True).passed


def test_junit_has_a_suite_for_each_rule_and_a_case_for_each_row(results: Make) -> None:
    run = results({SMALL: [time_s(SMALL, 10)], LARGE: [time_s(LARGE, 90)]})
    root = ElementTree.fromstring(check(run, ["40GB/s@all_reduce:>=1MiB", "1GB/s@all_gather"]).junit("a<b.jsonl"))
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in root] == [
        ("40GB/s@all_reduce:>=1MiB", "2", "1"),
        ("1GB/s@all_gather", "1", "1"),
    ]
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.get("message") == "busbw 10.0 GB/s is below 40.0 GB/s"


def test_nothing_to_check_against_is_an_error(results: Make) -> None:
    with pytest.raises(UsageError, match="give --min-busbw RULE or --baseline FILE"):
        check(results({SMALL: [1.0]}))
    with pytest.raises(UsageError, match="an example: 40GB/s@all_reduce,N=8:>=256MiB"):
        check(results({SMALL: [1.0]}), ["40"])
