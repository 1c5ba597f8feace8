from __future__ import annotations

import dataclasses

import pytest

from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.finding import parse_facts
from busbw.core.measurement import Measurement, Results, Run, Source
from busbw.errors import UsageError
from busbw.report.content import Content, make_content
from busbw.report.data import COLUMNS, FACTORS, page_model

from .rows import HOSTILE, OPS, REASON, SIZES, results


@pytest.fixture(scope="module")
def content() -> Content:
    return make_content([[results(noise=0.0)]])


def test_title_and_subtitle_say_what_and_where(content: Content) -> None:
    assert content.title == "6 collectives on 2, 4 and 8 ranks"
    assert content.subtitle == f"126 rows, on nccl, host {HOSTILE}, 2026-11-30"


def test_key_numbers_are_those_of_all_reduce_at_the_largest_n(content: Content) -> None:
    """T = 8 us + 7 x 3 us + 1.75 S / 18 GB/s: half of the rate where both are equal, 29e-6 x 18e9 / 1.75 = 298286 B."""
    (side,) = content.sides
    assert side.key_of == "all_reduce at N = 8"
    values = {key.name: key.value for key in side.keys}
    assert values.pop("half of that rate at") in ("291 KiB", "292 KiB")  # read off in steps of the size
    assert values == {
        "busbw of large sizes": "18.0 GB/s",
        "latency of small sizes": "29.0 us",
        "1 GiB takes": "104 ms",
    }


def test_the_overview_is_busbw_at_the_largest_size(content: Content) -> None:
    overview = content.sides[0].overview
    assert overview is not None
    assert overview.world_sizes == (2, 4, 8)
    assert [op for op, _ in overview.rows] == list(OPS)
    cell = overview.rows[-1][1][-1]
    assert cell is not None
    time_s = 29e-6 + 1.75 * 2**30 / 18e9
    assert cell.rate == f"{2**30 / time_s * 1.75 / 1e9:.1f}"
    assert cell.about == "at 1 GiB"
    assert not cell.marked


def test_findings_stand_in_groups_by_severity(content: Content) -> None:
    groups = content.sides[0].groups
    assert [group.severity for group in groups] == sorted(
        (group.severity for group in groups), key=["wrong", "problem", "notice", "fact"].index
    )
    assert all(finding.severity == group.severity for group in groups for finding in group.findings)
    assert content.sides[0].verdict[0].startswith("all_reduce at N=8 reaches 18.0 GB/s busbw")


def test_facts_change_the_verdict() -> None:
    told = make_content([[results(noise=0.0)]], parse_facts(["peak=20GB/s"]))
    assert "peak" in {fact.name for fact in told.sides[0].known}
    assert told.sides[0].verdict[0] != make_content([[results(noise=0.0)]]).sides[0].verdict[0]


def test_the_fit_says_launch_alpha_and_bandwidth(content: Content) -> None:
    fit = content.sides[0].fit
    line = next(line for line in fit.curves if (line.collective, line.world_size) == ("all_reduce", 8))
    assert (line.launch.value, line.bandwidth.value, line.rows) == ("29.0 us", "18.0 GB/s", len(SIZES))
    assert line.sizes == "4 KiB to 1 GiB"
    over_n = next(line for line in fit.over_n if line.collective == "all_gather")
    assert over_n.sentences[1].startswith("So t0 = 8.00 us")
    assert "alpha = 3.00 us" in over_n.sentences[1]
    assert "backend=nccl" in fit.shared


def test_the_machine_is_what_the_file_says(content: Content) -> None:
    machine = content.sides[0].machine
    (run,) = machine.runs
    assert run.tool == "busbw 0.1.0, 2026-11-30 09:09:20 UTC"
    entries = {entry.name: entry.values for entry in run.machine}
    assert entries["memory"] == ("512 GiB",)
    assert entries["GPUs"] == ("8 x RTX PRO 6000 (driver_version 580)",)
    assert entries["variables"] == ("NCCL_DEBUG = INFO",)
    settings = {entry.name: entry.values for entry in run.settings}
    assert settings["row budget"] == ("3.00 s",)
    assert "iters" not in settings
    assert len(machine.ranks) == 8
    assert machine.ranks[3].host == HOSTILE


def test_marks_and_the_worked_row(content: Content) -> None:
    (mark,) = content.derived.marks
    assert (mark.code, mark.rows, mark.reason) == ("wide_interval", 1, REASON)
    head, algbw, busbw = content.derived.example
    assert head.startswith("all_reduce, N = 8, S = 1 GiB, t = 104 ms")
    assert algbw.startswith("algbw = S / t = 1073741824 B / 0.104")
    assert "x 2(8-1)/8 = " in busbw
    factor = next(line for line in content.derived.factors if line.collective == "all_reduce")
    assert (factor.formula, factor.at) == ("2(N-1)/N", ("1", "1.5", "1.75"))


def test_every_bus_factor_is_one_that_the_page_can_evaluate() -> None:
    for kind in COLLECTIVES:
        formula = FACTORS[kind.bus_factor]
        for n in (2, 3, 8, 1000):
            written = {"1": 1.0, "(N-1)/N": (n - 1) / n, "2(N-1)/N": 2 * (n - 1) / n}[formula]
            assert written == kind.bus_factor(n)


def test_rows_keep_every_digit_and_texts_are_shared(content: Content) -> None:
    data = content.data
    assert data["columns"] == list(COLUMNS)
    row = dict(zip(COLUMNS, data["rows"][-1], strict=True))
    source = results(noise=0.0).measurements[-1]
    assert row["time_s"] == source.time_s
    assert row["busbw_GBps"] == source.busbw_GBps
    assert data["texts"][row["op"]] == "all_reduce"
    assert data["texts"][row["source"]] == "run.jsonl:127"
    assert len(data["texts"]) == len(set(data["texts"]))


def test_two_runs_are_compared_and_the_first_is_a() -> None:
    before, after = results(file="a", launches=5), results(file="b", launches=5, slower=1.5)
    content = make_content([[before], [after]])
    (page,) = content.compared
    assert (page.a, page.b, page.verdict) == ("A", "B", "slower")
    rows = content.data["comparisons"][0]["rows"]
    assert len(rows) == 126
    assert all(row["verdict"] == "slower" and abs(row["ratio"] - 1.5) < 0.03 for row in rows)
    assert set(content.data["models"]) == {"A", "B"}
    assert len(content.sides) == 2


def test_runs_that_cannot_be_compared_say_why() -> None:
    content = make_content([[results(file="a")], [results(file="b", dtype="float32")]])
    (page,) = content.compared
    assert page.verdict == "not compared"
    assert "no row that can be compared" in page.sentence


def test_rows_that_are_not_drawn_are_counted_and_listed() -> None:
    alone = Measurement(Call("all_reduce", 8, 1), 1e-6, source=Source("x", 9))
    still = Measurement(Call("barrier", 0, 4), 2e-6, source=Source("x", 10))
    base = results(worlds=(2,))
    content = make_content([[dataclasses.replace(base, measurements=(*base.measurements, alone, still))]])
    assert content.undrawn == 2
    assert len(content.data["rows"]) == len(base.measurements) + 2
    assert content.data["ops"] == list(OPS)


def test_rows_that_move_nothing_still_make_a_page() -> None:
    content = make_content([[Results(Run(), (Measurement(Call("barrier", 0, 4), 2e-6),))]])
    assert content.data["lines"] == []
    assert content.sides[0].overview is None
    assert content.ring is None


def test_one_size_alone_has_no_fit_and_says_why() -> None:
    content = make_content([[results(sizes=(4096,))]])
    assert content.data["models"] == {}
    assert content.sides[0].fit.why_none.startswith("nothing to fit")


def test_the_ring_is_of_an_n_that_was_measured() -> None:
    ring = make_content([[results(worlds=(2, 4))]]).ring
    assert ring is not None
    assert (ring.schedule.collective, ring.schedule.world_size) == ("all_reduce", 4)
    assert "6 steps" in ring.about
    assert "At S = 1 GiB a shard is 256 MiB, and each rank sends 1.5 GiB in all" in ring.about


def test_a_large_n_is_shown_on_fewer_ranks() -> None:
    ring = make_content([[results(worlds=(64,), ops=("all_gather",))]]).ring
    assert ring is not None
    assert (ring.schedule.collective, ring.schedule.world_size) == ("all_gather", 8)
    assert "the rows are at N = 64; the pattern is the same" in ring.about


def test_more_rows_than_the_page_holds_are_said() -> None:
    content = make_content([[results()]], most_rows=50)
    assert (content.rows, content.rows_shown, len(content.data["rows"])) == (126, 50, 50)
    assert sum(len(line["points"]) for line in content.data["lines"]) == 126


def test_no_row_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to report"):
        make_content([[Results(Run(), ())]])


def test_a_saved_model_has_no_infinity() -> None:
    from busbw.costs import fit

    saved = page_model(fit(results(sizes=(4096, 8192)).measurements).model)
    assert "quantile" in saved["curves"][0]["pieces"][0]

    def numbers(value: object) -> list[float]:
        if isinstance(value, dict):
            return [n for inner in value.values() for n in numbers(inner)]
        if isinstance(value, list | tuple):
            return [n for inner in value for n in numbers(inner)]
        return [value] if isinstance(value, float) else []

    assert all(abs(n) < float("inf") for n in numbers(saved))
